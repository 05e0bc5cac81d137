import fc from "fast-check";
import { expect, test } from "vitest";
import { wrapStyled } from "./wrap-styled.ts";

test("broken at blanks, indented, and colours take no room", () => {
  const at = { width: 12, indent: 2 };
  expect(wrapStyled("12:00  one two three", at)).toBe("12:00  one\n  two three");
  expect(wrapStyled("\x1b[1mone two\x1b[22m three", at)).toBe("\x1b[1mone two\x1b[22m\n  three");
  expect(wrapStyled("short", at)).toBe("short");
});

test("a word that is too long is cut", () => {
  expect(wrapStyled("a abcdefghijkl", { width: 6, indent: 2 })).toBe("a abcd\n  efgh\n  ijkl");
});

test("nothing is lost, and no line is wider than asked", () => {
  const words = fc.array(fc.stringMatching(/^[a-z]{1,30}$/), { minLength: 1 });
  fc.assert(
    fc.property(words, fc.integer({ min: 6, max: 40 }), (given, width) => {
      const text = given.join(" ");
      const wrapped = wrapStyled(text, { width, indent: 4 });
      expect(wrapped.replaceAll(/\s/g, "")).toBe(text.replaceAll(" ", ""));
      for (const line of wrapped.split("\n")) expect(line.length).toBeLessThanOrEqual(width);
    }),
  );
});
