import * as fc from "fast-check";
import type { Json } from "../../json.ts";

/** Keys that have bitten others: integer-like, `__proto__`, inherited names, empty, long, beyond ASCII and the BMP. */
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

/** Fresh plain values; any depth, with now and then a long array or an object of many keys. */
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

/** Elements of long rows stay small, or rows of rows would grow beyond all bounds. */
export const element: fc.Arbitrary<Json> = fc.oneof(
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

/** Own data under `__proto__` needs more than structuredClone in some engines; JSON keeps it. */
export function cloneJson(value: Json): Json {
  return JSON.parse(JSON.stringify(value));
}
