// Explains problems in a settings file with their place in the YAML text, and defines the schema values that settings
// share.

import { type Node, isNode } from "yaml";
import * as z from "zod/mini";
import { nearest } from "@holdfast/core/options";
import { MODEL, whole } from "./setting-values.ts";
import { type YamlText, keyNode } from "@holdfast/platform/yaml";

export interface ConfigProblem {
  /** 1-based, as in editors. */
  readonly line: number;
  readonly column: number;
  readonly message: string;
  readonly hint: string | null;
  /** The offending line with the place marked below it. */
  readonly excerpt: string;
}

export interface ConfigSource extends YamlText {
  readonly text: string;
}

/** A problem that a schema found. */
export interface SchemaIssue {
  readonly code?: string | undefined;
  readonly path: readonly PropertyKey[];
  readonly message: string;
  readonly keys?: readonly string[];
  readonly expected?: string;
}

/** Describes a schema problem with its place in the text, and suggests the intended key for an unknown one. */
export function explainIssue(issue: SchemaIssue, source: ConfigSource, schema: unknown): readonly ConfigProblem[] {
  const fieldPath = issue.path.map(String);
  if (issue.code === "unrecognized_keys") {
    const known = knownKeys(schema, issue.path);
    return (issue.keys ?? []).map((key) => {
      const [guess] = nearest(key, known);
      const within = fieldPath.length === 0 ? "" : ` in ${fieldPath.join(".")}`;
      const range = keyNode(source.document, [...issue.path, key])?.range ?? undefined;
      const hint = guess === undefined ? `Known keys: ${known.join(", ")}.` : `Did you mean ${guess}?`;
      return problemAt({ source, range, message: `unknown key "${key}"${within}`, hint });
    });
  }
  const name = fieldPath.length === 0 ? "the file" : fieldPath.join(".");
  const kind = issue.expected === "array" ? "expected a list" : "expected keys and values";
  const expected = issue.code === "invalid_type" ? kind : issue.message;
  const range = nodeAt(source, issue.path)?.range ?? undefined;
  return [problemAt({ source, range, message: `${name}: ${expected}` })];
}

export function problemAt(params: {
  readonly source: ConfigSource;
  readonly range: readonly number[] | undefined;
  readonly message: string;
  readonly hint?: string;
}): ConfigProblem {
  const [start = 0, end = start + 1] = params.range ?? [];
  const { line, col } = params.source.lines.linePos(start);
  const shown = params.source.text.split(/\r?\n/)[line - 1] ?? "";
  const length = Math.max(1, Math.min(end - start, shown.length - col + 1));
  const gutter = String(line);
  const excerpt = `${gutter} | ${shown}\n${" ".repeat(gutter.length)} | ${" ".repeat(col - 1)}${"^".repeat(length)}`;
  return { line, column: col, message: params.message, hint: params.hint ?? null, excerpt };
}

/** The value at this path, else its key, else the nearest node around it: a missing key has no place of its own. */
export function nodeAt({ document }: YamlText, path: readonly PropertyKey[]): Node | undefined {
  for (let depth = path.length; depth >= 0; depth -= 1) {
    const fieldPath = path.slice(0, depth);
    const value: unknown = depth === 0 ? document.contents : document.getIn(fieldPath, true);
    if (isNode(value) && value.range)
      return depth === path.length || depth === 0 ? value : (keyNode(document, fieldPath) ?? value);
    const key = depth === 0 ? undefined : keyNode(document, fieldPath);
    if (key?.range) return key;
  }
  return undefined;
}

/** The keys allowed next to an unknown one, for the suggestion. */
function knownKeys(schema: unknown, path: readonly PropertyKey[]): readonly string[] {
  let found = unwrap(schema);
  for (const key of path) {
    if (found instanceof z.ZodMiniArray) found = unwrap(found.def.element);
    else if (found instanceof z.ZodMiniRecord) found = unwrap(found.def.valueType);
    else if (found instanceof z.ZodMiniObject) found = unwrap(found.shape[String(key)]);
    else return [];
  }
  return found instanceof z.ZodMiniObject ? Object.keys(found.shape) : [];
}

function unwrap(schema: unknown): unknown {
  return schema instanceof z.ZodMiniOptional ? schema.def.innerType : schema;
}

/** What JSON Schema can say about a value, for editors. It accepts at least what the parser accepts. */
type ValueSchema = Readonly<Record<string, unknown>>;

/** A schema for one value: if the parser returns undefined, the value does not fit, and the message says what would. */
export function settingValue<T>(expected: string, parse: (value: unknown) => T | undefined, json: ValueSchema = {}) {
  const read = z.pipe(
    z.unknown(),
    z.transform((value: unknown, payload): T => {
      const parsed = parse(value);
      if (parsed !== undefined) return parsed;
      payload.issues.push({ code: "custom", input: value, message: `expected ${expected}` });
      return z.NEVER;
    }),
  );
  return read.register(z.globalRegistry, { description: expected, ...json });
}

export function choice<const T extends string>(choices: readonly T[]) {
  return settingValue(`one of ${choices.join(", ")}`, (value) => choices.find((known) => known === value), {
    enum: choices,
  });
}

export function yesOrNo() {
  return settingValue("true or false", (value) => (typeof value === "boolean" ? value : undefined), {
    type: "boolean",
  });
}

export function count(least: number) {
  return settingValue(`a whole number from ${least}`, (value) => whole(value, least), {
    type: "integer",
    minimum: least,
  });
}

export function model() {
  return settingValue(
    "provider or provider:model, such as codex, claude:opus or command:./my-agent",
    (value) => (typeof value === "string" && MODEL.test(value) ? value : undefined),
    { type: "string", pattern: MODEL.source },
  );
}
