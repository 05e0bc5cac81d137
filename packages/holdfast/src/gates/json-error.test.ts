import fc from "fast-check";
import { expect, test } from "vitest";
import { findJsonError } from "./json-error.ts";

test("JSON has no error", () => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      expect(findJsonError(text)).toBeNull();
    }),
  );
});

test("a stray character between the lines of any JSON is found on its line", () => {
  fc.assert(
    fc.property(
      fc.jsonValue({ maxDepth: 3 }),
      fc.nat(),
      fc.constantFrom("@", "}}", "// x", "'"),
      (value, at, stray) => {
        const lines = JSON.stringify(value, null, 1).split("\n");
        const place = at % lines.length;
        const text = lines.toSpliced(place, 0, stray).join("\n");
        const found = findJsonError(text);
        // A closing bracket too many may be the right one for what is open: then the next line is wrong.
        const last = stray === "}}" ? place + 2 : place + 1;
        expect(found?.line).toBeGreaterThanOrEqual(place + 1);
        expect(found?.line).toBeLessThanOrEqual(last);
      },
    ),
  );
});

test.each([
  ["", 1, "Unexpected end of JSON input"],
  ['{\n"a": 1,\n}', 3, "Expected double-quoted property name in JSON"],
  ['{\n  "a": ,\n}', 2, "Unexpected token ','"],
  ['{"a": "b\n"}', 1, "Bad control character in string literal in JSON"],
  ["[1,\n2\n\n\n", 2, "Expected ',' or ']' after array element in JSON"],
  ["{}\n\nx", 3, "Unexpected non-whitespace character after JSON"],
])("%j", (text, line, message) => {
  expect(findJsonError(text)).toEqual({ line, message });
});
