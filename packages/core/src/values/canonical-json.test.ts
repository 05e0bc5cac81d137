import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { HoldfastError } from "@holdfast/platform/error";
import { TIMEOUT, arbitraryJson, runs } from "@holdfast/test-support/core/json-sample";
import type { Json } from "../json.ts";
import { canonicalJson } from "./canonical-json.ts";
import { capture } from "./capture.ts";
import { MAX_DEPTH } from "./limits.ts";

/** RFC 8785 read literally, with nothing shared with the code under test. */
function reference(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(reference).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    const pairs = Object.entries(value).map(([key, child]): [string, Json] => [key, child]);
    pairs.sort(([a], [b]) => compareUnits(a, b));
    return `{${pairs.map(([key, child]) => `${JSON.stringify(key)}:${reference(child)}`).join(",")}}`;
  }
  return JSON.stringify(value);
}

function compareUnits(a: string, b: string): number {
  for (let i = 0; i < Math.min(a.length, b.length); i += 1) {
    if (a.charCodeAt(i) !== b.charCodeAt(i)) return a.charCodeAt(i) - b.charCodeAt(i);
  }
  return a.length - b.length;
}

describe("canonicalJson", () => {
  test("is RFC 8785", TIMEOUT, () => {
    fc.assert(
      fc.property(arbitraryJson(), (value) => {
        expect(canonicalJson(value)).toBe(reference(value));
      }),
      runs(120),
    );
  });

  test("parses back to the same value", TIMEOUT, () => {
    fc.assert(
      fc.property(arbitraryJson(), (value) => {
        expect(canonicalJson(JSON.parse(canonicalJson(value)))).toBe(canonicalJson(value));
      }),
      runs(100),
    );
  });

  test("is the same for a value and for its capture, wherever the capture stands", TIMEOUT, () => {
    fc.assert(
      fc.property(arbitraryJson(), (value) => {
        const captured = capture(value);
        expect(canonicalJson(captured)).toBe(reference(value));
        expect(canonicalJson({ z: 1, a: captured })).toBe(reference({ z: 1, a: value }));
      }),
      runs(100),
    );
  });

  test("the RFC's own example of key order and numbers", () => {
    const value = { "\u20ac": 1, "\r": 2, "\ufb33": 3, 1: 4, "\ud83d\ude00": 5, "\u0080": 6, "\u00f6": 7 };
    expect(canonicalJson(value)).toBe('{"\\r":2,"1":4,"\u0080":6,"ö":7,"€":1,"😀":5,"\ufb33":3}');
    expect(canonicalJson([333333333.3333333, 1e30, 4.5, 2e-3, 1e-27, -0])).toBe(
      "[333333333.3333333,1e+30,4.5,0.002,1e-27,0]",
    );
  });
});

class Point {
  x = 1;
}

function nested(levels: number): unknown {
  let value: unknown = 1;
  for (let i = 0; i < levels; i += 1) value = [value];
  return value;
}

function cyclic(): unknown {
  const value: Record<string, unknown> = { a: { b: [1] } };
  value["c"] = [value];
  return value;
}

const REFUSED: readonly (readonly [string, unknown, string])[] = [
  ["undefined in an object", { a: { b: undefined } }, "/a/b"],
  ["undefined in an array", { a: [1, undefined] }, "/a/1"],
  ["undefined itself", undefined, ""],
  ["a function", { f: () => 1 }, "/f"],
  ["a toJSON method", { a: { toJSON: () => 1 } }, "/a/toJSON"],
  ["a symbol", [Symbol("s")], "/0"],
  ["a BigInt", { "a/b~c": 1n }, "/a~1b~0c"],
  ["NaN", [0, Number.NaN], "/1"],
  ["Infinity", { a: Number.POSITIVE_INFINITY }, "/a"],
  ["a Date", { at: new Date(0) }, "/at"],
  ["a Map", { m: new Map() }, "/m"],
  ["a Set", { s: new Set() }, "/s"],
  ["a class instance", { p: new Point() }, "/p"],
  ["an instance of a subclass of Array", { l: new (class List extends Array<number> {})() }, "/l"],
  ["a typed array", { b: new Uint8Array(2) }, "/b"],
  ["a boxed string", { b: Object("x") }, "/b"],
  ["a regular expression", { r: /x/ }, "/r"],
  ["a promise", { p: Promise.resolve() }, "/p"],
  ["an object made on another object", { o: Object.create({ a: 1 }) }, "/o"],
  ["a cycle", cyclic(), "/c/0"],
  ["a sparse array", { a: [1, , 3] }, "/a/1"], // oxlint-disable-line no-sparse-arrays
  ["an array of holes", { a: Object.assign([], { length: 4_294_967_295 }) }, "/a/0"],
  ["an array with a named property", { a: Object.assign([1], { extra: 1 }) }, "/a"],
  ["an array with a symbol key", { a: Object.assign([1], { [Symbol.iterator]: 1 }) }, "/a"],
  ["a symbol key", { a: { [Symbol("s")]: 1 } }, "/a"],
  ["an accessor", { a: Object.defineProperty({}, "g", { get: () => 1, enumerable: true }) }, "/a/g"],
  ["a lone surrogate", { s: ["ok", "\ud800x"] }, "/s/1"],
  ["a lone surrogate in a key", { o: { "\udc00": 1 } }, "/o/\udc00"],
  ["too deep a nesting", { a: nested(MAX_DEPTH) }, `/a${"/0".repeat(MAX_DEPTH - 1)}`],
];

describe.each([
  ["canonicalJson", (value: unknown): unknown => canonicalJson(value as Json)],
  ["capture", (value: unknown): unknown => capture(value)],
])("%s refuses, with the path,", (_, act) => {
  test.each(REFUSED)("%s", (_name, value, path) => {
    let thrown: unknown;
    try {
      act(value);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(HoldfastError);
    expect(thrown).toMatchObject({ code: "NOT_JSON", data: { path } });
  });

  test("nothing that JSON can carry, down to the deepest level", () => {
    expect(() => act(nested(MAX_DEPTH))).not.toThrow();
    expect(() => act(Object.assign(Object.create(null), { a: 1 }))).not.toThrow();
  });
});
