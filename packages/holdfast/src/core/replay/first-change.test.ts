import fc from "fast-check";
import { expect, test } from "vitest";
import type { Json } from "../json.ts";
import { canonicalJson, capture } from "../values/index.ts";
import { firstChange, withoutKeys } from "./first-change.ts";

const json = fc.jsonValue({ maxDepth: 4 }).map((value) => capture(value));

test("values part exactly when their canonical JSON does", () => {
  fc.assert(
    fc.property(json, json, (a, b) => {
      expect(firstChange(a, b) === null).toBe(canonicalJson(a) === canonicalJson(b));
      expect(firstChange(a, capture(structuredClone(a)))).toBeNull();
    }),
  );
});

test("swapping the sides swaps what each had", () => {
  fc.assert(
    fc.property(json, json, (a, b) => {
      const [there, back] = [firstChange(a, b), firstChange(b, a)];
      expect(back?.field).toBe(there?.field);
      expect([back?.expected, back?.actual]).toEqual([there?.actual, there?.expected]);
    }),
  );
});

test("one changed leaf is named by its path", () => {
  const key = fc.stringMatching(/^[a-z]{1,5}$/);
  fc.assert(
    fc.property(fc.array(key, { minLength: 1, maxLength: 5 }), fc.integer(), (path, value) => {
      const nest = (leaf: Json): Json => path.reduceRight<Json>((inner, name) => ({ [name]: inner, ZZ: 1 }), leaf);
      const change = firstChange(nest(value), nest(value + 1));
      expect(change).toEqual({ field: `/${path.join("/")}`, expected: value, actual: value + 1 });
    }),
  );
});

test("keys are taken out at every depth, and nothing else", () => {
  expect(withoutKeys({ a: [{ at: 1, b: 2 }], at: 3, c: { at: null } }, new Set(["at"]))).toEqual({
    a: [{ b: 2 }],
    c: {},
  });
});
