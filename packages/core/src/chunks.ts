// States as chunks that later states share.
//
// A state is written as one text, its root. A value shorter than WHOLE_BELOW stands in it as plain JSON. In a longer one every part of
// PART_FROM characters or more is a chunk of its own, named by the SHA-256 of its text:
//   {"$c": digest}              a value
//   {"$l": [height, digest…]}   a list in pages; {"$o": …} an object in pages; {"$t": …} a text in pieces
// At height 1 the digests name the pages; at each height above, lists of digests. Where a page ends is decided by its last item alone,
// so an insertion changes one page and the path to it. The same value always gives the same root, whatever was saved before.
// A user's key that begins with "$" is written with one more "$".

import { hash } from "node:crypto";
import { crc32, zstdCompressSync, zstdDecompressSync } from "node:zlib";
import { HoldfastError } from "@holdfast/platform/error";
import { type Json, type JsonObject, isJsonObject } from "./json.ts";
import {
  MAX_DEPTH,
  checkContainer,
  isCaptured,
  isSame,
  keyText,
  ownValue,
  refusing,
  scalarText,
  seal,
  sortedKeys,
} from "./values.ts";

const WHOLE_BELOW = 4096;
const PART_FROM = 512;
/** A list or object whose own text, with references in it, is this long is split into pages. */
const PAGED_FROM = 2048;
const LONGEST_PAGE = 32;
const MOST_ROOT_DIGESTS = 16;
const TEXT_FROM = 16_384;
const SHORTEST_PIECE = 4096;
const MAX_BYTES = 500_000_000;

export interface Chunk {
  /** SHA-256 of the text, as base64url. */
  readonly digest: string;
  readonly text: string;
  /** The sweep count under which this chunk was last known to be in the database; -1 while it is not. */
  stored: number;
}

export interface EncodedValue {
  readonly root: string;
  /** Every chunk that the root needs, also those that were stored before. */
  readonly chunks: readonly Chunk[];
  /** Length of the canonical JSON in bytes; keys that begin with "$" count one more. */
  readonly bytes: number;
}

/** What the last state of a run looked like, so that the next one is encoded at the cost of its changes. A cache: it changes no result. */
export interface ValueMemory {
  /** Elements of lists, and frozen parts, as they were when they were encoded. */
  readonly elements: WeakMap<object, Remembered>;
  /** Chunks and long texts of this encoding and of the one before, by their text. */
  chunks: Map<string, Chunk>;
  chunksBefore: Map<string, Chunk>;
  texts: Map<string, Part>;
  textsBefore: Map<string, Part>;
}

interface Remembered {
  readonly copy: Json;
  readonly part: Part;
}

interface Part {
  readonly text: string;
  /** -1: the length of `text`, which was not needed yet. */
  bytes: number;
  readonly chunks: readonly Chunk[];
  /** This part as a reference to a chunk, once that was asked for. */
  reference?: Part;
  /** Whether a page ends with this item, once that was asked for. */
  ends?: boolean;
}

function bytesOf(part: Part): number {
  if (part.bytes < 0) part.bytes = Buffer.byteLength(part.text);
  return part.bytes;
}

const NO_CHUNKS: readonly Chunk[] = Object.freeze([]);

export function createValueMemory(): ValueMemory {
  return {
    elements: new WeakMap(),
    chunks: new Map(),
    chunksBefore: new Map(),
    texts: new Map(),
    textsBefore: new Map(),
  };
}

/** Reads `value` completely before it returns. NOT_JSON, with the path in `data.path`, for anything that JSON cannot hold. */
export function encodeValue(value: unknown, memory = createValueMemory()): EncodedValue {
  memory.chunksBefore = memory.chunks;
  memory.chunks = new Map();
  memory.textsBefore = memory.texts;
  memory.texts = new Map();
  const part = refusing(value, () => partOf(value, memory, 0));
  const length = bytesOf(part);
  if (length > MAX_BYTES) {
    throw new HoldfastError({
      code: "NOT_JSON",
      message: `A state of ${length} bytes is more than a checkpoint can hold`,
      hint: `Keep a state under ${MAX_BYTES} bytes; put large data into files.`,
    });
  }
  return { root: part.text, chunks: part.chunks, bytes: length };
}

