import * as fc from "fast-check";
import { expect, test } from "vitest";
import { exactTime, relativeTime } from "./relative-time.ts";

const NOW = Date.parse("2026-11-15T12:00:00Z");

test.each([
  ["2026-11-15T11:59:55Z", "just now"],
  ["2026-11-15T11:59:30Z", "30 s ago"],
  ["2026-11-15T11:55:00Z", "5 min ago"],
  ["2026-11-15T02:00:00Z", "10 h ago"],
  ["2026-11-12T12:00:00Z", "3 d ago"],
  ["2026-10-01T12:00:00Z", "45 d ago"],
  ["2026-08-01T12:00:00Z", "3 mo ago"],
  ["2024-08-01T12:00:00Z", "2 y ago"],
  ["2026-11-15T12:00:40Z", "just now"],
  ["2026-11-15T14:00:00Z", "in 2 h"],
  ["yesterday", "unknown"],
])("%s is %s", (iso, text) => expect(relativeTime(iso, NOW)).toBe(text));

test("any moment within a century has a short text", () => {
  fc.assert(
    fc.property(fc.date({ min: new Date(0), max: new Date(4e12), noInvalidDate: true }), (date) => {
      expect(relativeTime(date.toISOString(), NOW)).toMatch(
        /^(just now|\d+ (s|min|h|d|mo|y) ago|in \d+ (s|min|h|d|mo|y))$/,
      );
    }),
  );
});

test("exact times name their zone", () => {
  expect(exactTime("2026-11-15T23:30:05.123Z", () => 0)).toBe("2026-11-15 23:30:05 UTC");
  expect(exactTime("2026-11-15T23:30:05Z", () => 330)).toBe("2026-11-16 05:00:05 +05:30");
  expect(exactTime("2026-11-15T23:30:05Z", () => -480)).toBe("2026-11-15 15:30:05 -08:00");
});
