import vm from "node:vm";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  TIMEOUT,
  applyEdits,
  arbitraryEdits,
  arbitraryJson,
  cloneJson,
  runs,
} from "@holdfast/test-support/core/json-sample";
import type { Json } from "../json.ts";
import { canonicalJson } from "./canonical-json.ts";
import { capture } from "./capture.ts";
import { MAX_DEPTH } from "./limits.ts";

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
  test("equals the value, is deeply frozen, and ignores what happens to the live one", TIMEOUT, () => {
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
});

const row = (from: number, to: number): { id: number; text: string }[] =>
  Array.from({ length: to - from }, (_, i) => ({ id: from + i, text: `message ${from + i} `.repeat(20) }));

describe("capture of a changed row", () => {
  const shared = (next: Json, previous: Json): number => {
    const known = new Set(previous as readonly Json[]);
    return (next as readonly Json[]).filter((element) => typeof element === "object" && known.has(element)).length;
  };

  test.each([
    ["append", [...row(0, 200), ...row(900, 903)], 200],
    ["front trim", row(50, 200), 150],
    ["front trim and append", [...row(50, 200), ...row(900, 905)], 150],
    ["cut at the end", row(0, 150), 150],
    ["insertion", [...row(0, 80), ...row(900, 907), ...row(80, 200)], 200],
    ["removal", [...row(0, 80), ...row(90, 200)], 190],
    ["one replaced", [...row(0, 80), ...row(900, 901), ...row(81, 200)], 199],
    ["two replaced and one put in front", [...row(800, 801), ...row(0, 80), ...row(900, 902), ...row(82, 200)], 198],
  ])("%s shares all that stayed", (_name, live, expected) => {
    const previous = capture(row(0, 200));
    const next = capture(live, previous);
    expect(next).toEqual(live);
    expect(shared(next, previous)).toBe(expected);
  });

  test("a replaced row costs no more than its length", () => {
    const previous = capture(row(0, 2000));
    expect(shared(capture(row(5000, 7000), previous), previous)).toBe(0);
  });
});

describe("captured values inside live ones", () => {
  test("are taken as they are", () => {
    const part = capture(row(0, 50));
    const whole = capture({ deep: [{ part }] }) as { deep: [{ part: Json }] };
    expect(whole.deep[0].part).toBe(part);
  });

  test("count with their own depth", () => {
    let tall: unknown = 1;
    for (let i = 0; i < MAX_DEPTH - 10; i += 1) tall = [tall];
    let live: unknown = capture(tall);
    for (let i = 0; i < 10; i += 1) live = { live };
    expect(() => capture(live)).not.toThrow();
    expect(() => capture({ live })).toThrow(/deeper/u);
  });

  test("a value that only was deep does not count as deep", () => {
    let tall: unknown = 1;
    for (let i = 0; i < MAX_DEPTH - 10; i += 1) tall = [tall];
    const filler = "x".repeat(300);
    const flat = capture({ filler, tall: 1 }, capture({ filler, tall }));
    let live: unknown = flat;
    for (let i = 0; i < 20; i += 1) live = { live };
    expect(() => capture(live)).not.toThrow();
  });
});