function partOf(value: unknown, memory: ValueMemory, depth: number): Part {
  if (typeof value === "string" && value.length >= PART_FROM) return longText(value, memory);
  if (typeof value !== "object" || value === null) return { text: scalarText(value), bytes: -1, chunks: NO_CHUNKS };
  checkContainer(value, depth);
  if (!Array.isArray(value)) return objectPart(value, memory, depth);
  const parts: Part[] = [];
  for (const child of value) parts.push(elementPart(child, memory, depth + 1));
  return join(parts, null, memory);
}

function objectPart(value: object, memory: ValueMemory, depth: number): Part {
  const keys = sortedKeys(value);
  const names: string[] = [];
  const parts: Part[] = [];
  const many = keys.length >= LONGEST_PAGE;
  for (const key of keys) {
    const child = ownValue(value, key);
    names.push(`${keyText(key.startsWith("$") ? `$${key}` : key)}:`);
    parts.push(many || isCaptured(child) ? elementPart(child, memory, depth + 1) : partOf(child, memory, depth + 1));
  }
  return join(parts, names, memory);
}

/** A part that reads as it did when it was last encoded is not encoded again. */
function elementPart(value: unknown, memory: ValueMemory, depth: number): Part {
  if (typeof value !== "object" || value === null) return partOf(value, memory, depth);
  const known = memory.elements.get(value);
  if (known !== undefined && isSame(value, known.copy)) return known.part;
  const part = partOf(value, memory, depth);
  if (part.text.length >= 64) memory.elements.set(value, { copy: copyOf(value), part });
  return part;
}

/** `names`: the keys, with their colons, of an object; null for a list. */
function join(parts: readonly Part[], names: readonly string[] | null, memory: ValueMemory): Part {
  let length = 2;
  let isWhole = true;
  for (let i = 0; i < parts.length; i++) {
    length += (parts[i]?.text.length ?? 0) + 1 + (names?.[i]?.length ?? 0);
    if (parts[i]?.chunks.length !== 0) isWhole = false;
  }
  if (isWhole && length < WHOLE_BELOW)
    return { text: container(parts, names, 0, parts.length), bytes: -1, chunks: NO_CHUNKS };
  const items: Part[] = [];
  const chunks: Chunk[] = [];
  let bytes = 1 + parts.length;
  let own = 0;
  for (const part of parts) {
    const item = part.text.length < PART_FROM ? part : referenceTo(part, memory);
    const name = names?.[items.length] ?? "";
    bytes += bytesOf(part) + (name === "" ? 0 : Buffer.byteLength(name));
    own += item.text.length + name.length;
    for (const chunk of item.chunks) chunks.push(chunk);
    items.push(item);
  }
  if (own < PAGED_FROM || items.length <= 8) return { text: container(items, names, 0, items.length), bytes, chunks };
  const pages: string[] = [];
  for (let from = 0, at = 0; at < items.length; at++) {
    const item = items[at];
    const isLast = at === items.length - 1 || at - from + 1 >= LONGEST_PAGE;
    if (item === undefined || !(isLast || (item.ends ??= endsPage(item.text)))) continue;
    const page = chunkOf(container(items, names, from, at + 1), memory);
    pages.push(page.digest);
    chunks.push(page);
    from = at + 1;
  }
  const { text, upper } = tree(names === null ? "$l" : "$o", pages, memory);
  return { text, bytes, chunks: [...chunks, ...upper] };
}

function container(items: readonly Part[], names: readonly string[] | null, from: number, to: number): string {
  let text = "";
  for (let i = from; i < to; i++) text += `${i === from ? "" : ","}${names?.[i] ?? ""}${items[i]?.text ?? ""}`;
  return names === null ? `[${text}]` : `{${text}}`;
}

