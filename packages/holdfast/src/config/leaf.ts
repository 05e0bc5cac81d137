import * as z from "zod/mini";
import { MODEL } from "./model-name.ts";

/** One value: `undefined` from the parser means that it does not fit, and the message says what would. */
export function leaf<T>(expected: string, parse: (value: unknown) => T | undefined) {
  return z.pipe(
    z.unknown(),
    z.transform((value: unknown, payload): T => {
      const parsed = parse(value);
      if (parsed !== undefined) return parsed;
      payload.issues.push({ code: "custom", input: value, message: `expected ${expected}` });
      return z.NEVER;
    }),
  );
}

export function choice<const T extends string>(choices: readonly T[]) {
  return leaf(`one of ${choices.join(", ")}`, (value) => choices.find((known) => known === value));
}

export function yesOrNo() {
  return leaf("true or false", (value) => (typeof value === "boolean" ? value : undefined));
}

export function count(least: number) {
  return leaf(`a whole number from ${least}`, (value) => whole(value, least));
}

export function model() {
  return leaf("provider:model, such as scripted:agent.yaml or command:./my-agent", (value) =>
    typeof value === "string" && MODEL.test(value) ? value : undefined,
  );
}

export function whole(value: unknown, least: number): number | undefined {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= least ? value : undefined;
}

export function nonEmpty(value: unknown): string | undefined {
  return typeof value === "string" && value.trim() !== "" && !value.includes("\0") ? value : undefined;
}
