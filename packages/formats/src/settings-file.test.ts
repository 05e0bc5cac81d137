import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { formatDuration, formatSize, parseDuration, parseSize } from "./setting-values.ts";

describe("parse duration", () => {
  describe("parseDuration", () => {
    test.each([
      ["30d", 2_592_000_000],
      ["12 h", 43_200_000],
      ["90m", 5_400_000],
      ["1.5w", 907_200_000],
      ["0d", 0],
      [" 45s ", 45_000],
    ])("%s is %i ms", (text, ms) => expect(parseDuration(text)).toBe(ms));

    test.each(["", "30", "d", "-1d", "1 month", "1D", "1e3d", "999999999999999d"])("%j is not a duration", (text) =>
      expect(parseDuration(text)).toBeUndefined(),
    );

    test("a formatted duration is parsed to the same duration", () => {
      fc.assert(
        fc.property(fc.nat(), (ms) => {
          expect(parseDuration(formatDuration(ms))).toBe(ms);
        }),
      );
    });

    test("longer durations give larger numbers", () => {
      fc.assert(
        fc.property(fc.nat({ max: 10_000 }), fc.constantFrom("s", "m", "h", "d", "w"), (count, unit) => {
          expect(parseDuration(`${count + 1}${unit}`)).toBeGreaterThan(
            parseDuration(`${count}${unit}`) ?? Number.POSITIVE_INFINITY,
          );
        }),
      );
    });
  });
});

describe("parse size", () => {
  describe("parseSize", () => {
    test.each([
      ["20MB", 20_000_000],
      ["20 MiB", 20_971_520],
      ["1.5kB", 1500],
      ["0", 0],
      ["512b", 512],
      ["  2gb ", 2_000_000_000],
    ])("%s is %i bytes", (text, bytes) => expect(parseSize(text)).toBe(bytes));

    test.each(["", "MB", "-1MB", "1e3", "20 M B", "20 parsecs", "1.MB", "9999999TB", "NaN", "1,5MB"])(
      "%j is not a size",
      (text) => expect(parseSize(text)).toBeUndefined(),
    );

    test("numbers are bytes, and only safe integers are accepted", () => {
      expect(parseSize(42)).toBe(42);
      expect(parseSize(-1)).toBeUndefined();
      expect(parseSize(Number.NaN)).toBeUndefined();
    });

    test("a formatted size is parsed to the same number of bytes", () => {
      fc.assert(
        fc.property(fc.maxSafeNat(), (bytes) => {
          expect(parseSize(formatSize(bytes))).toBe(bytes);
        }),
      );
    });

    test("is never longer than the notation of a user", () => {
      fc.assert(
        fc.property(
          fc.integer({ min: 1, max: 999 }),
          fc.constantFrom("kB", "MB", "GB", "KiB", "MiB", "GiB"),
          (count, unit) => {
            const written = formatSize(parseSize(`${count}${unit}`) ?? -1);
            expect(parseSize(written)).toBe(parseSize(`${count}${unit}`));
            expect(written.length).toBeLessThanOrEqual(`${count}${unit}`.length);
          },
        ),
      );
    });

    test("any text gives a safe number of bytes or nothing", () => {
      fc.assert(
        fc.property(fc.string(), (text) => {
          const bytes = parseSize(text);
          expect(bytes === undefined || (Number.isSafeInteger(bytes) && bytes >= 0)).toBe(true);
        }),
      );
    });
  });
});
