import * as fc from "fast-check";
import { expect, test } from "vitest";
import { escapeLines, escapeText, escapeWords } from "./escape-text.ts";

test("escape sequences, line breaks and reversed text become visible", () => {
  expect(escapeText("a\x1b[31mred\x1b[0m\nb\tc\u009b2J")).toBe("a\\x1b[31mred\\x1b[0m\\nb\\tc\\x9b2J");
  expect(escapeText("file\u202Egnp.exe\u200b")).toBe("file\\u202egnp.exe\\u200b");
  expect(escapeText("\u{e0041}\ud800")).toBe("\\u{e0041}\\ud800");
});

test("what people write stays as it is", () => {
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

test("what others said in several lines is one line of ours, without a literal \\n", () => {
  expect(escapeWords("remote: no\n  remote: really\r\n\n")).toBe("remote: no; remote: really");
  expect(escapeWords("a;\nb\x1b[2J")).toBe("a; b\\x1b[2J");
});
