import * as fc from "fast-check";
import { expect, test } from "vitest";
import type { Json } from "../json.ts";
import { canonicalJson } from "./canonical-json.ts";
import { capture } from "./capture.ts";
import { encode } from "./encode.ts";
import { createMemo } from "./memo.ts";
import { createSmallStateWriter } from "./small-state.ts";

const sink = {
  put(): number {
    throw new Error("a small state has no chunks");
  },
};

/** Objects of one shape with other values, and of shapes that change on the way. */
const states = fc.array(
  fc.oneof(
    fc.record({
      b: fc.jsonValue(),
      a: fc.integer(),
      c: fc.array(fc.record({ z: fc.string(), y: fc.double({ noNaN: true, noDefaultInfinity: true }) }), {
        maxLength: 4,
      }),
    }),
    fc.dictionary(fc.string(), fc.jsonValue()),
    fc.array(fc.jsonValue()),
  ),
  { minLength: 1, maxLength: 8 },
);

test("a small state's text is the root that encode makes, whatever shapes came before", () => {
  fc.assert(
    fc.property(states, (list) => {
      const writer = createSmallStateWriter();
      for (const live of list) {
        const text = writer.write(live);
        const expected = canonicalJson(capture(live));
        if (expected.length > 4096) expect(text).toBeUndefined();
        else if (text !== undefined) {
          expect(text).toBe(expected);
          const { root } = encode({ value: capture(live), memo: createMemo(), hasher: () => "0".repeat(64), sink });
          expect(Buffer.from(root).toString()).toBe(text);
        }
      }
    }),
  );
});

test("ordinary states are taken, also with keys in any order, odd keys and odd numbers", () => {
  const writer = createSmallStateWriter();
  for (const live of [
    { b: 1, a: [null, true, 'x\n"é😀'] },
    { a: 2, b: { "": -0, "10": 1e21, "9": 5e-324 } },
    JSON.parse('{"__proto__":1,"a":2}'),
    Object.create(null),
    {},
    [],
  ]) {
    expect(writer.write(live)).toBe(canonicalJson(live));
  }
});

test("a state changed in place is read anew each time", () => {
  const writer = createSmallStateWriter();
  const live: { n: number; list: Json[]; deep: Record<string, Json> } = { n: 0, list: [], deep: {} };
  for (let i = 0; i < 20; i++) {
    live.n = i % 3;
    live.list.push({ i });
    live.deep[`k${i % 7}`] = i;
    if (i % 5 === 0) delete live.deep["k0"];
    expect(writer.write(live)).toBe(canonicalJson(live));
  }
});

test("what is not JSON, or not small, is left to capture", () => {
  const writer = createSmallStateWriter();
  const cycle: Record<string, unknown> = {};
  cycle["self"] = cycle;
  const symbols = { a: 1, [Symbol("s")]: 1 };
  const accessor = Object.defineProperty({ a: 1 }, "b", { get: () => 1, enumerable: true });
  const bad = [
    undefined,
    1n,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    () => 1,
    Symbol("s"),
    new Date(0),
    new Map(),
    cycle,
    symbols,
    accessor,
    [undefined],
    Array(2),
    "\ud800",
    { "\ud800": 1 },
  ];
  expect(writer.write({ a: 1, b: 2 })).toBe('{"a":1,"b":2}');
  for (const value of bad) expect(writer.write({ a: 1, b: value }), String(typeof value)).toBeUndefined();
  for (const value of [null, 1, "text", undefined]) expect(writer.write(value)).toBeUndefined();
  expect(writer.write({ text: "x".repeat(4096) })).toBeUndefined();
  expect(writer.write(Array.from({ length: 3000 }, () => 1))).toBeUndefined();
  expect(writer.write({ a: 1, b: 3 })).toBe('{"a":1,"b":3}');
});

test("what JSON cannot carry is seen beside what is as it was, and beside what changed", () => {
  const writer = createSmallStateWriter();
  const write = (list: readonly unknown[], part: object): string | undefined => writer.write({ list, part });
  expect(write([1], { a: 1 })).toBe('{"list":[1],"part":{"a":1}}');
  expect(write([1], { a: 1, [Symbol("s")]: 1 })).toBeUndefined();
  expect(write([1], { a: 2, [Symbol("s")]: 1 })).toBeUndefined();
  expect(write(Object.assign([1], { extra: 1 }), { a: 1 })).toBeUndefined();
  expect(write(Object.assign([2], { extra: 1 }), { a: 1 })).toBeUndefined();
  expect(write(Object.assign([2], { [Symbol("s")]: 1 }), { a: 1 })).toBeUndefined();
  expect(write([2], { a: 2 })).toBe('{"list":[2],"part":{"a":2}}');
});

test("frozen parts are taken over, but only when they are frozen at every depth", () => {
  const writer = createSmallStateWriter();
  const inner: { n: number; list: number[] } = { n: 1, list: [1] };
  const shallow = Object.freeze({ inner });
  const deep = Object.freeze({ inner: Object.freeze({ n: 1, list: Object.freeze([1, Object.freeze({ x: 1 })]) }) });
  const array = Object.freeze([inner]);
  for (let i = 0; i < 4; i++) {
    inner.n = i;
    inner.list.push(i);
    const live = { shallow, deep, array, i };
    expect(writer.write(live)).toBe(canonicalJson(live));
  }
});

test("states with frozen and live parts in any mixture are written as they are at the time", () => {
  const freezeSome = (value: Json, pick: () => boolean): Json => {
    if (typeof value === "object" && value !== null) {
      for (const part of Object.values(value)) freezeSome(part, pick);
      if (pick()) Object.freeze(value);
    }
    return value;
  };
  fc.assert(
    fc.property(
      fc.array(fc.dictionary(fc.constantFrom("a", "b", "c"), fc.jsonValue()), { maxLength: 5 }),
      fc.infiniteStream(fc.boolean()),
      (list, coins) => {
        const writer = createSmallStateWriter();
        const pick = (): boolean => coins.next().value;
        const parts = list.map((part) => freezeSome(JSON.parse(JSON.stringify(part)), pick));
        for (let round = 0; round < 3; round++) {
          for (const part of parts) {
            const live = { part, round, again: parts[0] ?? null };
            const expected = canonicalJson(live);
            if (expected.length <= 4096) expect(writer.write(live)).toBe(expected);
            mutate(part);
          }
        }
      },
    ),
  );
});

function mutate(value: Json): void {
  if (typeof value !== "object" || value === null) return;
  for (const part of Object.values(value)) mutate(part);
  if (!Object.isFrozen(value) && !Array.isArray(value)) Reflect.set(value, "a", 7);
}
