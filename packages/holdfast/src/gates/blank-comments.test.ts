import fc from "fast-check";
import { expect, test } from "vitest";
import { blankComments } from "./blank-comments.ts";

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

test("what is not closed stays an error", () => {
  for (const text of ["{} /* open", '"open', "[1,,2]", "[,]", "[1,,]", '{"a":,}', "{,}"])
    expect(() => JSON.parse(blankComments(text)), text).toThrow();
});
