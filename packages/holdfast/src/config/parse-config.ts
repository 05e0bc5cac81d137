import { isMap, isScalar } from "yaml";
import { readYaml } from "../system/yaml-text.ts";
import type { YamlText } from "../system/yaml-text.ts";
import { explainIssue, problemAt } from "./config-problem.ts";
import type { ConfigProblem, ConfigSource } from "./config-problem.ts";
import { configSchema } from "./config-schema.ts";
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
      result.error.issues.flatMap((issue) => explainIssue(issue, source, configSchema)),
      source,
    );
  return { ok: true, values: result.data, lines: linesOf(source) };
}

function failed(problems: readonly ConfigProblem[], source: ConfigSource): ParsedConfig {
  return {
    ok: false,
    problems: problems.toSorted((a, b) => a.line - b.line || a.column - b.column),
    store: storeOf(source),
  };
}

function storeOf({ document, lines }: ConfigSource): { readonly value: string; readonly line: number } | null {
  if (!isMap(document.contents)) return null;
  const node = document.contents.get("store", true);
  if (!isScalar(node) || typeof node.value !== "string" || node.value === "" || !node.range) return null;
  return { value: node.value, line: lines.linePos(node.range[0]).line };
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
