// Reads JSON documents without silent losses, and writes JSON as the original tools do.

import { type Json, type JsonContainer, type JsonObject, isJsonObject } from "@holdfast/core/json";
import { auditJson } from "@holdfast/core/audit-json";
import { type DocumentSource, damagedDocument, invalidDocument } from "./document.ts";
import type { ExternalFile, FormatName, Remark } from "./format.ts";

/**
 * Reads a JSON object without loss. JSON.parse alone keeps the last of two equal keys, rounds long integers and accepts
 * lone surrogates. Integer-like keys come first, as everywhere in JavaScript.
 */
export function readJson(
  file: ExternalFile,
  format: FormatName,
): { readonly document: JsonObject; readonly remarks: readonly Remark[] } {
  const { value, remarks } = readJsonValue(file, format);
  if (isJsonObject(value)) return { document: value, remarks };
  throw invalidDocument({ format, file: file.path }, { path: "", why: "there is no object" });
}

/** Like `readJson`, for documents that may be a list. */
export function readJsonValue(
  file: ExternalFile,
  format: FormatName,
): { readonly value: Json; readonly remarks: readonly Remark[] } {
  const { text, remarks } = readText(file, format);
  return { value: parseJson(text, { format, file: file.path }), remarks };
}

/** Like `readJson`, for a text that is already read. */
export function parseJson(text: string, source: DocumentSource): Json {
  const value = parse(text, source);
  if (typeof value !== "object" || value === null) return value;
  if (isDeeperThan(MAX_DOCUMENT_DEPTH, value))
    throw damagedDocument(source, { why: `it is nested deeper than ${MAX_DOCUMENT_DEPTH} levels` });
  const finding = auditJson(text);
  if (finding !== null) throw invalidDocument(source, finding);
  return value;
}

function isDeeperThan(levels: number, value: JsonContainer): boolean {
  if (levels === 0) return true;
  return Object.values(value).some(
    (child: Json) => typeof child === "object" && child !== null && isDeeperThan(levels - 1, child),
  );
}

/** Parses leniently for `detect`; null if the file is not a JSON object. */
export function peekJson(file: ExternalFile): JsonObject | null {
  try {
    const { text } = readText(file, "impl-json");
    const value: Json = isBomb(text) ? null : JSON.parse(text);
    return isJsonObject(value) ? value : null;
  } catch {
    return null;
  }
}

function parse(text: string, source: DocumentSource): Json {
  if (isBomb(text)) throw damagedDocument(source, { why: `it contains more than ${MAX_CONTAINERS} lists and objects` });
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw damagedDocument(source, syntaxTrouble(text, cause));
  }
}

/** The parser needs about 45 bytes for each, even for the 64 million of a file of opening brackets. */
const MAX_CONTAINERS = 1 << 21;
/** Shorter texts are not checked: even one of only brackets briefly costs half a gigabyte. */
const HARMLESS_LENGTH = 12 * 1024 * 1024;

/** Also counts brackets within texts: the limit is rough, and the check is cheap. */
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
  const reason = cause instanceof Error ? cause.message : "";
  if (/end of JSON|Unterminated/.test(reason))
    return { why: "it ends before its JSON does", line: lineAt(text, text.length), cause };
  // The JavaScript engine reports the position of only some errors.
  const position = / at position (\d+)/.exec(reason)?.[1];
  if (position === undefined) return { why: `it is not JSON: ${reason.slice(0, 120)}`, cause };
  const line = lineAt(text, Number(position));
  return { why: `line ${line} is not JSON`, line, cause };
}

function lineAt(text: string, position: number): number {
  return text.slice(0, position).split("\n").length;
}

/** Far below the limit of stored values, because a document is kept inside one; far above any real document. */
const MAX_DOCUMENT_DEPTH = 500;

/** Larger than any known checkpoint, and small enough to parse on a small machine. */
export const MAX_DOCUMENT_BYTES = 64 * 1024 * 1024;

/**
 * Strict: a single byte that is not UTF-8 rejects the file, instead of putting a replacement character into the
 * content.
 */
export function readText(
  file: ExternalFile,
  format: FormatName,
): { readonly text: string; readonly remarks: readonly Remark[] } {
  const source = { format, file: file.path };
  if (file.bytes.length > MAX_DOCUMENT_BYTES) {
    const why = `it has ${file.bytes.length} bytes, more than the ${MAX_DOCUMENT_BYTES} that are read`;
    throw damagedDocument(source, { why });
  }
  let text: string;
  try {
    text = STRICT_DECODER.decode(file.bytes);
  } catch (cause) {
    throw damagedDocument(source, { why: "it is not UTF-8", cause });
  }
  return { text, remarks: hasMark(file.bytes) ? [MARK] : [] };
}

const STRICT_DECODER = new TextDecoder("utf-8", { fatal: true });
const MARK: Remark = { path: "", text: "It begins with a byte order mark, which is not written back" };

function hasMark(bytes: Uint8Array): boolean {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
}

/**
 * Writes JSON as the original tools do: two spaces, keys in order, no newline at the end. `decimal` names a top-level
 * member whose whole number is written with a fraction: a version 1.0 is not written as 1.
 */
export function writeJson(
  document: JsonObject | readonly JsonObject[],
  { decimal }: { readonly decimal?: string } = {},
): Uint8Array {
  const text = JSON.stringify(document, null, 2);
  // Only a member at the top level is indented by two spaces, because line ends in texts are escaped.
  const whole = decimal === undefined ? null : new RegExp(`^ {2}"${decimal}": \\d+(?=,?$)`, "m");
  return ENCODER.encode(whole === null ? text : text.replace(whole, "$&.0"));
}

const ENCODER = new TextEncoder();
