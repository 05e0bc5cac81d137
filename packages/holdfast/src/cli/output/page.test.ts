import { expect, test } from "vitest";
import { onlyAscii, pageWidth, wantsColor } from "./page.ts";

test.each([
  ["a terminal", { env: {}, terminal: true, noColorFlag: false }, true],
  ["a pipe", { env: {}, terminal: false, noColorFlag: false }, false],
  ["NO_COLOR", { env: { NO_COLOR: "1" }, terminal: true, noColorFlag: false }, false],
  ["an empty NO_COLOR", { env: { NO_COLOR: "" }, terminal: true, noColorFlag: false }, true],
  ["FORCE_COLOR in a pipe", { env: { FORCE_COLOR: "1" }, terminal: false, noColorFlag: false }, true],
  ["FORCE_COLOR=0", { env: { FORCE_COLOR: "0" }, terminal: true, noColorFlag: false }, false],
  ["both", { env: { FORCE_COLOR: "1", NO_COLOR: "1" }, terminal: false, noColorFlag: false }, true],
  ["--no-color over FORCE_COLOR", { env: { FORCE_COLOR: "1" }, terminal: true, noColorFlag: true }, false],
  ["a dumb terminal", { env: { TERM: "dumb" }, terminal: true, noColorFlag: false }, false],
])("colour: %s", (_, choice, expected) => expect(wantsColor(choice)).toBe(expected));

test("the terminal's width, else COLUMNS, else nothing is cut", () => {
  expect(pageWidth({ env: { COLUMNS: "100" }, columns: 120 })).toBe(120);
  expect(pageWidth({ env: { COLUMNS: "100" }, columns: undefined })).toBe(100);
  expect(pageWidth({ env: { COLUMNS: "abc" }, columns: undefined })).toBe(Number.POSITIVE_INFINITY);
  expect(pageWidth({ env: {}, columns: 10 })).toBe(40);
});

test.each([
  ["a terminal without a locale", { env: {}, terminal: true }, false],
  ["UTF-8", { env: { LANG: "de_DE.UTF-8" }, terminal: true }, false],
  ["the plain locale", { env: { LANG: "C" }, terminal: true }, true],
  ["LC_ALL over LANG", { env: { LC_ALL: "POSIX", LANG: "C.UTF-8" }, terminal: false }, true],
  ["an empty LC_ALL", { env: { LC_ALL: "", LANG: "C.utf8" }, terminal: true }, false],
  ["a dumb terminal", { env: { TERM: "dumb", LANG: "C.UTF-8" }, terminal: true }, true],
  ["a pipe of a dumb terminal", { env: { TERM: "dumb", LANG: "C.UTF-8" }, terminal: false }, false],
  ["the console of Linux", { env: { TERM: "linux" }, terminal: true }, true],
])("only ASCII: %s", (_, choice, expected) => expect(onlyAscii(choice)).toBe(expected));
