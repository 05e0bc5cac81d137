// Plain JSON values: canonical JSON (RFC 8785), frozen copies, and the refusal of anything that JSON cannot hold.

import { HoldfastError, describeValue } from "@holdfast/platform/error";
import { type Json, type JsonObject, isJsonArray, isJsonObject } from "./json.ts";

/** Containers nested deeper are refused, so that every walk may recurse. */
export const MAX_DEPTH = 1000;

/** RFC 8785. NOT_JSON, with the path in `data.path`, for anything that JSON cannot hold. */
export function canonicalJson(value: unknown): string {
  return refusing(value, () => plainText(value, 0));
}

function plainText(value: unknown, depth: number): string {
  if (typeof value !== "object" || value === null) return scalarText(value);
  checkContainer(value, depth);
  let text = "";
  if (Array.isArray(value)) {
    for (const child of value) text += `${text === "" ? "" : ","}${plainText(child, depth + 1)}`;
    return `[${text}]`;
  }
  for (const key of sortedKeys(value))
    text += `${text === "" ? "" : ","}${keyText(key)}:${plainText(ownValue(value, key), depth + 1)}`;
  return `{${text}}`;
}

/** Containers that are frozen through and through: they never change, so they are shared instead of copied. */
const captured = new WeakSet<object>();

/**
 * A deeply frozen copy with its keys in canonical order. Parts that are frozen copies already are shared. So is every part that equals the
 * part of `previous` in the same place; where all are equal, the result is `previous` itself. NOT_JSON as canonicalJson.
 */
export function capture(live: unknown, previous?: Json): Json {
  const base = isCaptured(previous) ? previous : undefined;
  return refusing(live, () => captureValue(live, base, 0));
}

/** Like `capture`, for the values of a run, which must be an object. */
export function captureState(live: object, previous?: JsonObject): JsonObject {
  const state = capture(live, previous);
  if (isJsonObject(state)) return state;
  throw new HoldfastError({
    code: "NOT_JSON",
    message: `The values of a run cannot be ${describeValue(live)}: it is not an object`,
    hint: "Give it a name: { result: … }.",
    data: { path: "" },
  });
}

function captureValue(live: unknown, base: Json | undefined, depth: number): Json {
  if (typeof live !== "object" || live === null) return captureScalar(live);
  if (isCaptured(live)) return live;
  if (base !== undefined && isSame(live, base)) return base;
  checkContainer(live, depth);
  return Array.isArray(live) ? captureList(live, base, depth) : captureObject(live, base, depth);
}

function captureScalar(live: unknown): Json {
  if (typeof live === "string" && live.isWellFormed()) return live;
  // Canonical JSON knows one zero.
  if (typeof live === "number" && Number.isFinite(live)) return live === 0 ? 0 : live;
  if (typeof live === "boolean" || live === null) return live;
  throw new Unfit();
}

function captureList(live: readonly unknown[], base: Json | undefined, depth: number): Json {
  const before = isJsonArray(base) ? base : undefined;
  const copy = live.map((child, i) => captureValue(child, before?.[i], depth + 1));
  if (before?.length === copy.length && copy.every((child, i) => child === before[i])) return before;
  return seal(copy);
}

function captureObject(live: object, base: Json | undefined, depth: number): Json {
  const before = isJsonObject(base) ? base : undefined;
  let isSame = before !== undefined && Object.keys(before).length === Object.keys(live).length;
  const entries = sortedKeys(live).map((key): [string, Json] => {
    if (!key.isWellFormed()) throw new Unfit();
    const from = before !== undefined && Object.hasOwn(before, key) ? before[key] : undefined;
    const child = captureValue(ownValue(live, key), from, depth + 1);
    if (child !== from) isSame = false;
    return [key, child];
  });
  return isSame && before !== undefined ? before : seal(Object.fromEntries(entries));
}

/**
 * Compares a live value with a copy that was taken of it. Strings that are the same object compare at once. Throws Unfit where the copy could
 * not have been taken: an empty Map has the keys of an empty object and is not the same.
 */
