import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { amounts } from "../json-shapes.ts";
import { exactTime, rangesText, relativeTime, spentKnown, spentText } from "./quantities.ts";

describe("spent text", () => {
  const spent = { tokens: 1200, microUsd: 0, milliseconds: 0 };

  test("an unknown cost is not shown as zero", () => {
    expect(spentText(spent)).toBe("1200 tokens");
    expect(spentText({ ...spent, unpriced: 2 })).toBe("1200 tokens, cost unknown");
    expect(spentText({ ...spent, microUsd: 1_250_000, unpriced: 1 })).toBe(
      "1200 tokens, $1.25 and 1 call of unknown cost",
    );
    const limit = { tokens: null, microUsd: 5_000_000, milliseconds: null };
    expect(spentText({ ...spent, unpriced: 2 }, limit)).toBe("1200 tokens, cost unknown of $5.00");
    expect(spentText(spent, limit)).toBe("1200 tokens, $0.00 of $5.00");
  });

  test("in JSON it is null", () => {
    expect(spentKnown(spent).microUsd).toBe(0);
    expect(spentKnown({ ...spent, unpriced: 1 }).microUsd).toBeNull();
    expect(spentKnown({ ...spent, microUsd: 5, unpriced: 1 }).microUsd).toBe(5);
  });

  test("tokens that no agent reported are unknown, not zero", () => {
    const none = { tokens: 0, microUsd: 0, milliseconds: 3000 };
    expect(spentText({ ...none, uncounted: 1, unpriced: 1 })).toBe("tokens unknown, cost unknown, 3 s");
    expect(spentText({ ...none, tokens: 500, uncounted: 2 })).toBe("500 tokens and 2 calls of unknown tokens, 3 s");
    expect(spentText({ ...none, uncounted: 1 }, { tokens: 900, microUsd: null, milliseconds: null })).toBe(
      "tokens unknown of 900 tokens, 3 s",
    );
    expect(spentKnown({ ...none, uncounted: 1 }).tokens).toBeNull();
    expect(spentKnown({ ...none, tokens: 5, uncounted: 1 }).tokens).toBe(5);
    expect(amounts.safeParse(spentKnown({ ...none, uncounted: 1, unpriced: 1 }))).toMatchObject({ success: true });
  });
});

describe("relative time", () => {
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

  test("any time within a century has a short text", () => {
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
});

describe("ranges text", () => {
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
});
