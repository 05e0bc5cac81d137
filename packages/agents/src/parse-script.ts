// Parses and validates scripts for the scripted agent.

import { type Document, isNode } from "yaml";
import * as z from "zod/mini";
import { FAILURE_CAUSES } from "@holdfast/core/agent";
import { nearest } from "@holdfast/core/options";
import { type YamlProblem, type YamlText, keyNode, parseYaml } from "@holdfast/platform/yaml";

type ParsedScript =
  | { readonly ok: true; readonly script: Script }
  /** One text per problem, `line:column: message`, followed by the source line. */
  | { readonly ok: false; readonly problems: readonly string[] };

/** Parses the text of a script (YAML, or JSON, which is a subset). Returns the script, or all problems. It is pure. */
export function parseScript(text: string): ParsedScript {
  const read = parseYaml(text);
  if (!read.ok) return failed(text, read, read.faults);
  const result = scriptSchema.safeParse(read.value);
  if (result.success) return { ok: true, script: result.data };
  const problems = result.error.issues.flatMap(explain);
  return failed(
    text,
    read,
    problems.map(({ path, message }) => ({ range: [startOf(read.document, path)], message })),
  );
}

interface Issue {
  readonly code?: string | undefined;
  readonly path: readonly PropertyKey[];
  readonly message: string;
  readonly keys?: readonly string[];
}

function explain(issue: Issue): readonly { readonly path: readonly PropertyKey[]; readonly message: string }[] {
  if (issue.code !== "unrecognized_keys") {
    const missing = issue.message.startsWith("Invalid input") ? "expected keys and values" : issue.message;
    return [{ path: issue.path, message: `${nameOf(issue.path)}: ${missing}` }];
  }
  const known = knownScriptKeys(issue.path);
  return (issue.keys ?? []).map((key) => {
    const [guess] = nearest(key, known);
    const help = guess === undefined ? `known: ${known.join(", ")}` : `did you mean ${guess}?`;
    return {
      path: [...issue.path, key],
      message: `${nameOf(issue.path)}: unknown key "${key}"${known.length === 0 ? "" : `; ${help}`}`,
    };
  });
}

function nameOf(path: readonly PropertyKey[]): string {
  if (path.length === 0) return "the script";
  return path
    .map((key) => (typeof key === "number" ? `[${key}]` : `.${String(key)}`))
    .join("")
    .replace(/^\./, "");
}

/** The offset of the node at the path, or of its nearest existing parent. */
function startOf(document: Document, path: readonly PropertyKey[]): number {
  for (let depth = path.length; depth > 0; depth -= 1) {
    const parent = path.slice(0, depth);
    const key = keyNode(document, parent) ?? document.getIn(parent, true);
    if (isNode(key) && key.range) return key.range[0];
  }
  return document.contents?.range?.[0] ?? 0;
}

function failed(text: string, { lines }: YamlText, faults: readonly YamlProblem[]): ParsedScript {
  const texts = text.split(/\r?\n/);
  const problems = faults
    .map(({ range: [start = 0], message }) => ({ ...lines.linePos(start), message }))
    .toSorted((a, b) => a.line - b.line || a.col - b.col)
    .map(({ line, col, message }) => `${line}:${col}: ${message}\n  ${(texts[line - 1] ?? "").trim()}`);
  return { ok: false, problems };
}

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

/** The content of a script for the scripted agent; docs/agents.md explains each key. */
const scriptSchema = z.strictObject({ answers: z.array(answer, "expected a list of answers") });

export type Script = z.output<typeof scriptSchema>;
export type Answer = z.output<typeof answer>;
export type Edit = z.output<typeof edit>;

/** The valid keys next to an unknown key, used to suggest one. */
function knownScriptKeys(path: readonly PropertyKey[]): readonly string[] {
  let schema: unknown = scriptSchema;
  for (const key of path) {
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
