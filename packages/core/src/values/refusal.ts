import { HoldfastError } from "@holdfast/platform/error";
import { MAX_DEPTH } from "./limits.ts";

/** Thrown inside a fast walk, which keeps no path; the outermost call turns it into a refusal that has one. */
export class Unfit extends Error {}

/** Finds the first offender in `live` again, this time with its path. `cause` is what ended the fast walk. */
export function refusal(live: unknown, cause: Unfit | RangeError): HoldfastError {
  const found = offenderIn(live) ?? {
    path: "",
    reason: cause instanceof Unfit ? "it changed while it was read" : TOO_DEEP_FOR_STACK,
  };
  return new HoldfastError({
    code: "NOT_JSON",
    message: `The value at ${found.path === "" ? "the top" : found.path} cannot be saved as JSON: ${found.reason}`,
    hint: "Save plain objects, arrays, strings, finite numbers, booleans and null; convert anything else first.",
    data: { path: found.path },
  });
}

const TOO_DEEP_FOR_STACK = "it is nested too deep for what is left of the call stack";

function offenderIn(live: unknown): Offender | undefined {
  try {
    return findOffender(live, [], new Set());
  } catch (error) {
    if (error instanceof RangeError) return { path: "", reason: TOO_DEEP_FOR_STACK };
    throw error;
  }
}

interface Offender {
  readonly path: string;
  readonly reason: string;
}

function findOffender(value: unknown, path: readonly string[], above: Set<unknown>): Offender | undefined {
  const reason = above.has(value) ? "it contains itself" : reasonAgainst(value, path.length);
  if (reason !== undefined) return { path: pointer(path), reason };
  if (typeof value !== "object" || value === null) return undefined;
  above.add(value);
  for (const key of Array.isArray(value) ? indexesOf(value) : Object.keys(value)) {
    const badKey = key.isWellFormed() ? ownReason(value, key) : "its key holds a lone surrogate";
    if (badKey !== undefined) return { path: pointer([...path, key]), reason: badKey };
    const child: unknown = Reflect.get(value, key);
    const found = findOffender(child, [...path, key], above);
    if (found !== undefined) return found;
  }
  above.delete(value);
  return undefined;
}

/** One by one: a sparse array may claim four thousand million of them. */
function* indexesOf(value: readonly unknown[]): Iterable<string> {
  for (let i = 0; i < value.length; i += 1) yield String(i);
}

function ownReason(value: object, key: string): string | undefined {
  const descriptor = Object.getOwnPropertyDescriptor(value, key);
  if (descriptor === undefined) return "the array has a hole here";
  return Array.isArray(value) || "value" in descriptor ? undefined : "it is an accessor, not a value";
}

/** Why this value, its children aside, is not JSON. */
function reasonAgainst(value: unknown, depth: number): string | undefined {
  switch (typeof value) {
    case "string":
      return value.isWellFormed() ? undefined : "the string holds a lone surrogate, which UTF-8 cannot carry";
    case "number":
      return Number.isFinite(value) ? undefined : `${value} is not a JSON number`;
    case "boolean":
      return undefined;
    case "object":
      if (value === null) return undefined;
      if (depth >= MAX_DEPTH) return `it is nested deeper than ${MAX_DEPTH} levels`;
      return Array.isArray(value) ? arrayReason(value) : objectReason(value);
    case "undefined":
      return "it is undefined (leave the key out, or use null)";
    case "function":
    case "symbol":
    case "bigint":
      return `it is a ${typeof value}`;
  }
}

function arrayReason(value: readonly unknown[]): string | undefined {
  if (!isPlainArray(value)) return `it is an instance of ${className(value)}`;
  if (Object.getOwnPropertySymbols(value).length > 0) return "it has a symbol key";
  const extra = Object.keys(value).at(-1);
  return extra !== undefined && !(Number(extra) < value.length) ? `the array has the extra key "${extra}"` : undefined;
}

function objectReason(value: object): string | undefined {
  if (!isPlainObject(value)) return `it is an instance of ${className(value)}`;
  return Object.getOwnPropertySymbols(value).length > 0 ? "it has a symbol key" : undefined;
}

/** Array.prototype of any realm is itself an array; the prototype of a subclass is not. */
export function isPlainArray(value: readonly unknown[]): boolean {
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

function className(value: object): string {
  const maker: unknown = Reflect.get(value, "constructor");
  return typeof maker === "function" && maker.name !== "" ? maker.name : "a class";
}

/** RFC 6901. */
export function pointer(path: readonly string[]): string {
  return path.map((key) => `/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}
