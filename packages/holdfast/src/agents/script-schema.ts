import * as z from "zod/mini";
import { FAILURE_CAUSES } from "../ports/agent.ts";

const text = z.string("expected a text");
const count = z
  .number("expected a whole number from 0")
  .check(z.int("expected a whole number"), z.gte(0, "expected a whole number from 0"));
const flag = z.boolean("expected true or false");
const path = z
  .string("expected a path")
  .check(z.refine(isInside, "expected a path below the worktree, without .. and not in .git"));
const mode = z
  .string('expected a file mode such as "755"')
  .check(z.regex(/^[0-7]{3,4}$/, 'expected a mode such as "755"'));

const edit = z.discriminatedUnion(
  "do",
  [
    z.strictObject({ do: z.literal("write"), path, text, mode: z.optional(mode) }),
    z.strictObject({ do: z.literal("append"), path, text }),
    z.strictObject({ do: z.literal("replace"), path, find: text.check(z.minLength(1)), text }),
    z.strictObject({ do: z.literal("delete"), path }),
    z.strictObject({ do: z.literal("mode"), path, mode }),
    z.strictObject({ do: z.literal("wait"), ms: count }),
  ],
  "expected do: write, append, replace, delete, mode or wait",
);

const answer = z.strictObject({
  when: z.optional(
    z.strictObject({
      role: z.optional(oneOrMore(text)),
      iteration: z.optional(oneOrMore(count)),
      attempt: z.optional(oneOrMore(count)),
      resumed: z.optional(flag),
      yolo: z.optional(flag),
    }),
  ),
  delayMs: z.optional(count),
  edits: z.optional(z.array(edit, "expected a list of edits")),
  spawn: z.optional(
    z.strictObject({
      ignoreTerm: z.optional(flag),
      afterMs: z.optional(count),
      path: z.optional(path),
      text: z.optional(text),
    }),
  ),
  reply: z.optional(text),
  scores: z.optional(z.record(z.string(), z.number("expected a number"))),
  finalize: z.optional(z.strictObject({ title: text, body: z.optional(text) })),
  commitReport: z.optional(text),
  usage: z.optional(
    z.strictObject({ input: z.optional(count), output: z.optional(count), microUsd: z.optional(count) }),
  ),
  fail: z.optional(
    z.strictObject({
      cause: z.enum(FAILURE_CAUSES, `expected one of ${FAILURE_CAUSES.join(", ")}`),
      message: z.optional(text),
      untilMs: z.optional(count),
      times: z.optional(count),
      afterEdits: z.optional(flag),
    }),
  ),
  hang: z.optional(flag),
  exit: z.optional(count.check(z.lte(255, "expected an exit code up to 255"))),
});

/** What a script for the scripted agent may hold; docs/agents.md explains each key. */
export const scriptSchema = z.strictObject({ answers: z.array(answer, "expected a list of answers") });

export type Script = z.output<typeof scriptSchema>;
export type Answer = z.output<typeof answer>;
export type Edit = z.output<typeof edit>;

/** The keys that are allowed beside an unknown one, for the guess. */
export function knownScriptKeys(place: readonly PropertyKey[]): readonly string[] {
  let schema: unknown = scriptSchema;
  for (const key of place) {
    const inner = unwrap(schema);
    if (inner instanceof z.ZodMiniArray) schema = inner.def.element;
    else if (inner instanceof z.ZodMiniObject) schema = inner.shape[String(key)];
    else return [];
  }
  const found = unwrap(schema);
  return found instanceof z.ZodMiniObject ? Object.keys(found.shape) : [];
}

function unwrap(schema: unknown): unknown {
  return schema instanceof z.ZodMiniOptional ? schema.def.innerType : schema;
}

function oneOrMore<T extends z.ZodMiniType>(item: T) {
  return z.union([item, z.array(item)], "expected one value or a list of them");
}

function isInside(value: string): boolean {
  const parts = value.split("/");
  const isPlain = parts.every((part) => part !== "" && part !== "." && part !== "..");
  return isPlain && !/[\0\\]/.test(value) && parts[0]?.toLowerCase() !== ".git";
}
