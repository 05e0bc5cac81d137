import { isJsonObject } from "../../core/json.ts";
import type { JsonObject } from "../../core/json.ts";
import type { ForeignFile, Remark } from "../format.ts";
import { parseJson } from "../read-json.ts";
import { readText } from "../read-text.ts";
import { readYaml } from "../read-yaml.ts";
import { isJsonName } from "./crunch-names.ts";
import { invalidDocument } from "../refusals.ts";
import type { Source } from "../refusals.ts";

export interface ReadCrunch {
  readonly document: JsonObject;
  readonly remarks: readonly Remark[];
  readonly source: Source;
  /** YAML has no closing bracket that would be missed; a text that stops within a line may have been cut. */
  readonly endsWithinLine: boolean;
  readonly lineOf: ((pointer: string) => number) | null;
}

/** YAML, or the JSON that crunch wrote before 2026. */
export function readCrunch(file: ForeignFile): ReadCrunch {
  const source: Source = { format: "crunch-yaml", file: file.path };
  const { text, remarks } = readText(file, source.format);
  if (isJson(file.path, text)) {
    const document = parseJson(text, source);
    if (!isJsonObject(document)) throw invalidDocument(source, { path: "", why: "there is no object" });
    return { document, remarks, source, endsWithinLine: false, lineOf: null };
  }
  const yaml = readYaml(text, source);
  if (!isJsonObject(yaml.value)) throw invalidDocument(source, { path: "", why: "there is no mapping", line: 1 });
  return {
    document: yaml.value,
    remarks: [...remarks, ...yaml.remarks],
    source,
    endsWithinLine: !text.endsWith("\n"),
    lineOf: yaml.lineOf,
  };
}

/** A mapping in braces may also be YAML's; what JSON writes has a quote or a closing brace behind the first one. */
function isJson(path: string, text: string): boolean {
  return isJsonName(path) || /^\s*\{\s*["}]/.test(text.slice(0, 1000));
}