export function isSame(live: unknown, copy: Json): boolean {
  if (live === copy) return true;
  if (typeof live !== "object" || live === null || typeof copy !== "object" || copy === null) return false;
  checkContainer(live, 0);
  if (Array.isArray(live)) {
    if (!isJsonArray(copy) || live.length !== copy.length) return false;
    for (let i = 0; i < copy.length; i++) if (!isSame(live[i], copy[i] ?? null)) return false;
    return true;
  }
  if (isJsonArray(copy)) return false;
  const source = asRecord(live);
  let count = 0;
  for (const key in source) {
    // Reading `toString` of an object that has no such key of its own gives something all the same.
    if (!Object.hasOwn(copy, key) || !isSame(source[key], copy[key] ?? null)) return false;
    count += 1;
  }
  for (const _ in copy) count -= 1;
  return count === 0;
}

/** Any object can be read by its keys. */
function asRecord(value: object): Readonly<Record<string, unknown>> {
  return value as Readonly<Record<string, unknown>>;
}

/** Freezes a container whose children are frozen copies, and remembers it as one. */
export function seal<T extends Json & object>(value: T): T {
  Object.freeze(value);
  captured.add(value);
  return value;
}

/** Whether a container was made by `capture` or read from a store: neither it nor anything in it can change. */
export function isCaptured(value: unknown): value is Json & object {
  return typeof value === "object" && value !== null && captured.has(value);
}

/* What follows reads a live value exactly. A walk that meets anything else than JSON throws Unfit; `refusing` finds the path. */

class Unfit extends Error {}

export function scalarText(value: unknown): string {
  switch (typeof value) {
    case "string":
      if (!value.isWellFormed()) throw new Unfit();
      return JSON.stringify(value);
    case "number":
      if (!Number.isFinite(value)) throw new Unfit();
      // Gives "0" for -0, as RFC 8785 wants.
      return String(value);
    case "boolean":
      return value ? "true" : "false";
    default:
      if (value === null) return "null";
      throw new Unfit();
  }
}

export function keyText(key: string): string {
  if (!key.isWellFormed()) throw new Unfit();
  return JSON.stringify(key);
}

export function checkContainer(value: object, depth: number): void {
  if (depth >= MAX_DEPTH || Object.getOwnPropertySymbols(value).length > 0) throw new Unfit();
  if (!Array.isArray(value)) {
    if (!isPlainObject(value)) throw new Unfit();
  } else if (!isPlainArray(value) || Object.keys(value).length !== value.length) throw new Unfit();
}

/** JavaScript compares strings by UTF-16 units, which is the order that RFC 8785 asks for. */
export function sortedKeys(value: object): readonly string[] {
  const keys = Object.keys(value);
  for (let i = 1; i < keys.length; i++) if ((keys[i - 1] ?? "") > (keys[i] ?? "")) return keys.sort();
  return keys;
}

export function ownValue(value: object, key: string): unknown {
  const descriptor = Object.getOwnPropertyDescriptor(value, key);
  if (descriptor === undefined || !("value" in descriptor)) throw new Unfit();
  return descriptor.value;
}

/** Array.prototype of any realm is itself an array; the prototype of a subclass is not. */
function isPlainArray(value: readonly unknown[]): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Array.prototype || Array.isArray(prototype);
}

export function isPlainObject(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Object.prototype || prototype === null) return true;
  // Object.prototype of another realm (a vm context): nothing above it, and it owns what only Object.prototype owns.
  return (
    typeof prototype === "object" &&
    Object.getPrototypeOf(prototype) === null &&
    Object.hasOwn(prototype, "isPrototypeOf") &&
    Object.hasOwn(prototype, "__lookupGetter__")
  );
}

/** Turns Unfit into NOT_JSON, with the path of the first part of `value` that JSON cannot hold. */
export function refusing<T>(value: unknown, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof Unfit || error instanceof RangeError)) throw error;
    const found = offenderIn(value) ?? {
      path: "",
      why: error instanceof Unfit ? "it changed while it was read" : TOO_DEEP_FOR_STACK,
    };
    throw new HoldfastError({
      code: "NOT_JSON",
      message: `The value at ${found.path === "" ? "the top" : found.path} cannot be saved as JSON: ${found.why}`,
      hint: "Save plain objects, arrays, strings, finite numbers, booleans and null; convert anything else first.",
      data: { path: found.path },
    });
  }
}

