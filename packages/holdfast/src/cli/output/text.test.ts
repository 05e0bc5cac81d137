import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  displayWidth,
  escapeLines,
  escapeText,
  escapeWords,
  padEnd,
  padStart,
  truncate,
  truncateMiddle,
  wrap,
} from "./text.ts";

describe("escape text", () => {
  test("escape sequences, line breaks and reversed text become visible", () => {
    expect(escapeText("a\x1b[31mred\x1b[0m\nb\tc\u009b2J")).toBe("a\\x1b[31mred\\x1b[0m\\nb\\tc\\x9b2J");
    expect(escapeText("file\u202Egnp.exe\u200b")).toBe("file\\u202egnp.exe\\u200b");
    expect(escapeText("\u{e0041}\ud800")).toBe("\\u{e0041}\\ud800");
  });

  test("ordinary text stays unchanged", () => {
    for (const text of ["naïve café", "日本語のファイル", "👩‍👩‍👧 family", "a\\x1b"]) expect(escapeText(text)).toBe(text);
  });

  test("no control character survives, whatever the text", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        // oxlint-disable-next-line no-control-regex
        expect(escapeText(text)).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/);
        // oxlint-disable-next-line no-control-regex
        expect(escapeLines(text)).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e]/);
      }),
    );
  });

  test("lines and tabs of a patch stay", () => {
    expect(escapeLines("+\ta\n-b\r\n")).toBe("+\ta\n-b\\r\n");
  });

  test("a quoted text of several lines becomes one line, without a literal \\n", () => {
    expect(escapeWords("remote: no\n  remote: really\r\n\n")).toBe("remote: no; remote: really");
    expect(escapeWords("a;\nb\x1b[2J")).toBe("a; b\\x1b[2J");
  });
});

describe("display width", () => {
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
});

describe("wrap", () => {
  test("wrapped lines hold all the words and no more than they may", () => {
    expect(wrap("one two three", 7)).toEqual(["one two", "three"]);
    expect(wrap("enormous", 3)).toEqual(["enormous"]);
  });
});
