import * as fc from "fast-check";
import { expect, test } from "vitest";
import { rangesText } from "./ranges-text.ts";

test("ranges", () => {
  expect(rangesText([1, 2, 3, 7, 9, 10])).toBe("1-3, 7, 9-10");
  expect(rangesText([])).toBe("");
});

test("ranges name exactly the sequences given", () => {
  fc.assert(
    fc.property(fc.uniqueArray(fc.integer({ min: 1, max: 60 })), (sequences) => {
      const named = rangesText(sequences)
        .split(", ")
        .filter((part) => part !== "")
        .flatMap((part) => {
          const [from = 0, to = from] = part.split("-").map(Number);
          return Array.from({ length: to - from + 1 }, (_, at) => from + at);
        });
      expect(named).toEqual(sequences.toSorted((a, b) => a - b));
    }),
  );
});