const TOO_DEEP_FOR_STACK = "it is nested too deep for what is left of the call stack";

interface Offender {
  readonly path: string;
  readonly why: string;
}

function offenderIn(value: unknown): Offender | undefined {
  try {
    return findOffender(value, [], new Set());
  } catch (error) {
    if (error instanceof RangeError) return { path: "", why: TOO_DEEP_FOR_STACK };
    throw error;
  }
}

/** Walks again, this time with the path. One index at a time: a sparse array may claim billions of them. */
function findOffender(value: unknown, path: readonly string[], above: Set<unknown>): Offender | undefined {
  const why = above.has(value) ? "it contains itself" : reasonAgainst(value, path.length);
  if (why !== undefined) return { path: pointer(path), why };
  if (typeof value !== "object" || value === null) return undefined;
  above.add(value);
  for (const index of Array.isArray(value) ? value.keys() : Object.keys(value)) {
    const key = String(index);
    const descriptor = Object.getOwnPropertyDescriptor(value, key);
    const problem =
      descriptor === undefined
        ? "the array has a hole here"
        : !("value" in descriptor)
          ? "it is an accessor, not a value"
          : key.isWellFormed()
            ? undefined
            : "its key holds a lone surrogate";
    if (problem !== undefined) return { path: pointer([...path, key]), why: problem };
    const found = findOffender(descriptor?.value, [...path, key], above);
    if (found !== undefined) return found;
  }
  above.delete(value);
  return undefined;
}

/** Why this value, without its children, is not JSON. */
function reasonAgainst(value: unknown, depth: number): string | undefined {
  switch (typeof value) {
    case "string":
      return value.isWellFormed() ? undefined : "the string holds a lone surrogate, which UTF-8 cannot encode";
    case "number":
      return Number.isFinite(value) ? undefined : `${value} is not a JSON number`;
    case "boolean":
      return undefined;
    case "undefined":
      return "it is undefined (leave the key out, or use null)";
    case "function":
    case "symbol":
    case "bigint":
      return `it is a ${typeof value}`;
    case "object":
      if (value === null) return undefined;
      if (depth >= MAX_DEPTH) return `it is nested deeper than ${MAX_DEPTH} levels`;
      return containerReason(value);
  }
}

function containerReason(value: object): string | undefined {
  if (!(Array.isArray(value) ? isPlainArray(value) : isPlainObject(value)))
    return `it is an instance of ${className(value)}`;
  if (Object.getOwnPropertySymbols(value).length > 0) return "it has a symbol key";
  const last = Array.isArray(value) ? Object.keys(value).at(-1) : undefined;
  return last !== undefined && Array.isArray(value) && !(Number(last) < value.length)
    ? `the array has the extra key "${last}"`
    : undefined;
}

function className(value: object): string {
  const maker: unknown = Reflect.get(value, "constructor");
  return typeof maker === "function" && maker.name !== "" ? maker.name : "a class";
}

/**
 * The JSON pointer of the first key `__proto__` at any depth; null if there is none. Many programs take such a key for
 * the prototype of the object, so documents never have it.
 */
export function findProtoKey(value: Json): string | null {
  if (typeof value !== "object" || value === null || withoutProtoKey.has(value)) return null;
  for (const [key, child] of Object.entries(value)) {
    const below = key === PROTO_KEY ? "" : findProtoKey(child);
    if (below !== null) return `${pointer([key])}${below}`;
  }
  // Only a value that can never change stays without such a key.
  if (isCaptured(value)) withoutProtoKey.add(value);
  return null;
}

export const PROTO_KEY = "__proto__";
const withoutProtoKey = new WeakSet<object>();

/** A JSON pointer (RFC 6901). */
export function pointer(path: readonly string[]): string {
  return path.map((key) => `/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}
