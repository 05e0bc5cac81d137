import { hash } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Hasher, Json, JsonObject } from "../json.ts";
import { canonicalJson } from "./canonical-json.ts";
import { capture } from "./capture.ts";
import { decode } from "./decode.ts";
import { digestOf } from "./digest-of.ts";
import { encode } from "./encode.ts";
import { KeptMap } from "./kept-map.ts";
import { createMemo } from "./memo.ts";
import { cloneJson, element } from "./testing/arbitrary-json.ts";
import { ChunkShelf } from "./testing/chunk-shelf.ts";
import { runs, TIMEOUT } from "./testing/patience.ts";

const hasher: Hasher = (data) => hash("sha256", data);

/** All that a value is in a store of its own. */
function fromScratch(value: Json) {
  const shelf = new ChunkShelf();
  const { digest, logicalBytes } = encode({ value: capture(value), memo: createMemo(), hasher, sink: shelf });
  return { digest, logicalBytes, chunks: new Set([...shelf.chunks.values()].map((chunk) => chunk.digest)) };
}

/** One store that goes on from save to save. */
function createSaver() {
  const shelf = new ChunkShelf({ first: 7, stride: 3 });
  let memo = createMemo();
  let previous: Json | undefined;
  return {
    shelf,
    forget: () => void (memo = createMemo()),
    save(live: unknown) {
      const value = capture(live, previous);
      previous = value;
      return { value, ...encode({ value, memo, hasher, sink: shelf }) };
    },
  };
}

type Step =
  | { readonly kind: "set"; readonly from: number; readonly count: number; readonly value: Json }
  | { readonly kind: "remove"; readonly from: number; readonly count: number }
  | { readonly kind: "scatter"; readonly seed: number; readonly count: number; readonly value: Json }
  | { readonly kind: "look" | "read" | "forget" | "clear" };

const KEYS = 900;
const place = fc.nat(KEYS - 1);
const count = fc.oneof({ weight: 3, arbitrary: fc.integer({ min: 1, max: 3 }) }, { weight: 1, arbitrary: fc.nat(400) });
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("set" as const), from: place, count, value: element }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("remove" as const), from: place, count }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("scatter" as const), seed: place, count, value: element }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constantFrom("look" as const, "read" as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom("forget" as const, "clear" as const) }) },
);
const naming = fc.constantFrom(
  (at: number) => `node-${at}`,
  (at: number) => String(at),
  (at: number) => `${"ü".repeat(at % 40)}😀${at}`,
  (at: number) => (at === 5 ? "__proto__" : `k${(at * 7919) % 10_007}`),
);

function apply(map: KeptMap, keyOf: (at: number) => string, one: Step): void {
  switch (one.kind) {
    case "set":
      for (let i = 0; i < one.count; i += 1) map.set(keyOf((one.from + i) % KEYS), numbered(one.value, i));
      break;
    case "remove":
      for (let i = 0; i < one.count; i += 1) map.delete(keyOf((one.from + i) % KEYS));
      break;
    case "scatter":
      for (let i = 0; i < one.count; i += 1) map.set(keyOf((one.seed + i * 131) % KEYS), cloneJson(one.value));
      break;
    case "look":
      map.object();
      break;
    case "read":
      Object.keys(map.object());
      break;
    case "clear":
      map.clear();
      break;
    case "forget":
  }
}

function numbered(value: Json, at: number): Json {
  return at % 2 === 0 ? { at, value: cloneJson(value) } : cloneJson(value);
}

