import vm from "node:vm";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { HoldfastError } from "@holdfast/platform/error";
import {
  TIMEOUT,
  applyEdits,
  arbitraryEdits,
  arbitraryJson,
  cloneJson,
  runs,
} from "@holdfast/test-support/core/json-sample";
import type { Json } from "./json.ts";
import { MAX_DEPTH, canonicalJson, capture } from "./values.ts";

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

  test("accepts anything that JSON can represent, down to the deepest level", () => {
    expect(() => act(nested(MAX_DEPTH))).not.toThrow();
    expect(() => act(Object.assign(Object.create(null), { a: 1 }))).not.toThrow();
  });
});

function isDeeplyFrozen(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return true;
  return Object.isFrozen(value) && Object.values(value).every(isDeeplyFrozen);
}

function containersOf(value: unknown, found = new Set<unknown>()): Set<unknown> {
  if (typeof value !== "object" || value === null) return found;
  found.add(value);
  for (const child of Object.values(value)) containersOf(child, found);
  return found;
}

/**
 * Whether some part equals the previous part in the same place and yet is an object of its own. A changed element of
 * an array may have been paired with another one, so its inside is not looked at.
 */
function hasUnshared(next: Json, previous: Json, known = containersOf(previous)): boolean {
  if (typeof next !== "object" || next === null || typeof previous !== "object" || previous === null) return false;
  if (known.has(next) || Array.isArray(next) !== Array.isArray(previous)) return false;
  if (canonicalJson(next) === canonicalJson(previous)) return true;
  return Object.keys(next).some((key) => {
    const [now, then]: Json[] = [Reflect.get(next, key), Reflect.get(previous, key)];
    if (!Object.hasOwn(previous, key) || now === undefined || then === undefined) return false;
    if (Array.isArray(next) && canonicalJson(now) !== canonicalJson(then)) return false;
    return hasUnshared(now, then, known);
  });
}

