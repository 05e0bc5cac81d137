import * as z from "zod/mini";
import type { KeepRule } from "../core/retention.ts";
import { TRIGGERS } from "../core/trigger.ts";
import { parseDuration } from "./parse-duration.ts";
import { parseSize } from "./parse-size.ts";

/** What may stand in holdfast.config.yaml. Everything is optional: an absent key has its default. */
export const configSchema = z.strictObject({
  store: z.optional(leaf("a directory", nonEmpty)),
  retention: z.optional(
    z.strictObject({
      keep: z.optional(z.strictObject(keepShape())),
      maxAge: z.optional(
        leaf('a duration such as 30d, or "never"', (value) => (value === "never" ? null : days(value))),
      ),
      onSuccess: z.optional(choice(["keep_latest", "by_rules"])),
      onFailure: z.optional(choice(["keep_recent", "by_rules"])),
      recent: z.optional(leaf("a duration such as 7d", days)),
      maxBytes: z.optional(leaf('a size such as 5GB, or "none"', (value) => (value === "none" ? null : size(value)))),
      compressAfter: z.optional(
        leaf('a duration such as 7d, or "never"', (value) => (value === "never" ? null : days(value))),
      ),
    }),
  ),
  workspace: z.optional(
    z.strictObject({
      maxUntrackedBytes: z.optional(leaf("a size such as 20MB", size)),
      includeIgnored: z.optional(yesOrNo()),
      worktrees: z.optional(leaf("a directory", nonEmpty)),
    }),
  ),
  gc: z.optional(z.strictObject({ auto: z.optional(yesOrNo()) })),
});

export type FileConfig = z.output<typeof configSchema>;

/** The keys that are allowed beside an unknown one; for the guess. */
export function knownKeys(path: readonly PropertyKey[]): readonly string[] {
  let schema: unknown = configSchema;
  for (const key of path) {
    schema = unwrap(schema);
    if (!(schema instanceof z.ZodMiniObject)) return [];
    schema = schema.shape[String(key)];
  }
  schema = unwrap(schema);
  return schema instanceof z.ZodMiniObject ? Object.keys(schema.shape) : [];
}

function unwrap(schema: unknown): unknown {
  return schema instanceof z.ZodMiniOptional ? schema.def.innerType : schema;
}

/** One value: `undefined` from the parser means that it does not fit, and the message says what would. */
function leaf<T>(expected: string, parse: (value: unknown) => T | undefined) {
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

function keepShape() {
  const keep = z.optional(keepRule());
  const triggers = TRIGGERS.map((trigger) => [trigger, keep] as const);
  return { ...Object.fromEntries(triggers), default: keep };
}

function keepRule() {
  return leaf('how many to keep: a number, "all", or { keep: 5, per: stage }', (value) => {
    if (typeof value !== "object" || value === null) return ruleOf(value, "run");
    const extra = Object.keys(value).find((key) => key !== "keep" && key !== "per");
    if (extra !== undefined || !("keep" in value)) return undefined;
    return ruleOf(value.keep, "per" in value ? value.per : "run");
  });
}

function ruleOf(keep: unknown, per: unknown): KeepRule | undefined {
  if (per !== "run" && per !== "stage") return undefined;
  if (keep === "all") return { keep, per };
  return typeof keep === "number" && Number.isSafeInteger(keep) && keep >= 0 ? { keep, per } : undefined;
}

function choice<const T extends string>(choices: readonly T[]) {
  return leaf(`one of ${choices.join(", ")}`, (value) => choices.find((known) => known === value));
}

function yesOrNo() {
  return leaf("true or false", (value) => (typeof value === "boolean" ? value : undefined));
}

function nonEmpty(value: unknown): string | undefined {
  return typeof value === "string" && value.trim() !== "" && !value.includes("\0") ? value : undefined;
}

function size(value: unknown): number | undefined {
  return typeof value === "string" || typeof value === "number" ? parseSize(value) : undefined;
}

function days(value: unknown): number | undefined {
  const milliseconds = typeof value === "string" ? parseDuration(value) : undefined;
  return milliseconds === undefined ? undefined : milliseconds / DAY;
}

const DAY = 86_400_000;
