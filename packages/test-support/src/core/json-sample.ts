// Random JSON values and edits of them, for property tests of values.

import * as fc from "fast-check";
import type { Json } from "@holdfast/core/json";

/** Keys that often cause defects: integer-like, `__proto__`, inherited names, empty, long, beyond ASCII and the BMP. */
const key = fc.oneof(
  { weight: 4, arbitrary: fc.string({ unit: "binary", maxLength: 6 }) },
  { weight: 2, arbitrary: fc.nat(120).map(String) },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      "__proto__",
      "constructor",
      "toString",
      "toJSON",
      "hasOwnProperty",
      "length",
      "",
      "~/",
      "!",
      "01",
      "-1",
      "4294967295",
      "\ufeff",
      "\ue000",
      "😀",
      "k".repeat(300),
    ),
  },
);

const shortText = fc.oneof(
  { weight: 6, arbitrary: fc.string({ unit: "binary", maxLength: 12 }) },
  { weight: 1, arbitrary: fc.constantFrom("", '\u0000\u001f"\\\b\f\n\r\t', "\u2028\u2029", "\ufeffbom", "\u007f") },
);

/** Lengths on both sides of a threshold: inline, leaf. */
function textAround(...lengths: number[]): fc.Arbitrary<string> {
  const unit = fc.constantFrom("a", "é", "日", "😀", "\u0001", '"');
  return fc.tuple(unit, fc.constantFrom(...lengths)).map(([text, count]) => text.repeat(count));
}

const number = fc.oneof(
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.integer(),
  fc.constantFrom(0, -0, 1e21, 1e-7, 5e-324, Number.MAX_VALUE, Number.MAX_SAFE_INTEGER, 0.1 + 0.2),
);

const shortScalar: fc.Arbitrary<Json> = fc.oneof(shortText, number, fc.boolean(), fc.constant(null));
const scalar: fc.Arbitrary<Json> = fc.oneof(
  { weight: 6, arbitrary: shortScalar },
  { weight: 1, arbitrary: textAround(90, 509, 510, 512, 700, 4095, 4100) },
);

/** Fresh plain values of any depth, sometimes with a long array or an object of many keys. */
export function withoutProtoKey<T>(values: fc.Arbitrary<T>): fc.Arbitrary<T> {
  return values.filter((value) => !JSON.stringify(value).includes('"__proto__"'));
}

export function arbitraryJson(): fc.Arbitrary<Json> {
  return fc.letrec<{ value: Json }>((tie) => ({
    value: fc.oneof(
      { depthSize: "small", withCrossShrink: true },
      { weight: 4, arbitrary: scalar },
      { weight: 3, arbitrary: fc.array(tie("value"), { maxLength: 8 }) },
      { weight: 3, arbitrary: fc.dictionary(key, tie("value"), { maxKeys: 8, noNullPrototype: true }) },
      { weight: 1, arbitrary: longArray() },
      { weight: 1, arbitrary: manyKeys() },
    ),
  })).value;
}

/** Elements of long arrays are small, because nested long arrays would grow without bound. */
const element: fc.Arbitrary<Json> = fc.oneof(
  { weight: 8, arbitrary: shortScalar },
  { weight: 2, arbitrary: fc.array(shortScalar, { maxLength: 3 }) },
  { weight: 2, arbitrary: fc.dictionary(key, shortScalar, { maxKeys: 3, noNullPrototype: true }) },
  { weight: 1, arbitrary: textAround(509, 510, 600) },
);

function longArray(): fc.Arbitrary<Json> {
  return fc
    .tuple(fc.integer({ min: 100, max: 400 }), fc.array(element, { minLength: 1, maxLength: 4 }), fc.boolean())
    .map(([length, seeds, numbered]) =>
      Array.from({ length }, (_, i) => {
        const seed = cloneJson(seeds[i % seeds.length] ?? null);
        return numbered ? [i, seed] : seed;
      }),
    );
}

