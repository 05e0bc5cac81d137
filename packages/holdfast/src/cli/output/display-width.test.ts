import * as fc from "fast-check";
import { expect, test } from "vitest";
import { displayWidth, padEnd, padStart, truncate, truncateMiddle } from "./display-width.ts";

test.each([
  ["plain", 5],
  ["日本", 4],
  ["한국어", 6],
  ["e\u0301te\u0301", 3],
  ["👍🏽", 2],
  ["👩‍👩‍👧", 2],
  ["🇩🇪", 2],
  ["♥️", 2],
  ["ﬁ…", 2],
  ["", 0],
])("%s takes %i columns", (text, width) => expect(displayWidth(text)).toBe(width));

test("a wide character that does not fit is left out whole", () => {
  expect(truncate("日本語", 4)).toBe("日…");
  expect(truncate("日本語", 5)).toBe("日本…");
  expect(truncate("日本語", 6)).toBe("日本語");
  expect(truncate("abc", 0)).toBe("");
});

test("cut text fits, and whole text is never touched", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), fc.nat({ max: 40 }), (text, width) => {
      const cut = truncate(text, width);
      expect(displayWidth(cut)).toBeLessThanOrEqual(width);
      expect(cut === text).toBe(displayWidth(text) <= width);
    }),
  );
});

test("cut in the middle it fits as well, and its end stays", () => {
  expect(truncateMiddle("ralph-make-the-test-pass-df52eb13@17", 20)).toBe("ralph-make-…2eb13@17");
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), fc.nat({ max: 40 }), (text, width) => {
      const cut = truncateMiddle(text, width);
      expect(displayWidth(cut)).toBeLessThanOrEqual(width);
      expect(cut === text).toBe(displayWidth(text) <= width);
    }),
  );
  fc.assert(
    fc.property(fc.stringMatching(/^[a-z]{30}-[a-z0-9]{7}$/), fc.integer({ min: 16, max: 37 }), (id, width) => {
      expect(truncateMiddle(id, width).endsWith(id.slice(-8))).toBe(true);
    }),
  );
});

test("padding fills to the width and cuts nothing", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme-composite" }), fc.nat({ max: 40 }), (text, width) => {
      expect(displayWidth(padEnd(text, width))).toBe(Math.max(width, displayWidth(text)));
      expect(padStart(text, width).endsWith(text)).toBe(true);
    }),
  );
});
