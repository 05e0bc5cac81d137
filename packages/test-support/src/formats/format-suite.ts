// The suite that every format codec must pass: golden files, round trips, honest losses, and rejection of damaged files.

import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parsePlanes } from "@holdfast/core/checkpoint";
import { type Json, type JsonObject, isJsonArray, isJsonObject } from "@holdfast/core/json";
import { canonicalJson, pointer } from "@holdfast/core/values";
import type { Decoded, ExternalCheckpoint, ExternalFile, Format } from "@holdfast/formats/format";
import { MAX_DOCUMENT_BYTES } from "@holdfast/formats/strict-json";
import { type ErrorCode, HoldfastError } from "@holdfast/platform/error";
import { arbitraryCheckpoint } from "./arbitrary-checkpoint.ts";

/** The promises of every codec. Run it in the codec's own test file. */
export function formatSuite(harness: FormatHarness): void {
  const { format } = harness;
  const all = readGoldens();
  const own = all.filter((golden) => golden.format === format.name);

  describe("detect", () => {
    test.each(own)("claims $name", ({ file }) => {
      expect(format.detect(file)).toMatchObject({ match: "yes" });
    });
    test.each(all.filter((golden) => golden.format !== format.name))("does not claim $format/$name", ({ file }) => {
      expect(format.detect(file)).toMatchObject({ match: "no" });
    });
    test("claims every valid file, and never throws", PATIENCE, () => {
      fc.assert(
        fc.property(harness.files, (file) => {
          expect(format.detect(file).match).toBe("yes");
        }),
        propertyRuns(100),
      );
      fc.assert(
        fc.property(junk, (file) => {
          expect(format.detect(file).match).toBe("no");
        }),
        propertyRuns(100),
      );
    });
  });

  describe("goldens", () => {
    test("exist", () => expect(own.length).toBeGreaterThan(0));
    test.each(own)("$name decodes as it always has", async (golden) => {
      const decoded = format.decode(golden.file);
      await expect(shown(decoded)).toMatchFileSnapshot(expectedPath(golden));
    });
    test.each(own)("$name is encoded back completely", ({ file }) => {
      expectRoundTrip(harness, file);
    });
  });

  test("valid documents are encoded back completely", PATIENCE, () => {
    fc.assert(
      fc.property(harness.files, (file) => expectRoundTrip(harness, file)),
      propertyRuns(300),
    );
  });

  test("losses of the format are named", PATIENCE, () => {
    fc.assert(
      fc.property(arbitraryCheckpoint(), (checkpoint) => expectHonest(harness, checkpoint)),
      propertyRuns(200),
    );
  });

  describe("corruption", () => {
    const table = [...own.slice(0, 1).flatMap(commonCorruptions), ...harness.corruptions];
    test.each(table)("$name: $code", ({ file, code }) => {
      expect(refusalOf(harness, file)?.code).toBe(code);
    });
    test.each(harness.misfits)("$golden: $path = $value", ({ golden: name, path, value, blames }) => {
      const golden = own.find((one) => one.name === name);
      if (golden === undefined) throw new Error(`There is no golden ${name}`);
      const broken = harness.write(replaceAt(harness.parse(golden.file.bytes), path, value));
      const refusal = refusalOf(harness, { ...golden.file, bytes: broken });
      expect(refusal).toMatchObject({ code: "FORMAT_INVALID", data: { path: blames ?? path } });
    });
    test.each(own)("$name truncated", PATIENCE, (golden) => {
      for (const file of prefixes(golden)) {
        const refusal = refusalOf(harness, file);
        if (harness.endsAreMarked && !isWhole(golden.file, file)) expect(refusal?.code).toBe("FORMAT_DAMAGED");
        if (refusal === null) expectRoundTrip(harness, file);
      }
    });
    test.each(own)("$name with a flipped bit", PATIENCE, (golden) => {
      for (const file of bitFlips(golden)) if (refusalOf(harness, file) === null) expectRoundTrip(harness, file);
    });
  });

  test("bytes changed at random are refused with a code, or encoded back completely", PATIENCE, () => {
    fc.assert(
      fc.property(harness.files, edits, (file, changes) => {
        const broken = { ...file, bytes: mutated(file.bytes, changes) };
        format.detect(broken);
        if (refusalOf(harness, broken) === null) expectRoundTrip(harness, broken);
      }),
      propertyRuns(300),
    );
  });
}

