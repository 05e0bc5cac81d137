import { expect, test } from "vitest";
import { wrap } from "./wrap.ts";

test("wrapped lines hold all the words and no more than they may", () => {
  expect(wrap("one two three", 7)).toEqual(["one two", "three"]);
  expect(wrap("enormous", 3)).toEqual(["enormous"]);
});
