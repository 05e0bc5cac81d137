// What all codecs share: errors in the wording of the original tools, patching a document, listing losses, and parsing
// times.

import { type Json, type JsonObject, type Shape, describeMisfit, isJsonArray, isJsonObject } from "@holdfast/core/json";
import { PROTO_KEY, findProtoKey } from "@holdfast/core/values";
import { HoldfastError } from "@holdfast/platform/error";
import type { ExternalCheckpoint, FormatName, Loss } from "./format.ts";

/** Identifies a document in error messages. */
export interface DocumentSource {
  readonly format: FormatName;
  /** The file's path as the user gave it. */
  readonly file: string;
}

/** The document can be read but does not conform to this format. */
export function invalidDocument(
  source: DocumentSource,
  trouble: { readonly path: string; readonly why: string; readonly line?: number; readonly column?: number },
): HoldfastError {
  const where = trouble.path === "" ? "its root" : trouble.path;
  return new HoldfastError({
    code: "FORMAT_INVALID",
    message: `Invalid checkpoint data in ${source.file} (${source.format}): at ${where} ${trouble.why}`,
    hint: "Nothing was changed. Correct the document at that place, or take another copy of it.",
    data: { ...source, path: trouble.path, ...placeOf(trouble) },
  });
}

/** The bytes are not a document: cut off, not UTF-8, or built to exhaust the reader. */
export function damagedDocument(
  source: DocumentSource,
  trouble: { readonly why: string; readonly line?: number; readonly column?: number; readonly cause?: unknown },
): HoldfastError {
  return new HoldfastError({
    code: "FORMAT_DAMAGED",
    message: `Corrupted checkpoint file ${source.file} (${source.format}): ${trouble.why}`,
    hint: "Nothing was changed. Take another copy of the file, or an older checkpoint.",
    data: { ...source, path: "", ...placeOf(trouble) },
    cause: trouble.cause,
  });
}

function placeOf({ line, column }: { readonly line?: number; readonly column?: number }): JsonObject {
  return { ...(line === undefined ? {} : { line }), ...(column === undefined ? {} : { column }) };
}

export function unsupportedVersion(
  source: DocumentSource,
  trouble: { readonly path: string; readonly version: string; readonly known: string },
): HoldfastError {
  return new HoldfastError({
    code: "FORMAT_TOO_NEW",
    message: `Checkpoint version mismatch in ${source.file} (${source.format}): expected ${trouble.known}, got ${trouble.version}`,
    hint: "Nothing was changed. A newer Holdfast may know that version; the tool that wrote it can write an older one.",
    data: { ...source, path: trouble.path, version: trouble.version },
  });
}

/**
 * Gives a document its type, or throws FORMAT_INVALID with the path of the misfit. Copies nothing, so fields outside
 * the shape remain.
 */
export function checkDocument<T>(
  shape: Shape<T>,
  value: unknown,
  source: DocumentSource,
  fail = (path: string, why: string): HoldfastError => invalidDocument(source, { path, why }),
): T {
  const misfit = shape(value);
  // The shape is tied to T and found no misfit, so the cast is safe.
  if (misfit === null) return value as T;
  throw fail(misfit.path, `there is ${describeMisfit(misfit.actual)} where ${misfit.expected} belongs`);
}

/** A field that may be missing. */
export function optional<T>(shape: Shape<T>): Shape<T | undefined> {
  return (value) => (value === undefined ? null : shape(value));
}

/** A field that may be missing or null. YAML writes an empty member as null. */
export function maybe<T>(shape: Shape<T>): Shape<T | null | undefined> {
  return (value) => (value === undefined || value === null ? null : shape(value));
}

/**
 * Applies a change to the original document. `before` is Holdfast's view of the original, `after` its present view.
 * Unchanged values keep their spelling, position and order, and unknown fields remain. What is missing in `after` is
 * removed.
 */
export function patchDocument(params: {
  readonly original: JsonObject;
  readonly before: JsonObject;
  readonly after: JsonObject;
}): JsonObject {
  const { original, before, after } = params;
  const patched = new Map<string, Json>(Object.entries(original));
  for (const [key, now] of Object.entries(after)) {
    const was = field(before, key);
    if (was !== undefined && sameJson(was, now)) continue;
    const old = field(original, key);
    patched.set(
      key,
      isJsonObject(old) && isJsonObject(was) && isJsonObject(now)
        ? patchDocument({ original: old, before: was, after: now })
        : now,
    );
  }
  for (const key of Object.keys(before)) if (!Object.hasOwn(after, key)) patched.delete(key);
  return Object.fromEntries(patched);
}

/**
 * The value without keys named `__proto__`, which every reader refuses; the value itself if it has none. A codec applies
 * this to a checkpoint before it encodes it, and `listLosses` names what is missing then.
 */
export function withoutProtoKeys<T extends object>(value: T): T {
  // A checkpoint is JSON, but TypeScript does not accept an interface without an index signature as Json.
  const json = value as object as JsonObject;
  return findProtoKey(json) === null ? value : (copyWithoutProtoKeys(json) as object as T);
}

function copyWithoutProtoKeys(value: Json): Json {
  if (isJsonArray(value)) return value.map(copyWithoutProtoKeys);
  if (!isJsonObject(value)) return value;
  const entries = Object.entries(value).filter(([key]) => key !== PROTO_KEY);
  return Object.fromEntries(entries.map(([key, child]) => [key, copyWithoutProtoKeys(child)]));
}

/** Own properties only: a document may have a key named `constructor`. */
export function field(object: JsonObject, key: string): Json | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/** Why a format cannot hold a path; the longest matching path applies. */
export type LossReasons = Readonly<Record<string, string>>;

