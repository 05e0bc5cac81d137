// JSON: the types of everything Holdfast stores, lenient readers, shapes that validate data from disk, and SHA-256.
import { hash } from "node:crypto";
import { type ErrorCode, HoldfastError } from "@holdfast/platform/error";

/** Everything Holdfast stores is plain JSON: no type tags, no revived classes, nothing executable. */
type JsonScalar = string | number | boolean | null;
export type Json = JsonScalar | JsonArray | JsonObject;
export type JsonArray = readonly Json[];
export interface JsonObject {
  readonly [key: string]: Json;
}

/**
 * What a type parameter must be to be stored as JSON: `<T extends JsonSafe<T>>`. Interfaces fit, which have no index signature. A Date, a
 * function, `undefined`, a BigInt or `unknown` at any depth is a compile error.
 */
export type JsonSafe<T> = Json | JsonSafeObject<T>;

/** Like JsonSafe, for objects only. Only functions have `Symbol.hasInstance`. */
export type JsonSafeObject<T> = object & { readonly [Symbol.hasInstance]?: never } & {
  readonly [K in keyof T]: T extends readonly unknown[]
    ? JsonSafePart<T[K]>
    : object extends Pick<T, K>
      ? JsonSafePart<Exclude<T[K], undefined>> | undefined
      : JsonSafePart<T[K]>;
};

type JsonSafePart<T> = T extends Json ? T : T extends object ? JsonSafeObject<T> : never;

export type JsonContainer = JsonArray | JsonObject;

/** TypeScript's Array.isArray does not narrow readonly arrays. */
export function isJsonArray(value: Json | undefined): value is JsonArray {
  return Array.isArray(value);
}

export function isJsonObject(value: Json | undefined): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The object, or an empty one if the value is missing or has another type. */
export function asJsonObject(value: Json | undefined): JsonObject {
  return isJsonObject(value) ? value : {};
}

/** Lower-case hex SHA-256. */
export type Digest = string;

/** A SHA-256 function over the UTF-8 encoding of a string, or over bytes. */
export type Hasher = (data: string | Uint8Array) => Digest;

/** JSON of unknown shape, read without a cast. A missing value or another type reads as empty. */
export type JsonRecord = Readonly<Record<string, unknown>>;

export function asRecord(value: unknown): JsonRecord {
  return isRecord(value) ? value : {};
}

