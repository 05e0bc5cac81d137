import * as fc from "fast-check";
import { expect, test } from "vitest";
import { parseIsoTime } from "./document.ts";

test.each([
  ["2025-01-15T10:30:00", "2025-01-15T10:30:00.000Z", false],
  ["2025-01-15 10:30", "2025-01-15T10:30:00.000Z", false],
  ["2025-01-15T10:30:00.123456", "2025-01-15T10:30:00.123Z", false],
  ["2025-01-15T10:30:00+00:00", "2025-01-15T10:30:00.000Z", true],
  ["2025-01-15T10:30:00z", "2025-01-15T10:30:00.000Z", true],
  ["2025-01-15T10:30:00.5+05:30", "2025-01-15T05:00:00.500Z", true],
  ["2025-01-15T00:30:00-0100", "2025-01-15T01:30:00.000Z", true],
  ["2025-01-01T00:30:00+02", "2024-12-31T22:30:00.000Z", true],
  ["2024-02-29T00:00:00Z", "2024-02-29T00:00:00.000Z", true],
])("%s", (text, iso, zoned) => {
  expect(parseIsoTime(text)).toEqual({ iso, zoned });
});

test.each([
  "",
  "soon",
  "2025-01-15",
  "2025-02-29T00:00:00Z",
  "2025-13-01T00:00:00Z",
  "2025-01-15T24:00:00Z",
  "2025-01-15T10:60:00Z",
  "2025-01-15T10:30:60Z",
  "2025-01-15T10:30:00+24:00",
  "0050-01-01T00:00:00Z",
  "0100-01-01T00:00:00+23:00 ",
  "9999-12-31T23:59:59-01:00",
  "2025-01-15T10:30:00Zulu",
])("%j is not a time", (text) => {
  expect(parseIsoTime(text)).toBeNull();
});

test("a time that JavaScript writes is read back", () => {
  fc.assert(
    fc.property(
      fc.date({ min: new Date("0100-01-01T00:00:00Z"), max: new Date("9999-12-31T00:00:00Z"), noInvalidDate: true }),
      (date) => {
        expect(parseIsoTime(date.toISOString())).toEqual({ iso: date.toISOString(), zoned: true });
      },
    ),
  );
});