function endsPage(item: string): boolean {
  return (crc32(item) & 7) === 0;
}

function longText(value: string, memory: ValueMemory): Part {
  const known = memory.texts.get(value) ?? memory.textsBefore.get(value);
  const part = known ?? textPart(value, memory);
  memory.texts.set(value, part);
  return part;
}

function textPart(value: string, memory: ValueMemory): Part {
  if (value.length <= TEXT_FROM) return { text: scalarText(value), bytes: -1, chunks: NO_CHUNKS };
  const chunks: Chunk[] = [];
  let bytes = 2;
  for (let start = 0; start < value.length;) {
    const end = endOfPiece(value, start);
    const piece = value.slice(start, end);
    const known = memory.texts.get(piece) ?? memory.textsBefore.get(piece);
    const part = known ?? { text: scalarText(piece), bytes: -1, chunks: NO_CHUNKS };
    memory.texts.set(piece, part);
    bytes += bytesOf(part) - 2;
    chunks.push(...referenceTo(part, memory).chunks);
    start = end;
  }
  const { text, upper } = tree(
    "$t",
    chunks.map(({ digest }) => digest),
    memory,
  );
  return { text, bytes, chunks: [...chunks, ...upper] };
}

/**
 * Behind a line end that the line itself chooses, so that the pieces behind an edit stay the same; in a text without line ends behind a place
 * that the 32 characters before it choose. Never inside a surrogate pair.
 */
function endOfPiece(text: string, start: number): number {
  const limit = start + TEXT_FROM;
  if (text.length <= limit) return text.length;
  const reach = text.slice(start + SHORTEST_PIECE, limit);
  let found = -1;
  for (let at = reach.indexOf("\n"); at >= 0; at = reach.indexOf("\n", at + 1)) {
    found = start + SHORTEST_PIECE + at + 1;
    if ((crc32(text.slice(found - 33, found - 1)) & 3) === 0) return found;
  }
  if (found >= 0) return found;
  const end = start + SHORTEST_PIECE + chosenPlace(reach);
  const code = text.charCodeAt(end - 1);
  return code >= 0xd800 && code < 0xdc00 ? end - 1 : end;
}

/** Each step shifts the oldest of 32 characters out of the hash. */
function chosenPlace(text: string): number {
  let hashed = 0;
  for (let at = 0; at < text.length; at++) {
    hashed = ((hashed << 1) + Math.imul(text.charCodeAt(at) + 1, 0x9e3779b1)) | 0;
    if (at >= 32 && hashed >>> 20 === 0) return at + 1;
  }
  return text.length;
}

/** References to the pages, with lists of references above them until few are left. */
function tree(
  kind: "$l" | "$o" | "$t",
  pages: readonly string[],
  memory: ValueMemory,
): { readonly text: string; readonly upper: readonly Chunk[] } {
  const upper: Chunk[] = [];
  let digests = pages;
  let height = 1;
  while (digests.length > MOST_ROOT_DIGESTS) {
    const above: string[] = [];
    for (let from = 0, at = 0; at < digests.length; at++) {
      const last = at === digests.length - 1 || at - from + 1 >= LONGEST_PAGE;
      if (!last && (at === from || !endsPage(digests[at] ?? ""))) continue;
      const chunk = chunkOf(JSON.stringify(digests.slice(from, at + 1)), memory);
      above.push(chunk.digest);
      upper.push(chunk);
      from = at + 1;
    }
    digests = above;
    height += 1;
  }
  return { text: `{"${kind}":${JSON.stringify([height, ...digests])}}`, upper };
}

function referenceTo(part: Part, memory: ValueMemory): Part {
  if (part.reference !== undefined) return part.reference;
  const chunk = chunkOf(part.text, memory);
  part.reference = { text: `{"$c":"${chunk.digest}"}`, bytes: bytesOf(part), chunks: [...part.chunks, chunk] };
  return part.reference;
}