export function isRecord(value: unknown): value is JsonRecord {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function asRecords(value: unknown): readonly JsonRecord[] {
  return Array.isArray(value) ? value.filter((item) => isRecord(item)) : [];
}

export function asText(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Returns the string itself, or the joined texts of content parts. */
export function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  return asRecords(content)
    .map((part) => asText(part["text"]))
    .filter((text) => text !== "")
    .join("\n");
}

/**
 * Checks what a value read from disk looks like. A shape never copies: the value that passes is used as it is, with
 * every field that a newer Holdfast may have added. It allocates only for a mismatch. `shapeOf` holds no value: it ties
 * the shape to its type, so that the compiler finds a difference.
 */
export type Shape<T> = ((value: unknown) => Misfit | null) & { readonly shapeOf?: T };
/** The type of the values that a shape accepts. */
export type TypeOf<S> = S extends Shape<infer T> ? T : never;

interface Misfit {
  /** JSON pointer, relative to the checked value. */
  readonly path: string;
  readonly expected: string;
  readonly actual: unknown;
}

/** Returns the value with its type, or throws `code` (default STORE_CORRUPT) with the path of the mismatch. */
export function parseShape<T>(params: {
  readonly shape: Shape<T>;
  readonly value: unknown;
  /** Name of the checked value for the message: "checkpoint issue-42-k3f9@7". */
  readonly what: string;
  readonly code?: ErrorCode;
}): T {
  const misfit = params.shape(params.value);
  // The shape is tied to T and found no mismatch.
  if (misfit === null) return params.value as T;
  throw new HoldfastError({
    code: params.code ?? "STORE_CORRUPT",
    message: `${params.what} is not what it must be: at ${misfit.path === "" ? "its root" : misfit.path} there is ${describeMisfit(misfit.actual)} where ${misfit.expected} belongs`,
    hint: "Run `holdfast verify` to see what is damaged and which checkpoint is the newest whole one.",
    data: { path: misfit.path, expected: misfit.expected },
  });
}

/** The value of a JSON text with its type; undefined if it is not JSON or does not match. */
export function parseJsonAs<T>(shape: Shape<T>, source: string): T | undefined {
  try {
    const value: unknown = JSON.parse(source);
    // The shape is tied to T and found no mismatch.
    return shape(value) === null ? (value as T) : undefined;
  } catch {
    return undefined;
  }
}

export const text: Shape<string> = (value) => (typeof value === "string" ? null : misfit("a text", value));
export const flag: Shape<boolean> = (value) => (typeof value === "boolean" ? null : misfit("true or false", value));
export const finite: Shape<number> = (value) =>
  typeof value === "number" && Number.isFinite(value) ? null : misfit("a number", value);
/** Counters, sequences and amounts: a non-negative safe integer. */
export const count: Shape<number> = (value) =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0
    ? null
    : misfit("a whole number from 0", value);
/** Every result of JSON.parse is JSON, so only undefined is invalid. */
export const json: Shape<Json> = (value) => (value === undefined ? misfit("a value", value) : null);
export const jsonObject: Shape<JsonObject> = (value) => (isRecord(value) ? null : misfit("an object", value));

export function nullable<T>(shape: Shape<T>): Shape<T | null> {
  return (value) => (value === null ? null : shape(value));
}

/** The shape of a field that may be absent. */
type OptionalShape<T> = Shape<T> & { readonly mayBeAbsent: true };

export function optional<T>(shape: Shape<T>): OptionalShape<T> {
  return Object.assign((value: unknown) => (value === undefined ? null : shape(value)), { mayBeAbsent: true as const });
}

export function list<T>(shape: Shape<T>): Shape<readonly T[]> {
  return (value) => {
    if (!Array.isArray(value)) return misfit("a list", value);
    for (let index = 0; index < value.length; index += 1) {
      const found = shape(value[index]);
      if (found !== null) return below(String(index), found);
    }
    return null;
  };
}

export function dictionary<T>(shape: Shape<T>): Shape<Readonly<Record<string, T>>> {
  return (value) => {
    if (!isRecord(value)) return misfit("an object", value);
    for (const key of Object.keys(value)) {
      const found = shape(value[key]);
      if (found !== null) return below(key, found);
    }
    return null;
  };
}

/** A record, not a list, so that the compiler finds a missing word. */
export function oneOf<T extends string>(words: Readonly<Record<T, true>>): Shape<T> {
  return (value) =>
    typeof value === "string" && Object.hasOwn(words, value)
      ? null
      : misfit(`one of ${Object.keys(words).join(", ")}`, value);
}

/** One of these words. The type follows from the list. */
export function anyOf<const T extends string>(words: readonly T[]): Shape<T> {
  return (value) => (words.some((word) => word === value) ? null : misfit(`one of ${words.join(", ")}`, value));
}

type Fields = Readonly<Record<string, Shape<unknown>>>;
/** The object that these fields describe. */
type Described<F extends Fields> = Readonly<
  { [K in keyof F as F[K] extends OptionalShape<unknown> ? never : K]: TypeOf<F[K]> } & {
    [K in keyof F as F[K] extends OptionalShape<unknown> ? K : never]?: TypeOf<F[K]>;
  }
>;

/** Every named field must match. Other fields are ignored. The type follows from the fields, or is given and checked against them. */
export function object<F extends Fields>(fields: F): Shape<Described<F>>;
export function object<T extends object>(fields: { readonly [K in keyof T]-?: Shape<T[K]> }): Shape<Readonly<T>>;
export function object(fields: Fields): Shape<object> {
  const shapes = Object.entries(fields);
  return (value) => {
    if (!isRecord(value)) return misfit("an object", value);
    for (const [name, shape] of shapes) {
      const found = shape(Object.hasOwn(value, name) ? value[name] : undefined);
      if (found !== null) return below(name, found);
    }
    return null;
  };
}

/** A discriminated union: the value under `key` selects the shape of the other fields. */
export function tagged<T extends object, K extends keyof T & string>(
  key: K,
  cases: { readonly [V in T[K] & string]: Shape<Omit<Extract<T, { readonly [P in K]: V }>, K>> },
): Shape<T> {
  return selectBy(key, Object.entries<Shape<object>>(cases));
}

/** A discriminated union whose type follows from the shapes of the other fields. */
export function variants<K extends string, C extends Readonly<Record<string, Shape<object>>>>(
  key: K,
  cases: C,
): Shape<{ [V in keyof C & string]: Readonly<Record<K, V>> & TypeOf<C[V]> }[keyof C & string]> {
  return selectBy(key, Object.entries(cases));
}

function selectBy(
  key: string,
  cases: readonly (readonly [string, Shape<object>])[],
): (value: unknown) => Misfit | null {
  const shapes = new Map<unknown, Shape<object>>(cases);
  return (value) => {
    if (!isRecord(value)) return misfit("an object", value);
    const tag = Object.hasOwn(value, key) ? value[key] : undefined;
    const shape = shapes.get(tag);
    return shape === undefined ? below(key, misfit(`one of ${[...shapes.keys()].join(", ")}`, tag)) : shape(value);
  };
}

function misfit(expected: string, actual: unknown): Misfit {
  return { path: "", expected, actual };
}

function below(key: string, found: Misfit): Misfit {
  return { ...found, path: `/${key.replaceAll("~", "~0").replaceAll("/", "~1")}${found.path}` };
}

/** What is there instead of the expected value, for a message. */
export function describeMisfit(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object") return "an object";
  return String(JSON.stringify(value)).slice(0, 60);
}

/** For plain data that Holdfast built. Captured values are already frozen and stop the recursion. */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  for (const part of Object.values(value)) deepFreeze(part);
  return Object.freeze(value);
}