/** Nothing is lost, keys keep their order, and after the first write the bytes never change. */
function expectRoundTrip(harness: FormatHarness, file: ExternalFile): void {
  const { format } = harness;
  for (const checkpoint of format.decode(file).checkpoints) {
    parsePlanes(checkpoint.planes);
    canonicalJson({ ...checkpoint.planes } as unknown as Json);
    const first = format.encode(checkpoint);
    expect(first.losses).toEqual([]);
    const document = checkpoint.original?.document ?? {};
    const written = harness.parse(first.bytes);
    expect(lostPaths(document, written).filter((path) => !isWithin(path, harness.normalised))).toEqual([]);
    expect(keepsOrder(document, written)).toBe(true);
    const again = format.decode({ path: first.path, bytes: first.bytes, compression: file.compression }).checkpoints;
    expect(again.length).toBe(1);
    for (const second of again) {
      const rewritten = format.encode(second);
      expect(text(rewritten.bytes)).toBe(text(first.bytes));
      expect(rewritten.path).toBe(first.path);
      expect(rewritten.losses).toEqual([]);
    }
  }
}

/** The losses must name every difference after a round trip through the external format. */
function expectHonest(harness: FormatHarness, checkpoint: ExternalCheckpoint): void {
  const { format } = harness;
  let encoded;
  try {
    encoded = format.encode(checkpoint);
  } catch (error) {
    expectCoded(error);
    return;
  }
  const file: ExternalFile = { path: encoded.path, bytes: encoded.bytes, compression: "none" };
  const [back] = format.decode(file).checkpoints;
  if (back === undefined) throw new Error("It wrote a document without a checkpoint");
  const named = encoded.losses.map((loss) => `/${loss.path.replaceAll(".", "/")}`);
  const unnamed = lostPaths(comparable(checkpoint), comparable(back)).filter((path) => !isWithin(path, named));
  expect(unnamed, `losses: ${named.join(", ")}`).toEqual([]);
}

/** The planes' fields at the top level, as losses name them. */
function comparable({ planes, id, createdAt, trigger, workflow, work }: ExternalCheckpoint): Json {
  return JSON.parse(JSON.stringify({ ...planes, id, createdAt, trigger, workflow, work }));
}

function refusalOf(harness: FormatHarness, file: ExternalFile): HoldfastError | null {
  try {
    harness.format.decode(file);
    return null;
  } catch (error) {
    return expectCoded(error);
  }
}

const CODES = ["FORMAT_INVALID", "FORMAT_DAMAGED", "FORMAT_TOO_NEW", "USAGE"];

function expectCoded(error: unknown): HoldfastError {
  if (!(error instanceof HoldfastError)) throw error;
  expect(CODES).toContain(error.code);
  expect(error.hint).toBeDefined();
  return error;
}

/** The decoded form without the document itself, which is in the golden file. */
function shown(decoded: Decoded): string {
  const checkpoints = decoded.checkpoints.map(({ original, ...rest }) => ({ ...rest, original: original?.format }));
  return `${JSON.stringify({ checkpoints, remarks: decoded.remarks }, null, 2)}\n`;
}

function isWhole(whole: ExternalFile, cut: ExternalFile): boolean {
  return text(whole.bytes).trimEnd() === text(cut.bytes).trimEnd();
}

