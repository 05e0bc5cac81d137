import { isNode, type Document } from "yaml";
import { nearest } from "../core/nearest.ts";
import { keyNode, readYaml, type YamlFault, type YamlText } from "../system/yaml-text.ts";
import { knownScriptKeys, scriptSchema, type Script } from "./script-schema.ts";

export type ParsedScript =
  | { readonly ok: true; readonly script: Script }
  /** One text a problem, `line:column: what`, with the line below it. */
  | { readonly ok: false; readonly problems: readonly string[] };

/** Pure: the text of a script (YAML, or JSON, which is YAML too) in, the script or all that is wrong with it out. */
export function parseScript(text: string): ParsedScript {
  const read = readYaml(text);
  if (!read.ok) return failed(text, read, read.faults);
  const result = scriptSchema.safeParse(read.value);
  if (result.success) return { ok: true, script: result.data };
  const told = result.error.issues.flatMap(explain);
  const faults = told.map(({ path, message }) => ({ range: [startOf(read.document, path)], message }));
  return failed(text, read, faults);
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

/** Where the thing is, or the nearest thing around it that is there. */
function startOf(document: Document, path: readonly PropertyKey[]): number {
  for (let depth = path.length; depth > 0; depth -= 1) {
    const place = path.slice(0, depth);
    const key = keyNode(document, place) ?? document.getIn(place, true);
    if (isNode(key) && key.range) return key.range[0];
  }
  return document.contents?.range?.[0] ?? 0;
}

function failed(text: string, { lines }: YamlText, faults: readonly YamlFault[]): ParsedScript {
  const texts = text.split(/\r?\n/);
  const problems = faults
    .map(({ range: [start = 0], message }) => ({ ...lines.linePos(start), message }))
    .toSorted((a, b) => a.line - b.line || a.col - b.col)
    .map(({ line, col, message }) => `${line}:${col}: ${message}\n  ${(texts[line - 1] ?? "").trim()}`);
  return { ok: false, problems };
}