describe("a kept map", () => {
  test("is saved as the same chunks as an object made anew, whatever was done to it", TIMEOUT, () => {
    fc.assert(
      fc.property(
        naming,
        fc.nat(KEYS),
        fc.array(fc.array(step, { maxLength: 4 }), { minLength: 1, maxLength: 6 }),
        (keyOf, first, saves) => {
          const saver = createSaver();
          const map = new KeptMap();
          for (let i = 0; i < first; i += 1) map.set(keyOf(i), { status: "pending", at: i });
          for (const steps of saves) {
            for (const one of steps) {
              apply(map, keyOf, one);
              if (one.kind === "forget") saver.forget();
            }
            const live: JsonObject = { before: 1, kept: { states: map.object() }, text: "z" };
            const plain = { before: 1, kept: { states: Object.fromEntries(map) }, text: "z" };
            const saved = saver.save(live);
            const expected = fromScratch(cloneJson(plain));
            expect(saved.digest).toBe(expected.digest);
            expect(saved.logicalBytes).toBe(expected.logicalBytes);
            const there = new Set([...saver.shelf.chunks.values()].map((chunk) => chunk.digest));
            expect([...expected.chunks].filter((digest) => !there.has(digest))).toEqual([]);
            expect(digestOf({ root: saved.root, source: saver.shelf, hasher })).toBe(expected.digest);
            const read = decode({ root: saved.root, source: saver.shelf, check: { hasher, digest: saved.digest } });
            expect(canonicalJson(read)).toBe(canonicalJson(plain));
          }
        },
      ),
      runs(40),
    );
  });

  test("grown and shrunk at its end, one key after the other, is saved as an object made anew", TIMEOUT, () => {
    const saver = createSaver();
    const map = new KeptMap();
    const check = (): void => {
      expect(saver.save({ kept: map.object() }).digest).toBe(fromScratch({ kept: Object.fromEntries(map) }).digest);
    };
    for (let at = 1000; at < 1250; at += 1) {
      map.set(`k${at}`, { at, status: "running" });
      if (at > 1060) check();
    }
    for (let at = 1249; at > 1070; at -= 1) {
      map.delete(`k${at}`);
      check();
    }
  });

  test("gives a plain frozen object to whoever looks", () => {
    const map = new KeptMap(Array.from({ length: 200 }, (_, at) => [`key-${at}`, { at }]));
    const object = map.object();
    const plain = Object.fromEntries(map);
    map.set("key-7", "changed");
    map.delete("key-8");
    expect(object).toStrictEqual(plain);
    expect(JSON.parse(JSON.stringify(object))).toStrictEqual(plain);
    expect({ ...object }).toStrictEqual(plain);
    expect(Object.hasOwn(object, "key-8")).toBe(true);
    expect("toString" in object).toBe(true);
    expect(Object.getPrototypeOf(object)).toBe(Object.prototype);
    expect(map.object()["key-7"]).toBe("changed");
    expect(map.object()).not.toHaveProperty("key-8");
  });

  test.each<[string, (object: Record<string, Json>) => void]>([
    ["set", (object) => void (object["key-1"] = 2)],
    ["added to", (object) => void (object["new"] = 2)],
    ["defined", (object) => void Object.defineProperty(object, "new", { value: 1 })],
    ["deleted from", (object) => void delete object["key-1"]],
    ["given a prototype", (object) => void Object.setPrototypeOf(object, null)],
    ["changed inside", (object) => void Object.assign(object["key-1"] ?? {}, { at: 2 })],
  ])("cannot be %s, and is frozen", (_, change) => {
    const map = new KeptMap(Array.from({ length: 200 }, (_unused, at) => [`key-${at}`, { at }]));
    const object = map.object() as Record<string, Json>;
    expect(() => change(object)).toThrow(TypeError);
    expect(Object.isFrozen(map.object())).toBe(true);
    expect(object).toStrictEqual(Object.fromEntries(map));
  });

  test("keeps what it was given, not what becomes of that", () => {
    const live = { at: 1 };
    const map = new KeptMap(Array.from({ length: 200 }, (_, at) => [`key-${at}`, live]));
    const object = map.object();
    live.at = 2;
    expect(object["key-3"]).toStrictEqual({ at: 1 });
  });

  test("is the same object until something changes", () => {
    const map = new KeptMap(Array.from({ length: 200 }, (_, at) => [`key-${at}`, { at }]));
    const object = map.object();
    map.set("key-3", { at: 3 });
    expect(map.object()).toBe(object);
  });

  test("what JSON cannot carry is refused with its path when it is saved, and can be put right", () => {
    const map = new KeptMap(Array.from({ length: 200 }, (_, at) => [`key-${at}`, at]));
    map.set("key-3", Number.NaN);
    expect(() => capture({ states: map.object() })).toThrow(
      expect.objectContaining({ data: { path: "/states/key-3" } }),
    );
    map.set("key-3", 3);
    map.set("\ud800", 1);
    expect(() => capture({ states: map.object() })).toThrow(expect.objectContaining({ code: "NOT_JSON" }));
    map.delete("\ud800");
    expect(map.object()).toStrictEqual(Object.fromEntries(map));
  });

  test("a change costs a few chunks and looks at a few values, however many there are", () => {
    const saver = createSaver();
    let looked = 0;
    const map = new KeptMap();
    for (let at = 0; at < 20_000; at += 1) map.set(`node-${at}`, { status: "pending", at });
    saver.save({ states: map.object() });
    for (const at of [0, 19_999, 777, 12_345]) {
      saver.shelf.mark();
      const value = { status: "complete", at };
      map.set(`node-${at}`, new Proxy(value, { get: (of, key) => ((looked += 1), Reflect.get(of, key)) }));
      saver.save({ states: map.object() });
      expect(saver.shelf.added.chunks).toBeLessThanOrEqual(8);
    }
    expect(looked).toBeLessThan(100);
  });
});