/**
 * Finds the outermost JSON objects in a text, in order. Braces in strings do not count, so an object whose text quotes
 * code is found as a whole. Braces in prose are skipped.
 */
export function objectsIn(text: string): readonly JsonObject[] {
  const found: JsonObject[] = [];
  let from = text.indexOf("{");
  // Keeps the time linear: a brace that is not closed is followed to the end of the text.
  let left = text.length * MOST_PASSES;
  for (let tries = 0; from !== -1 && tries < MAX_TRIES && left > 0; tries += 1) {
    const end = endOf(text, from);
    left -= (end === -1 ? text.length : end) - from;
    const object = end === -1 ? null : parseObject(text.slice(from, end));
    if (object !== null) found.push(object);
    from = text.indexOf("{", object === null ? from + 1 : end);
  }
  return found;
}

/** Bounds the time for a text with many braces. */
const MAX_TRIES = 1000;
const MOST_PASSES = 20;

/** Index after the brace that closes the one at `from`. -1: none does. */
function endOf(text: string, from: number): number {
  let depth = 0;
  let quoted = false;
  for (let at = from; at < text.length; at += 1) {
    const character = text[at];
    if (quoted) {
      if (character === "\\") at += 1;
      else if (character === '"') quoted = false;
    } else if (character === '"') quoted = true;
    else if (character === "{") depth += 1;
    else if (character === "}") {
      depth -= 1;
      if (depth === 0) return at + 1;
    }
  }
  return -1;
}

/** The object that the whole text is, or null. */
export function parseObject(text: string): JsonObject | null {
  try {
    const value = JSON.parse(text) as Json; // JSON.parse returns JSON.
    return isJsonObject(value) ? value : null;
  } catch {
    return null;
  }
}

export const sha256: Hasher = (data) => hash("sha256", data, "hex");
