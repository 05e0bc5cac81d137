import { isJsonObject } from "../core/json.ts";
import type { Json, JsonObject } from "../core/json.ts";
import { auditJson } from "../core/values/audit-json.ts";
import type { FormatName, ForeignFile, Remark } from "./format.ts";
import { MAX_FOREIGN_DEPTH, surveyJson } from "./survey-json.ts";
import { readText } from "./read-text.ts";
import { damagedDocument, invalidDocument } from "./refusals.ts";
import type { Source } from "./refusals.ts";

/**
 * A JSON document of which nothing was lost by reading it: JSON.parse alone keeps the last of two equal keys, rounds
 * long integers and lets lone surrogates through. Integer-like keys come first, as everywhere in JavaScript.
 */
export function readJson(
  file: ForeignFile,
  format: FormatName,
): { readonly document: JsonObject; readonly remarks: readonly Remark[] } {
  const { value, remarks } = readJsonValue(file, format);
  if (isJsonObject(value)) return { document: value, remarks };
  throw invalidDocument({ format, file: file.path }, { path: "", why: "there is no object" });
}

/** The same for documents that may be a list. */
export function readJsonValue(
  file: ForeignFile,
  format: FormatName,
): { readonly value: Json; readonly remarks: readonly Remark[] } {
  const { text, remarks } = readText(file, format);
  return { value: parseJson(text, { format, file: file.path }), remarks };
}

/** The same for a text that was read already. */
export function parseJson(text: string, source: Source): Json {
  const value = parse(text, source);
  if (typeof value !== "object" || value === null) return value;
  const survey = surveyJson(text, value);
  if (survey === "too deep")
    throw damagedDocument(source, { why: `it is nested deeper than ${MAX_FOREIGN_DEPTH} levels` });
  if (survey === "suspicious") {
    const finding = auditJson(text);
    if (finding !== null) throw invalidDocument(source, finding);
  }
  return value;
}

/** What a document seems to be, for `detect`: null where it is no JSON object. */
export function peekJson(file: ForeignFile): JsonObject | null {
  try {
    const { text } = readText(file, "impl-json");
    const value: Json = isBomb(text) ? null : JSON.parse(text);
    return isJsonObject(value) ? value : null;
  } catch {
    return null;
  }
}

function parse(text: string, source: Source): Json {
  if (isBomb(text)) throw damagedDocument(source, { why: `it holds more than ${MAX_CONTAINERS} lists and objects` });
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw damagedDocument(source, syntaxTrouble(text, cause));
  }
}

/** Each costs the parser some 45 bytes of memory, also the 64 million of a file of opening brackets. */
const MAX_CONTAINERS = 1 << 21;
/** Shorter ones are not looked at: even one of nothing but brackets costs half a gigabyte, for a moment. */
const HARMLESS_LENGTH = 12 * 1024 * 1024;

/** Counts those within texts too: it bounds, and is cheap. */
function isBomb(text: string): boolean {
  if (text.length <= HARMLESS_LENGTH) return false;
  let left = MAX_CONTAINERS;
  for (const sign of ["[", "{"]) {
    for (let at = text.indexOf(sign); at !== -1; at = text.indexOf(sign, at + 1)) {
      left -= 1;
      if (left < 0) return true;
    }
  }
  return false;
}

function syntaxTrouble(
  text: string,
  cause: unknown,
): { readonly why: string; readonly line?: number; readonly cause: unknown } {
  if (text.trim() === "") return { why: "it is empty", cause };
  const said = cause instanceof Error ? cause.message : "";
  if (/end of JSON|Unterminated/.test(said))
    return { why: "it ends before its JSON does", line: lineAt(text, text.length), cause };
  // The engine knows the place of some mistakes only.
  const position = / at position (\d+)/.exec(said)?.[1];
  if (position === undefined) return { why: `it is not JSON: ${said.slice(0, 120)}`, cause };
  const line = lineAt(text, Number(position));
  return { why: `line ${line} is not JSON`, line, cause };
}

function lineAt(text: string, position: number): number {
  return text.slice(0, position).split("\n").length;
}
