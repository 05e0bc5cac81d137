import { cpSync, readFileSync, rmSync, writeSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { HoldfastError } from "@holdfast/platform/error";
import type { Store } from "@holdfast/core/store";
import { openStore } from "../judges/open-store.ts";
import { type Damage, applyDamage } from "./damage.ts";
import { planesOf, RUN } from "./scenario.ts";

/** What a damaged store reports. Read in a separate process, which can be ended if it hangs. */
export type Examined =
  | { readonly kind: "refused"; readonly code: string }
  | {
      readonly kind: "opened";
      readonly problems: readonly string[];
      readonly whole: readonly number[];
      readonly torn: readonly number[];
      readonly refused: readonly string[];
    }
  /** Something else than a HoldfastError. */
  | { readonly kind: "threw"; readonly what: string };

/** Usage: examine-store <pristine store> <place for the damaged copy> <file with a JSON array of damages>; one line of JSON each. */
const [, , pristine = "", place = "", plan = ""] = process.argv;
const damages: readonly Damage[] = JSON.parse(readFileSync(plan, "utf8"));
for (const damage of damages) {
  rmSync(place, { recursive: true, force: true });
  cpSync(pristine, place, { recursive: true });
  applyDamage(place, damage);
  writeSync(1, `${JSON.stringify(await examine())}\n`);
}

async function examine(): Promise<Examined> {
  try {
    const store = await openStore(place);
    try {
      return await read(store);
    } finally {
      await store.close();
    }
  } catch (error) {
    return error instanceof HoldfastError
      ? { kind: "refused", code: error.code }
      : { kind: "threw", what: String(error) };
  }
}

async function read(store: Store): Promise<Examined> {
  const [problems, whole, torn, refused]: [string[], number[], number[], string[]] = [[], [], [], []];
  for await (const event of store.verify()) if (event.kind === "problem") problems.push(event.problem.code);
  for (let sequence = 1; sequence <= 7; sequence += 1) {
    try {
      const { planes } = await store.getCheckpoint({ run: RUN, sequence });
      (isDeepStrictEqual(planes, planesOf(sequence, planes.files)) ? whole : torn).push(sequence);
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error;
      refused.push(error.code);
    }
  }
  return { kind: "opened", problems, whole, torn, refused };
}
