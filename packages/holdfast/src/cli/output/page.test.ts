import { expect, test } from "vitest";
import { pageWidth, wantsColor } from "./page.ts";

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
