import { isMap, isNode, isScalar } from "yaml";
import { nearest } from "../core/nearest.ts";
import { keyNode, readYaml } from "../system/yaml-text.ts";
import type { YamlText } from "../system/yaml-text.ts";
import { configSchema, knownKeys } from "./config-schema.ts";
import type { FileConfig } from "./config-schema.ts";

export type ParsedConfig =
  | {
      readonly ok: true;
      readonly values: FileConfig;
      /** Line of each key that the file sets, by its dotted path. */ readonly lines: ReadonlyMap<string, number>;
    }
  | {
      readonly ok: false;
      readonly problems: readonly ConfigProblem[];
      /** The place of the store, when that line is right and another is not. */
      readonly store: { readonly value: string; readonly line: number } | null;
    };

export interface ConfigProblem {
  /** 1-based, as editors count. */
  readonly line: number;
  readonly column: number;
  readonly message: string;
  readonly hint: string | null;
  /** The offending line with the place marked under it. */
  readonly excerpt: string;
}

/** Pure: the text of a holdfast.config.yaml in, settings or all that is wrong with it out. */
export function parseConfig(text: string): ParsedConfig {
  const read = readYaml(text);
  const source = { text, document: read.document, lines: read.lines };
  if (!read.ok)
    return failed(
      read.faults.map((fault) => problemAt({ source, ...fault })),
      source,
    );
  const result = configSchema.safeParse(read.value ?? {});
  if (!result.success)
    return failed(
      result.error.issues.flatMap((issue) => explain(issue, source)),
      source,
    );
  return { ok: true, values: result.data, lines: linesOf(source) };
}

interface Source extends YamlText {
  readonly text: string;
}

interface Issue {
  readonly code?: string | undefined;
  readonly path: readonly PropertyKey[];
  readonly message: string;
  readonly keys?: readonly string[];
}

function failed(problems: readonly ConfigProblem[], source: Source): ParsedConfig {
  return {
    ok: false,
    problems: problems.toSorted((a, b) => a.line - b.line || a.column - b.column),
    store: storeOf(source),
  };
}

function storeOf({ document, lines }: Source): { readonly value: string; readonly line: number } | null {
  if (!isMap(document.contents)) return null;
  const node = document.contents.get("store", true);
  if (!isScalar(node) || typeof node.value !== "string" || node.value === "" || !node.range) return null;
  return { value: node.value, line: lines.linePos(node.range[0]).line };
}

function explain(issue: Issue, source: Source): readonly ConfigProblem[] {
  const place = issue.path.map(String);
  if (issue.code === "unrecognized_keys") {
    return (issue.keys ?? []).map((key) => {
      const [guess] = nearest(key, knownKeys(issue.path));
      const within = place.length === 0 ? "" : ` in ${place.join(".")}`;
      const range = keyNode(source.document, [...place, key])?.range ?? undefined;
      const hint = guess === undefined ? `Known keys: ${knownKeys(issue.path).join(", ")}.` : `Did you mean ${guess}?`;
      return problemAt({ source, range, message: `unknown key "${key}"${within}`, hint });
    });
  }
  const value = place.length === 0 ? source.document.contents : source.document.getIn(place, true);
  const node = isNode(value) && value.range ? value : keyNode(source.document, place);
  const name = place.length === 0 ? "the file" : place.join(".");
  const expected = issue.code === "invalid_type" ? "expected keys and values" : issue.message;
  return [problemAt({ source, range: node?.range ?? undefined, message: `${name}: ${expected}` })];
}

function problemAt(params: {
  readonly source: Source;
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

function linesOf({ document, lines: counter }: YamlText): ReadonlyMap<string, number> {
  const lines = new Map<string, number>();
  const walk = (node: unknown, path: readonly string[]): void => {
    if (!isMap(node)) return;
    for (const { key, value } of node.items) {
      if (!isScalar(key) || !key.range) continue;
      const place = [...path, String(key.value)];
      lines.set(place.join("."), counter.linePos(key.range[0]).line);
      walk(value, place);
    }
  };
  walk(document.contents, []);
  return lines;
}
