import { expect, test } from "vitest";
import { factsOf, noteHeight } from "./facts.ts";

test("facts lie on a container where nobody sees them", () => {
  for (const value of [{ a: 1 }, [1, 2]]) {
    const before = structuredClone(value);
    noteHeight(value, 3);
    expect(factsOf(value)?.height).toBe(3);
    expect(Reflect.ownKeys(value)).toEqual(Reflect.ownKeys(before));
    expect(JSON.stringify(value)).toBe(JSON.stringify(before));
    expect(value).toStrictEqual(before);
    expect(factsOf(structuredClone(value))).toBeUndefined();
    expect(factsOf(Object.create(value))).toBeUndefined();
  }
});

test("what is frozen already can be told about, and told again", () => {
  const value = Object.freeze({ a: 1 });
  noteHeight(value, 1);
  const facts = factsOf(value);
  noteHeight(value, 2);
  expect(factsOf(value)).toBe(facts);
  expect(facts?.height).toBe(2);
});

test("nothing is known of what nobody spoke of", () => {
  expect(factsOf({})).toBeUndefined();
  expect(factsOf([])).toBeUndefined();
  expect(factsOf(new Proxy({}, {}))).toBeUndefined();
});