function manyKeys(): fc.Arbitrary<Json> {
  return fc
    .tuple(fc.integer({ min: 100, max: 400 }), fc.array(element, { minLength: 1, maxLength: 3 }), fc.boolean())
    .map(([count, seeds, integerLike]) => {
      const object: Record<string, Json> = {};
      for (let i = 0; i < count; i += 1) {
        object[integerLike ? String(i) : `key ${i}`] = cloneJson(seeds[i % seeds.length] ?? null);
      }
      return object;
    });
}

/** Some engines lose own data under `__proto__` in structuredClone; JSON keeps it. */
export function cloneJson(value: Json): Json {
  return JSON.parse(JSON.stringify(value));
}

/** A change to a container of a live value; `place` picks the container, whatever the value looks like. */
type Edit =
  | { readonly kind: "set"; readonly place: number; readonly at: number; readonly value: Json }
  | { readonly kind: "add"; readonly place: number; readonly key: string; readonly value: Json }
  | { readonly kind: "remove"; readonly place: number; readonly at: number }
  | {
      readonly kind: "splice";
      readonly place: number;
      readonly at: number;
      readonly drop: number;
      readonly value: Json;
    };

export function arbitraryEdits(): fc.Arbitrary<readonly Edit[]> {
  const place = fc.nat(60);
  const at = fc.nat(700);
  const value = element;
  return fc.array(
    fc.oneof(
      fc.record({ kind: fc.constant("set" as const), place, at, value }),
      fc.record({
        kind: fc.constant("add" as const),
        place,
        key: fc.constantFrom("new", "7", "__proto__", "z"),
        value,
      }),
      fc.record({ kind: fc.constant("remove" as const), place, at }),
      fc.record({ kind: fc.constant("splice" as const), place, at, drop: fc.nat(3), value }),
    ),
    { maxLength: 5 },
  );
}

/** Edits in place: the value must be fresh and unfrozen. */
export function applyEdits(live: Json, edits: readonly Edit[]): void {
  for (const edit of edits) {
    const containers = containersOf(live);
    const container = containers[edit.place % Math.max(containers.length, 1)];
    if (container !== undefined) applyEdit(container, edit);
  }
}

function applyEdit(container: object, edit: Edit): void {
  const keys = Object.keys(container);
  switch (edit.kind) {
    case "set":
      define(container, keys[edit.at % Math.max(keys.length, 1)], edit.value);
      return;
    case "add":
      if (Array.isArray(container)) container.push(cloneJson(edit.value));
      else define(container, edit.key, edit.value);
      return;
    case "remove":
      if (Array.isArray(container)) container.pop();
      else if (keys.length > 0) Reflect.deleteProperty(container, keys[edit.at % keys.length] ?? "");
      return;
    case "splice":
      if (Array.isArray(container)) {
        container.splice(edit.at % (container.length + 1), edit.drop, cloneJson(edit.value));
      }
  }
}

function define(container: object, key: string | undefined, value: Json): void {
  if (key === undefined) return;
  Object.defineProperty(container, key, {
    value: cloneJson(value),
    writable: true,
    enumerable: true,
    configurable: true,
  });
}

/** The first hundred, each once: a generated value may contain the same object several times. */
function containersOf(value: Json): readonly object[] {
  const found = new Set<object>();
  const walk = (child: unknown): void => {
    if (typeof child !== "object" || child === null || found.has(child) || found.size > 100) return;
    found.add(child);
    for (const inner of Object.values(child)) walk(inner);
  };
  walk(value);
  return [...found];
}

/** Property tests may take a while on a busy machine. */
export const TIMEOUT = { timeout: 600_000 };

/** Limits the search for a smaller counterexample, which could take minutes on large values. */
export function runs(numRuns: number): { readonly numRuns: number; readonly interruptAfterTimeLimit: number } {
  return { numRuns, interruptAfterTimeLimit: 30_000 };
}