function chunkOf(text: string, memory: ValueMemory): Chunk {
  const known = memory.chunks.get(text) ?? memory.chunksBefore.get(text);
  const chunk = known ?? { digest: hash("sha256", text, "base64url"), text, stored: -1 };
  memory.chunks.set(text, chunk);
  return chunk;
}

/** A chunk that a text refers to. From height 2 on it holds digests of the height below. */
export interface Reference {
  readonly digest: string;
  readonly height: number;
}

/** Gives the texts of the chunks that are there. */
export type LoadChunks = (digests: readonly string[]) => Promise<ReadonlyMap<string, string>>;

/** The value of a root, deeply frozen. STORE_CORRUPT when a chunk is gone or does not give its digest. */
export async function decodeValue(root: string, load: LoadChunks): Promise<Json> {
  const chunks = new Map<string, Json>();
  const top = parseJson(root);
  let wanted = referencesIn(top, 0);
  while (wanted.length > 0) {
    const missing = [...new Set(wanted.map(({ digest }) => digest))].filter((digest) => !chunks.has(digest));
    const texts = missing.length === 0 ? new Map<string, string>() : await load(missing);
    const next: Reference[] = [];
    for (const { digest, height } of wanted) {
      let parsed = chunks.get(digest);
      if (parsed === undefined) {
        const text = texts.get(digest);
        if (text === undefined) throw corrupt(`the chunk ${digest} is gone`);
        parsed = parseChunk(text, digest);
        chunks.set(digest, parsed);
      }
      next.push(...referencesIn(parsed, height));
    }
    wanted = next;
  }
  return build(top, chunks, 0);
}

/** Checks that the text is the one that the digest names. */
export function parseChunk(text: string, digest: string): Json {
  if (hash("sha256", text, "base64url") !== digest) throw corrupt(`the chunk ${digest} does not give its digest`);
  return parseJson(text);
}

export function parseJson(text: string): Json {
  try {
    const value: Json = JSON.parse(text);
    return value;
  } catch (error) {
    throw corrupt("its JSON does not parse", error);
  }
}

/** The chunks that a parsed text refers to. `height`: of the reference that led here; 0 for a root. */
export function referencesIn(value: Json, height: number): readonly Reference[] {
  const found: Reference[] = [];
  if (height >= 2) {
    for (const digest of digestsOf(value)) found.push({ digest, height: height - 1 });
    return found;
  }
  collect(value, found, 0);
  return found;
}

function collect(value: Json, found: Reference[], depth: number): void {
  if (typeof value !== "object" || value === null) return;
  if (depth > MAX_DEPTH) throw corrupt(`it is nested deeper than ${MAX_DEPTH} levels`);
  const reference = referenceOf(value);
  if (reference === null) for (const child of Object.values(value)) collect(child, found, depth + 1);
  else for (const digest of reference.digests) found.push({ digest, height: reference.height });
}

type ReferenceKind = "$c" | "$l" | "$o" | "$t";

interface ParsedReference {
  readonly kind: ReferenceKind;
  readonly height: number;
  readonly digests: readonly string[];
}

function referenceOf(value: object): ParsedReference | null {
  for (const key in value) {
    if (!key.startsWith("$") || key.startsWith("$$")) return null;
    const target: unknown = Reflect.get(value, key);
    if (key === "$c" && typeof target === "string") return { kind: key, height: 0, digests: [target] };
    if ((key === "$l" || key === "$o" || key === "$t") && Array.isArray(target)) {
      const [height, ...digests]: readonly unknown[] = target;
      if (typeof height === "number" && Number.isSafeInteger(height) && height >= 1 && height < 32)
        return { kind: key, height, digests: digestsOf(digests) };
    }
    throw corrupt(`${JSON.stringify(key)} is not a reference`);
  }
  return null;
}

function digestsOf(value: unknown): readonly string[] {
  if (Array.isArray(value) && value.every((one) => typeof one === "string" && one.length === 43)) return value;
  throw corrupt("a list of digests is not one");
}

