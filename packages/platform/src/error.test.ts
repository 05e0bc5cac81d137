import { expect, test } from "vitest";
import { describeList } from "./error.ts";

test.each([
  [[], 2, ""],
  [["a", "b"], 2, "a, b"],
  [["a", "b", "c", "d"], 2, "a, b and 2 more"],
])("%j, at most %i: %s", (items, most, text) => {
  expect(describeList(items, most)).toBe(text);
});
