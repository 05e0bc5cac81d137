import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { blankComments, findJsonError } from "./json-error.ts";

describe("json error", () => {
  test("valid JSON has no error", () => {
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
});

describe("blank comments", () => {
  test("plain JSON stays as it is, also with slashes, quotes and commas in its texts", () => {
    fc.assert(
      fc.property(fc.json(), fc.constantFrom(0, 2), (text, indent) => {
        const pretty = JSON.stringify(JSON.parse(text), null, indent);
        expect(blankComments(pretty)).toBe(pretty);
      }),
    );
    expect(blankComments('{"a": "// \\" /* ,] */"}')).toBe('{"a": "// \\" /* ,] */"}');
  });

  test("comments and trailing commas between the tokens change no value and no place", () => {
    const comment = fc.constantFrom("// c\n", "/* c, */", "/* \n */", "/**/", " ");
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.string(), fc.integer())),
        fc.array(comment, { minLength: 1 }),
        (values, comments) => {
          const at = (index: number): string => comments[index % comments.length] ?? "";
          const text = `${at(0)}[${values.map((value, index) => `${at(index)}${JSON.stringify(value)}`).join(`,${at(1)}`)}${at(2)}${values.length === 0 ? "" : ","}${at(3)}]`;
          const blank = blankComments(text);
          expect(JSON.parse(blank)).toEqual(values);
          expect(blank.length).toBe(text.length);
          expect(blank.split("\n").length).toBe(text.split("\n").length);
        },
      ),
    );
  });

  test("an unclosed token stays an error", () => {
    for (const text of ["{} /* open", '"open', "[1,,2]", "[,]", "[1,,]", '{"a":,}', "{,}"])
      expect(() => JSON.parse(blankComments(text)), text).toThrow();
  });
});
