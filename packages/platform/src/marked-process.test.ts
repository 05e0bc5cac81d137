import fc from "fast-check";
import { expect, test } from "vitest";
import { createLineSplitter, createOutputTail } from "./marked-process.ts";

function linesOf(pieces: readonly string[], maxCharacters?: number): readonly string[] {
  const found: string[] = [];
  const lines = createLineSplitter({
    onLine: (line) => found.push(line),
    ...(maxCharacters === undefined ? {} : { maxCharacters }),
  });
  for (const piece of pieces) lines.add(piece);
  lines.end();
  return found;
}

const pieces = fc.array(fc.string({ unit: fc.constantFrom("a", "b", "é", "\n"), maxLength: 12 }), { maxLength: 12 });

test("any chunks give the same lines", () => {
  fc.assert(
    fc.property(pieces, (parts) => {
      const whole = parts.join("");
      const expected = whole.split("\n");
      if (expected.at(-1) === "") expected.pop();
      expect(linesOf(parts)).toEqual(expected);
    }),
  );
});

test("a line without an end comes in pieces; Windows line ends are removed", () => {
  expect(linesOf(["abcdefg", "h\nij"], 3)).toEqual(["abc", "def", "gh", "ij"]);
  expect(linesOf(["one\r\ntwo\r", "\n"])).toEqual(["one", "two"]);
});

test("the tail is the end of the whole output", () => {
  fc.assert(
    fc.property(pieces, fc.integer({ min: 1, max: 20 }), (parts, size) => {
      const tail = createOutputTail(size);
      for (const part of parts) tail.add(part);
      expect(tail.text()).toBe(parts.join("").slice(-size));
    }),
  );
});