/** Replaces references by what they name, in place: the parsed JSON is ours alone. */
function build(value: Json, chunks: ReadonlyMap<string, Json>, depth: number): Json {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  if (depth > MAX_DEPTH) throw corrupt(`it is nested deeper than ${MAX_DEPTH} levels`);
  const reference = referenceOf(value);
  if (reference !== null) return resolve(reference, chunks, depth);
  let result = value;
  if (!Array.isArray(value) && Object.keys(value).some((key) => key.startsWith("$$"))) {
    result = Object.fromEntries(Object.entries(value).map(([key, child]) => [unescaped(key), child]));
  }
  for (const [key, child] of Object.entries(result)) {
    const built = build(child, chunks, depth + 1);
    if (built !== child) Object.defineProperty(result, key, { value: built, enumerable: true });
  }
  return seal(result);
}

function unescaped(key: string): string {
  return key.startsWith("$$") ? key.slice(1) : key;
}

function resolve(reference: ParsedReference, chunks: ReadonlyMap<string, Json>, depth: number): Json {
  const pages = pagesOf(reference, chunks).map((page) => build(page, chunks, depth));
  const [first = null] = pages;
  switch (reference.kind) {
    case "$c":
      return first;
    case "$t":
      if (!pages.every((page) => typeof page === "string")) throw corrupt("a piece of a text is not a text");
      return pages.join("");
    case "$l":
      if (!pages.every((page) => Array.isArray(page))) throw corrupt("a page of a list is not a list");
      return seal(pages.flat(1));
    case "$o":
      return seal(Object.fromEntries(pages.flatMap((page) => Object.entries(asObject(page)))));
  }
}

function pagesOf(reference: ParsedReference, chunks: ReadonlyMap<string, Json>): readonly Json[] {
  let { digests } = reference;
  const read = (digest: string): Json => {
    const found = chunks.get(digest);
    if (found === undefined) throw corrupt(`the chunk ${digest} is gone`);
    return found;
  };
  for (let { height } = reference; height > 1; height--) digests = digests.flatMap((digest) => digestsOf(read(digest)));
  return digests.map(read);
}

function asObject(value: Json): JsonObject {
  if (isJsonObject(value)) return value;
  throw corrupt("a page of an object is not an object");
}

function corrupt(why: string, cause?: unknown): HoldfastError {
  return new HoldfastError({
    code: "STORE_CORRUPT",
    message: why,
    hint: "Run `holdfast verify` to see what is still whole.",
    ...(cause === undefined ? {} : { cause }),
  });
}

const RAW = 0;
const ZSTD = 1;

/** A text as it is stored: compressed from `from` characters on, where that makes it shorter. */
export function packText(text: string, from: number): Uint8Array {
  const bytes = Buffer.from(text);
  if (text.length >= from) {
    const packed = zstdCompressSync(bytes);
    if (packed.length < bytes.length) return Buffer.concat([Buffer.of(ZSTD), packed]);
  }
  return Buffer.concat([Buffer.of(RAW), bytes]);
}

export function unpackText(bytes: Uint8Array): string {
  const body = bytes.subarray(1);
  try {
    if (bytes[0] === RAW) return decoder.decode(body);
    if (bytes[0] === ZSTD) return decoder.decode(zstdDecompressSync(body, { maxOutputLength: MAX_BYTES }));
  } catch (error) {
    throw corrupt("its bytes cannot be unpacked", error);
  }
  throw corrupt("its bytes begin with an unknown mark");
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Of a value that was just written as JSON. What cannot change needs no copy. */
function copyOf(value: unknown): Json {
  if (isCaptured(value)) return value;
  if (Array.isArray(value)) return value.map(copyOf);
  if (typeof value === "object" && value !== null)
    return Object.fromEntries(Object.entries(value).map(([key, child]) => [key, copyOf(child)]));
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? value : null;
}
