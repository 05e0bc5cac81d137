import { HoldfastError } from "./error.ts";
import type { ErrorCode } from "./error.ts";
import type { Json, JsonObject } from "./json.ts";

/**
 * What a value read from disk must look like. A shape looks and never copies: the value that passed is the value that
 * goes on, with every field that a newer Holdfast may have added. Nothing is allocated unless something is wrong.
 * `shapeOf` holds no value; it ties the shape to its type, so that the two cannot drift apart unseen.
 */
export type Shape<T> = ((value: unknown) => Misfit | null) & { readonly shapeOf?: T };

export interface Misfit {
  /** JSON pointer from the value that was looked at. */
  readonly path: string;
  readonly expected: string;
  readonly actual: unknown;
}

/** Gives the value its type, or throws `code` (STORE_CORRUPT unless told otherwise) with the path of the offender. */
export function parseShape<T>(params: {
  readonly shape: Shape<T>;
  readonly value: unknown;
  /** What is being read, for the message: "checkpoint issue-42-k3f9@7". */
  readonly what: string;
  readonly code?: ErrorCode;
}): T {
  const misfit = params.shape(params.value);
  // The shape is tied to T and found nothing wrong.
  if (misfit === null) return params.value as T;
  throw new HoldfastError({
    code: params.code ?? "STORE_CORRUPT",
    message: `${params.what} is not what it must be: at ${misfit.path === "" ? "its root" : misfit.path} there is ${describe(misfit.actual)} where ${misfit.expected} belongs`,
    hint: "Run `holdfast verify` to see what is damaged and which checkpoint is the newest whole one.",
    data: { path: misfit.path, expected: misfit.expected },
  });
}

export const text: Shape<string> = (value) => (typeof value === "string" ? null : misfit("a text", value));
export const flag: Shape<boolean> = (value) => (typeof value === "boolean" ? null : misfit("true or false", value));
export const finite: Shape<number> = (value) =>
  typeof value === "number" && Number.isFinite(value) ? null : misfit("a number", value);
/** Counters, sequences and amounts: never negative, never a fraction, never beyond what a double holds exactly. */
export const count: Shape<number> = (value) =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0
    ? null
    : misfit("a whole number from 0", value);
/** Whatever JSON.parse returned is JSON already; only its absence is wrong. */
export const json: Shape<Json> = (value) => (value === undefined ? misfit("a value", value) : null);
export const jsonObject: Shape<JsonObject> = (value) => (isRecord(value) ? null : misfit("an object", value));

export function nullable<T>(shape: Shape<T>): Shape<T | null> {
  return (value) => (value === null ? null : shape(value));
}

/** A field that older or smaller records lack. */
export function optional<T>(shape: Shape<T>): Shape<T> {
  return (value) => (value === undefined ? null : shape(value));
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

/** A record and not a list, so that the compiler sees a word that was forgotten. */
export function oneOf<T extends string>(words: Readonly<Record<T, true>>): Shape<T> {
  return (value) =>
    typeof value === "string" && Object.hasOwn(words, value)
      ? null
      : misfit(`one of ${Object.keys(words).join(", ")}`, value);
}

/** Every field must be there; fields that are not named are left alone. */
export function object<T extends object>(fields: { readonly [K in keyof T]-?: Shape<T[K]> }): Shape<T> {
  const names = Object.keys(fields) as (keyof T & string)[];
  return (value) => {
    if (!isRecord(value)) return misfit("an object", value);
    for (const name of names) {
      const found = fields[name](Object.hasOwn(value, name) ? value[name] : undefined);
      if (found !== null) return below(name, found);
    }
    return null;
  };
}

/** A discriminated union: the word under `key` decides which shape the rest must have. */
export function tagged<T extends object, K extends keyof T & string>(
  key: K,
  cases: { readonly [V in T[K] & string]: Shape<Extract<T, { readonly [P in K]: V }>> },
): Shape<T> {
  const shapes = new Map<unknown, Shape<T>>(Object.entries<Shape<T>>(cases));
  return (value) => {
    if (!isRecord(value)) return misfit("an object", value);
    const tag = Object.hasOwn(value, key) ? value[key] : undefined;
    const shape = shapes.get(tag);
    return shape === undefined ? below(key, misfit(`one of ${[...shapes.keys()].join(", ")}`, tag)) : shape(value);
  };
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function misfit(expected: string, actual: unknown): Misfit {
  return { path: "", expected, actual };
}

function below(key: string, found: Misfit): Misfit {
  return { ...found, path: `/${key.replaceAll("~", "~0").replaceAll("/", "~1")}${found.path}` };
}

function describe(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object") return "an object";
  return String(JSON.stringify(value)).slice(0, 60);
}