/**
 * Lists everything in `given` that is missing in `back`, which is what the written document decodes to. A codec that
 * uses this cannot forget a loss, even for planes added later.
 */
export function listLosses(given: ExternalCheckpoint, back: ExternalCheckpoint, reasons: LossReasons): readonly Loss[] {
  return lostIn("", comparable(given), comparable(back)).map((path) => ({ path, why: reasonFor(path, reasons) }));
}

/** Puts the planes at the top level, as loss paths name them. */
function comparable({ planes, id, createdAt, trigger, workflow, work }: ExternalCheckpoint): object {
  return { id, createdAt, trigger, workflow, work, ...planes };
}

/** Objects whose losses are listed by field; all others are lost or kept as a whole. */
const OPENED: ReadonlySet<string> = new Set([
  "",
  "position",
  "context",
  "context.values",
  "files",
  "inputs",
  "config",
  "extensions",
]);
/** Other keys could be mistaken for paths, so their parent is named instead. */
const PLAIN_KEY = /^[A-Za-z0-9_-]+$/;

function lostIn(path: string, given: object, back: object): readonly string[] {
  const lost = new Set<string>();
  for (const key of Object.keys(given)) {
    const before: Json | undefined = Reflect.get(given, key);
    const after: Json | undefined = Object.hasOwn(back, key) ? Reflect.get(back, key) : undefined;
    const below = path === "" ? key : `${path}.${key}`;
    if (before === undefined || sameJson(before, after)) continue;
    // What a format adds about the run is not a loss.
    if (path === "extensions" && carries(before, after)) continue;
    if (!PLAIN_KEY.test(key)) lost.add(path);
    else if (OPENED.has(below) && isJsonObject(before) && isJsonObject(after))
      for (const deeper of lostIn(below, before, after)) lost.add(deeper);
    else lost.add(below);
  }
  return [...lost];
}

function reasonFor(path: string, reasons: LossReasons): string {
  for (let at = path; at !== ""; at = at.slice(0, Math.max(0, at.lastIndexOf(".")))) {
    const why = Object.hasOwn(reasons, at) ? reasons[at] : undefined;
    if (why !== undefined) return why;
  }
  return "The format has no place for it";
}

/** Compares by value; the order of keys does not matter. */
export function sameJson(one: Json | undefined, other: Json | undefined): boolean {
  if (one === other) return true;
  if (isJsonArray(one))
    return (
      isJsonArray(other) && one.length === other.length && one.every((child, index) => sameJson(child, other[index]))
    );
  if (!isJsonObject(one) || !isJsonObject(other)) return false;
  const keys = Object.keys(one);
  return (
    keys.length === Object.keys(other).length &&
    keys.every((key) => Object.hasOwn(other, key) && sameJson(one[key], other[key]))
  );
}

/** Whether `other` contains all of `one`; it may contain more. */
function carries(one: Json, other: Json | undefined): boolean {
  if (!isJsonObject(one) || !isJsonObject(other)) return sameJson(one, other);
  return Object.keys(one).every((key) => Object.hasOwn(other, key) && carries(one[key] ?? null, other[key]));
}

/** An instant in UTC. `zoned` is false if the document gave no offset; the time was then read as UTC. */
interface ParsedTime {
  readonly iso: string;
  readonly zoned: boolean;
}

/** Parses ISO 8601 with date and time, as Python, JavaScript and people write it; null for anything else. */
export function parseIsoTime(text: string): ParsedTime | null {
  const parts = TIME.exec(text)?.groups;
  if (parts === undefined) return null;
  const field = (name: string): number => Number(parts[name] ?? 0);
  const milliseconds = Number((parts["fraction"] ?? "").padEnd(3, "0").slice(0, 3));
  const local = Date.UTC(
    field("year"),
    field("month") - 1,
    field("day"),
    field("hour"),
    field("minute"),
    field("second"),
    milliseconds,
  );
  // Date.UTC rolls over: February 31 becomes a day in March, and years below 100 become 19xx.
  if (!new Date(local).toISOString().startsWith(`${parts["year"]}-${parts["month"]}-${parts["day"]}T${parts["hour"]}`))
    return null;
  if (field("minute") > 59 || field("second") > 59) return null;
  const offset = offsetMinutes(parts["zone"]);
  if (offset === null) return null;
  const instant = new Date(local - offset * 60_000).toISOString();
  return INSTANT.test(instant) ? { iso: instant, zoned: parts["zone"] !== undefined } : null;
}

const TIME =
  /^(?<year>\d{4})-(?<month>\d\d)-(?<day>\d\d)[T ](?<hour>\d\d):(?<minute>\d\d)(?::(?<second>\d\d)(?:[.,](?<fraction>\d{1,9}))?)?(?<zone>[Zz]|[+-]\d\d(?::?\d\d)?)?$/;
/** An offset at the edge of the calendar leaves the four-digit years. */
const INSTANT = /^\d{4}-/;

function offsetMinutes(zone: string | undefined): number | null {
  if (zone === undefined || zone === "Z" || zone === "z") return 0;
  const hours = Number(zone.slice(1, 3));
  const minutes = Number(zone.slice(3).replace(":", "") || 0);
  if (hours > 23 || minutes > 59) return null;
  return (zone.startsWith("-") ? -1 : 1) * (hours * 60 + minutes);
}

/** A UUID of version 8, which is for ids by an application's own rule (RFC 9562), from the first digits of a digest. */
export function uuidOf(hex: string): string {
  const third = `8${hex.slice(13, 16)}`;
  return [hex.slice(0, 8), hex.slice(8, 12), third, `a${hex.slice(17, 20)}`, hex.slice(20, 32)].join("-");
}