describe("capture", () => {
  test("equals the value, is deeply frozen, and ignores later changes of the live one", TIMEOUT, () => {
    fc.assert(
      fc.property(arbitraryJson(), arbitraryEdits(), (live, edits) => {
        const before = canonicalJson(live);
        const captured = capture(live);
        expect(canonicalJson(captured)).toBe(before);
        expect(isDeeplyFrozen(captured)).toBe(true);
        applyEdits(live, edits);
        expect(canonicalJson(captured)).toBe(before);
      }),
      runs(100),
    );
  });

  test("returns the previous capture itself when nothing changed", TIMEOUT, () => {
    fc.assert(
      fc.property(arbitraryJson(), (live) => {
        const previous = capture(live);
        expect(capture(live, previous)).toBe(previous);
        expect(capture(cloneJson(live), previous)).toBe(previous);
      }),
      runs(120),
    );
  });

  test("is exact under any edit in place, and shares what is equal in the same place", TIMEOUT, () => {
    fc.assert(
      fc.property(arbitraryJson(), fc.array(arbitraryEdits(), { maxLength: 4 }), (live, rounds) => {
        let previous = capture(live);
        for (const edits of rounds) {
          applyEdits(live, edits);
          const next = capture(live, previous);
          expect(canonicalJson(next)).toBe(canonicalJson(live));
          expect(isDeeplyFrozen(next)).toBe(true);
          // A splice moves elements away from their places; where those are shared is another test's matter.
          if (!edits.some((edit) => edit.kind === "splice")) expect(hasUnshared(next, previous)).toBe(false);
          previous = next;
        }
      }),
      runs(120),
    );
  });

  test("an own __proto__ stays data and touches no prototype", () => {
    const live: unknown = JSON.parse('{"a":{"__proto__":{"polluted":true}},"__proto__":{}}');
    const previous = capture({ a: {} });
    for (const captured of [capture(live), capture(live, previous), capture(live, capture({ a: { b: 1 }, c: 1 }))]) {
      expect(JSON.stringify(captured)).toBe('{"__proto__":{},"a":{"__proto__":{"polluted":true}}}');
      expect(Object.getPrototypeOf(captured)).toBe(Object.prototype);
    }
    expect(({} as Record<string, unknown>)["polluted"]).toBeUndefined();
  });

  test("names that every object inherits are not mistaken for keys of the previous value", () => {
    const previous = capture({ a: 1 });
    expect(() => capture({ toString: Object.prototype.toString }, previous)).toThrow(/function/u);
    expect(capture({ constructor: null }, previous)).toEqual({ constructor: null });
  });

  test("keys on Object.prototype do not make different values look the same", () => {
    const previous = capture({ other: 2 });
    try {
      Reflect.set(Object.prototype, "polluted", 1);
      expect(Object.keys(capture({ polluted: 1 }, previous) as object)).toEqual(["polluted"]);
    } finally {
      Reflect.deleteProperty(Object.prototype, "polluted");
    }
  });

  test("a previous value that is not a capture is not shared, for it may change", () => {
    const previous = { part: { a: 1 } };
    const captured = capture({ part: { a: 1 } }, previous);
    expect(captured).not.toBe(previous);
    previous.part.a = 2;
    expect(captured).toEqual({ part: { a: 1 } });
  });

  test("-0 becomes 0, and a null prototype a plain one", () => {
    expect(Object.is(capture(-0), 0)).toBe(true);
    expect(Object.is((capture([-0]) as readonly Json[])[0], 0)).toBe(true);
    const captured = capture(Object.assign(Object.create(null), { a: 1 }));
    expect(Object.getPrototypeOf(captured)).toBe(Object.prototype);
  });

  test("takes plain values of another realm", () => {
    expect(capture(vm.runInNewContext("({ a: [1, { b: 2 }] })"))).toEqual({ a: [1, { b: 2 }] });
  });

  test("an undefined, a hole and an accessor are refused also where the previous value had something equal", () => {
    const previous = capture({ a: [1, 2, { b: 1 }], c: 1 });
    const holed = [1, 2, { b: 1 }];
    delete holed[1];
    expect(() => capture({ a: holed, c: 1 }, previous)).toThrow(/\/a\/1/u);
    expect(() => capture({ a: [1, 2, { b: undefined }], c: 1 }, previous)).toThrow(/\/a\/2\/b/u);
    const getter = Object.defineProperty({ a: [1, 2, { b: 1 }] }, "c", { get: () => 2, enumerable: true });
    expect(() => capture(getter, previous)).toThrow(/\/c/u);
  });

  test("a value with the keys of the previous value that is not plain is refused", () => {
    const previous = capture({ a: {}, list: [1] });
    expect(() => capture({ a: new Map([["b", 1]]), list: [1] }, previous)).toThrow(/\/a/u);
    expect(() => capture({ a: { [Symbol("b")]: 1 }, list: [1] }, previous)).toThrow(/\/a/u);
    expect(() => capture({ a: {}, list: Object.assign([1], { b: 1 }) }, previous)).toThrow(/\/list/u);
  });
});

const row = (from: number, to: number): { id: number; text: string }[] =>
  Array.from({ length: to - from }, (_, i) => ({ id: from + i, text: `message ${from + i} `.repeat(20) }));

describe("capture of a changed list", () => {
  const shared = (next: Json, previous: Json): number => {
    const known = new Set(previous as readonly Json[]);
    return (next as readonly Json[]).filter((element) => typeof element === "object" && known.has(element)).length;
  };

  test.each([
    ["append", [...row(0, 200), ...row(900, 903)], 200],
    ["cut at the end", row(0, 150), 150],
    ["one replaced", [...row(0, 80), ...row(900, 901), ...row(81, 200)], 199],
    ["nothing left", row(5000, 5200), 0],
  ])("%s shares the elements that stayed in place", (_name, live, expected) => {
    const previous = capture(row(0, 200));
    const next = capture(live, previous);
    expect(next).toEqual(live);
    expect(shared(next, previous)).toBe(expected);
  });

  test("frozen copies inside a live value are used unchanged, wherever they are", () => {
    const part = capture(row(0, 50));
    const whole = capture({ deep: [{ part }] }) as { deep: [{ part: Json }] };
    expect(whole.deep[0].part).toBe(part);
    const moved = capture((part as readonly Json[]).slice(10), part);
    expect(shared(moved, part)).toBe(40);
  });
});