function text(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

const compression = "none";
const junk: fc.Arbitrary<ExternalFile> = fc
  .oneof(
    fc.uint8Array({ maxLength: 60 }),
    fc.json({ maxDepth: 3 }).map((json) => new TextEncoder().encode(json)),
  )
  .map((bytes) => ({ path: "notes.json", bytes, compression }));

type Edit = readonly [at: number, removed: number, added: Uint8Array];
const edits: fc.Arbitrary<readonly Edit[]> = fc.array(
  fc.tuple(
    fc.double({ min: 0, max: 1, noNaN: true }),
    fc.nat(3),
    fc.oneof(
      fc.uint8Array({ maxLength: 3 }),
      fc.constantFrom(...'{}[]",:0-1e\\null true\n# &*'.split("")).map((sign) => new TextEncoder().encode(sign)),
    ),
  ),
  { minLength: 1, maxLength: 4 },
);

function mutated(bytes: Uint8Array, changes: readonly Edit[]): Uint8Array {
  return changes.reduce((now, [place, removed, added]) => {
    const at = Math.floor(place * now.length);
    return Uint8Array.from([...now.subarray(0, at), ...added, ...now.subarray(at + removed)]);
  }, bytes);
}

/** The corruptions that apply to every format, made from an intact file, each with its expected error code. */
function commonCorruptions(golden: Golden): readonly Corruption[] {
  const { file } = golden;
  const { bytes } = file;
  const middle = bytes.length >> 1;
  const damaged = (name: string, broken: Uint8Array): Corruption => ({
    name: `${golden.name}: ${name}`,
    file: { ...file, bytes: broken },
    code: "FORMAT_DAMAGED",
  });
  return [
    damaged("empty", new Uint8Array()),
    damaged("a byte that is never UTF-8", spliced(bytes, middle, [0xff])),
    damaged("an overlong encoding", spliced(bytes, middle, [0xc0, 0xaf])),
    damaged("a surrogate in UTF-8", spliced(bytes, middle, [0xed, 0xa0, 0x80])),
    damaged("half of a character at the end", spliced(bytes, bytes.length, [0xe2, 0x82])),
    damaged("UTF-16", utf16(bytes)),
    damaged("zeros, as a lost block leaves them", new Uint8Array(bytes.length)),
    damaged("larger than anything", new Uint8Array(MAX_DOCUMENT_BYTES + 1)),
  ];
}

/** Corruptions of JSON. */
export function jsonCorruptions(golden: Golden): readonly Corruption[] {
  const { file } = golden;
  const text = new TextDecoder().decode(file.bytes).trim();
  const make =
    (code: Corruption["code"]) =>
    (name: string, broken: string): Corruption => ({
      name: `${golden.name}: ${name}`,
      file: { ...file, bytes: new TextEncoder().encode(broken) },
      code,
    });
  const damaged = make("FORMAT_DAMAGED");
  const invalid = make("FORMAT_INVALID");
  const inside = (extra: string): string => `${text.slice(0, -1)},${extra}}`;
  const firstKey = /^\{\s*("[^"]*")/.exec(text)?.[1] ?? '""';
  return [
    damaged("a second document behind it", `${text}{}`),
    damaged("a comma too many", `${text.slice(0, -1)},}`),
    damaged("NaN, as Python writes it", inside('"unknown": NaN')),
    damaged("a control character in a text", inside('"unknown": "\u0001"')),
    damaged("deep lists", inside(`"unknown": ${"[".repeat(600)}${"]".repeat(600)}`)),
    damaged("a short pit of brackets", "[".repeat(1_000_000)),
    damaged("a pit of brackets", "[".repeat(13_000_000)),
    damaged("a heap of lists", inside(`"unknown": [${"[],".repeat(4_400_000)}[]]`)),
    invalid("not an object: a list", "[]"),
    invalid("not an object: null", "null"),
    invalid("not an object: a text", '"x"'),
    invalid("its first key twice", inside(`${firstKey}: 1`)),
    invalid("a key twice, spaced", inside(`${firstKey} \n : 1`)),
    invalid("a key twice, escaped otherwise", inside(`"unknow\\u006e": 1, "unknown": 2`)),
    invalid("a duplicate key, deep in an unknown member", inside('"unknown": [{"a": {"b": 1, "c": ":", "b": 1}}]')),
    invalid("a number with too many digits", inside('"unknown": 9007199254740993')),
    invalid("a number too large", inside('"unknown": [1e999]')),
    invalid("half of a surrogate pair", inside('"unknown": "\\ud83d"')),
    invalid("half of a surrogate pair as key", inside('"\\uDE00": 1')),
    invalid("a key __proto__", inside('"__proto__": {}')),
    invalid("a key __proto__, deep and escaped", inside('"unknown": [{"a": {"\\u005f_proto__": 1}}]')),
  ];
}

/** Every k-th prefix; every one in a full run. */
function prefixes(golden: Golden): readonly ExternalFile[] {
  const { bytes } = golden.file;
  const step = FULL ? 1 : Math.max(1, Math.floor(bytes.length / 97));
  const found: ExternalFile[] = [];
  for (let length = 0; length < bytes.length; length += step)
    found.push({ ...golden.file, bytes: bytes.slice(0, length) });
  return found;
}

/** One flipped bit in every k-th byte. */
function bitFlips(golden: Golden): readonly ExternalFile[] {
  const { bytes } = golden.file;
  const step = FULL ? 1 : Math.max(1, Math.floor(bytes.length / 97));
  const found: ExternalFile[] = [];
  for (let at = 0; at < bytes.length; at += step) {
    const broken = Uint8Array.from(bytes);
    broken[at] = (bytes[at] ?? 0) ^ (1 << (at % 8));
    found.push({ ...golden.file, bytes: broken });
  }
  return found;
}

function spliced(bytes: Uint8Array, at: number, extra: readonly number[]): Uint8Array {
  return Uint8Array.from([...bytes.subarray(0, at), ...extra, ...bytes.subarray(at)]);
}

function utf16(bytes: Uint8Array): Uint8Array {
  return Uint8Array.from([0xff, 0xfe, ...[...bytes].flatMap((byte) => [byte, 0])]);
}

/** What a codec provides for the shared suite. */
interface FormatHarness {
  readonly format: Format;
  /** Valid files as the external tool may write them, some with unknown fields. */
  readonly files: fc.Arbitrary<ExternalFile>;
  /** The document of a valid file as plain values, parsed and written without the codec. */
  readonly parse: (bytes: Uint8Array) => Json;
  readonly write: (document: Json) => Uint8Array;
  /** Invalid values, one field at a time; `path` is a JSON pointer into the golden file's document. */
  readonly misfits: readonly Misfitting[];
  /** Additional corruptions: future versions, duplicate keys in its own syntax, bombs. */
  readonly corruptions: readonly Corruption[];
  /** Whether a truncated document can always be recognized (JSON: yes). */
  readonly endsAreMarked: boolean;
  /** JSON pointers that writing may change on purpose (such as an upgraded version), each as a whole subtree. */
  readonly normalised: readonly string[];
}

export interface Misfitting {
  readonly golden: string;
  readonly path: string;
  readonly value: Json;
  /** The path that the error names, if it is not the field itself. */
  readonly blames?: string;
}

export interface Corruption {
  readonly name: string;
  readonly file: ExternalFile;
  readonly code: ErrorCode;
}

const FULL = process.env["HOLDFAST_FULL"] === "1";

/** Ten thousand cases take minutes. */
export const PATIENCE = { timeout: FULL ? 1_200_000 : 600_000 };

/** 10,000 cases per format in a full run. HOLDFAST_SEED repeats a run. */
export function propertyRuns(few: number): fc.Parameters<unknown> {
  const seed = process.env["HOLDFAST_SEED"];
  return { numRuns: FULL ? 10_000 : few, ...(seed === undefined || seed === "" ? {} : { seed: Number(seed) }) };
}

const ROOT = join(import.meta.dirname, "../../../formats/golden");

interface Golden {
  /** The folder of the file: the format's name. */
  readonly format: string;
  /** Its path below that folder, which is also the path that the codec gets. */
  readonly name: string;
  readonly file: ExternalFile;
}

/** Path of the decoded form of a golden file. */
function expectedPath(golden: Golden): string {
  return join(ROOT, golden.format, EXPECTED, `${golden.name.replaceAll("/", "__")}.decoded.json`);
}

const EXPECTED = "expected";

/** golden/<format>/**: files as the external tools write them. They are never edited. */
export function readGoldens(): readonly Golden[] {
  return readdirSync(ROOT, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .toSorted()
    .flatMap((path) => {
      const [format = "", ...rest] = path.slice(ROOT.length + 1).split("/");
      const name = rest.join("/");
      if (rest[0] === EXPECTED) return [];
      return [{ format, name, file: { path: name, bytes: readFileSync(path), compression: "none" } as const }];
    });
}

/** JSON pointers to everything in `before` that `after` lacks or has changed. Additions in `after` are not losses. */
function lostPaths(before: Json, after: Json | undefined, path: readonly string[] = []): readonly string[] {
  if (isJsonArray(before) && isJsonArray(after))
    return before.flatMap((child, index) => lostPaths(child, after[index], [...path, String(index)]));
  if (isJsonObject(before) && isJsonObject(after))
    return Object.keys(before).flatMap((key) =>
      lostPaths(before[key] ?? null, Object.hasOwn(after, key) ? after[key] : undefined, [...path, key]),
    );
  return same(before, after) ? [] : [pointer(path)];
}

function isWithin(path: string, parents: readonly string[]): boolean {
  return parents.some((parent) => path === parent || path.startsWith(`${parent}/`));
}

/** Whether all common keys have the same order at every level. */
function keepsOrder(before: Json, after: Json | undefined): boolean {
  if (isJsonArray(before) && isJsonArray(after)) return before.every((child, index) => keepsOrder(child, after[index]));
  if (!isJsonObject(before) || !isJsonObject(after)) return true;
  const kept = Object.keys(before).filter((key) => Object.hasOwn(after, key));
  const now = Object.keys(after).filter((key) => Object.hasOwn(before, key));
  return kept.join("\n") === now.join("\n") && kept.every((key) => keepsOrder(before[key] ?? null, after[key]));
}

/** -0 equals 0 in JSON, and an empty list is not an empty object. */
function same(before: Json, after: Json | undefined): boolean {
  if (typeof before === "object" && before !== null) return JSON.stringify(before) === JSON.stringify(after);
  return before === after;
}

/** A copy of `document` with `value` at the JSON pointer `path`, whether or not something was there. */
export function replaceAt(document: Json, path: string, value: Json): Json {
  const [, head, ...rest] = path.split("/");
  if (head === undefined) return value;
  const key = head.replaceAll("~1", "/").replaceAll("~0", "~");
  const below = rest.map((part) => `/${part}`).join("");
  if (isJsonArray(document)) return document.with(Number(key), replaceAt(document[Number(key)] ?? null, below, value));
  if (!isJsonObject(document)) throw new Error(`Nothing can be put at ${path}`);
  return { ...document, [key]: replaceAt(document[key] ?? null, below, value) };
}

/** Paths at which a value does not fit a JSON Schema (2020-12). It supports the keywords of our published schemas and throws for others. */
export function misfits(schema: JsonObject, value: Json): readonly string[] {
  return check(schema, value, { root: schema, path: "" });
}

interface Place {
  readonly root: JsonObject;
  readonly path: string;
}

function check(schema: Json | undefined, value: Json, place: Place): readonly string[] {
  if (!isJsonObject(schema)) throw new TypeError(`no schema at ${place.path}`);
  return Object.entries(schema).flatMap(([word, given]) => checkWord(word, given, { schema, value, place }));
}

function checkWord(
  word: string,
  given: Json,
  at: { readonly schema: JsonObject; readonly value: Json; readonly place: Place },
): readonly string[] {
  const { schema, value, place } = at;
  const bad = [`${place.path || "/"} (${word})`];
  const fits = (part: Json): boolean => check(part, value, place).length === 0;
  const parts = isJsonArray(given) ? given : [];
  const unless = (is: boolean): readonly string[] => (is ? [] : bad);
  switch (word) {
    case "$schema":
    case "$comment":
    case "$defs":
    case "title":
    case "then":
      return [];
    case "$ref":
      return check(resolve(place.root, String(given)), value, place);
    case "type":
      return unless((parts.length > 0 ? parts : [given]).some((type) => isOfType(value, String(type))));
    case "const":
      return unless(value === given);
    case "enum":
      return unless(parts.includes(value));
    case "minimum":
      return unless(typeof value !== "number" || value >= Number(given));
    case "minItems":
      return unless(!isJsonArray(value) || value.length >= Number(given));
    case "pattern":
      return unless(typeof value !== "string" || new RegExp(String(given)).test(value));
    case "required":
      return unless(!isJsonObject(value) || parts.every((name) => Object.hasOwn(value, String(name))));
    case "allOf":
      return parts.flatMap((part) => check(part, value, place));
    case "anyOf":
      return unless(parts.some(fits));
    case "oneOf":
      return unless(parts.filter(fits).length === 1);
    case "not":
      return unless(!fits(given));
    case "if":
      return fits(given) ? check(schema["then"], value, place) : [];
    case "items":
      return isJsonArray(value) ? value.flatMap((item, index) => check(given, item, below(place, String(index)))) : [];
    case "properties":
      if (!isJsonObject(value) || !isJsonObject(given)) return [];
      return Object.entries(given).flatMap(([name, part]) => {
        const member = Object.hasOwn(value, name) ? value[name] : undefined;
        return member === undefined ? [] : check(part, member, below(place, name));
      });
    case "additionalProperties": {
      const known = isJsonObject(schema["properties"]) ? schema["properties"] : {};
      return unless(!isJsonObject(value) || Object.keys(value).every((name) => Object.hasOwn(known, name)));
    }
    default:
      throw new TypeError(`the schema uses ${word}, which is not known here`);
  }
}

function isOfType(value: Json, type: string): boolean {
  if (type === "integer") return Number.isInteger(value);
  if (type === "array") return isJsonArray(value);
  if (type === "object") return isJsonObject(value);
  return type === (value === null ? "null" : typeof value);
}

function resolve(root: JsonObject, reference: string): Json | undefined {
  return reference
    .split("/")
    .slice(1)
    .reduce<Json | undefined>((at, part) => (isJsonObject(at) ? at[part] : undefined), root);
}

function below(place: Place, name: string): Place {
  return { ...place, path: `${place.path}/${name}` };
}
