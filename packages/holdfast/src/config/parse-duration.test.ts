import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { formatDuration, parseDuration } from "./parse-duration.ts";

describe("parseDuration", () => {
  test.each([
    ["30d", 2_592_000_000],
    ["12 h", 43_200_000],
    ["90m", 5_400_000],
    ["1.5w", 907_200_000],
    ["0d", 0],
    [" 45s ", 45_000],
  ])("%s is %i ms", (text, ms) => expect(parseDuration(text)).toBe(ms));

  test.each(["", "30", "d", "-1d", "1 month", "1D", "1e3d", "999999999999999d"])("%j is no duration", (text) =>
    expect(parseDuration(text)).toBeUndefined(),
  );

  test("what is written reads back as the same length of time", () => {
    fc.assert(
      fc.property(fc.nat(), (ms) => {
        expect(parseDuration(formatDuration(ms))).toBe(ms);
      }),
    );
  });

  test("longer is longer", () => {
    fc.assert(
      fc.property(fc.nat({ max: 10_000 }), fc.constantFrom("s", "m", "h", "d", "w"), (count, unit) => {
        expect(parseDuration(`${count + 1}${unit}`)).toBeGreaterThan(
          parseDuration(`${count}${unit}`) ?? Number.POSITIVE_INFINITY,
        );
      }),
    );
  });
});
