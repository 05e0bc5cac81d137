import fc from "fast-check";
import { expect, test } from "vitest";
import { displayWidth, wrapLine, wrapProse, wrapStyled } from "./text.ts";

test("broken at blanks, indented, and colours take no room", () => {
  const at = { width: 12, indent: 2 };
  expect(wrapStyled("12:00  one two three", at)).toBe("12:00  one\n  two three");
  expect(wrapStyled("\x1b[1mone two\x1b[22m three", at)).toBe("\x1b[1mone two\x1b[22m\n  three");
  expect(wrapStyled("short", at)).toBe("short");
});

test("a word that is too long is cut", () => {
  expect(wrapStyled("a abcdefghijkl", { width: 6, indent: 2 })).toBe("a abcd\n  efgh\n  ijkl");
  expect(wrapStyled("a \x1b[2mabcdefghijkl\x1b[22m", { width: 6, indent: 2 })).toBe(
    "a \x1b[2mabcd\n  efgh\n  ijkl\x1b[22m",
  );
  expect(wrapStyled("a 日本語の長い名前", { width: 7, indent: 2 })).toBe("a 日本\n  語の\n  長い\n  名前");
});

test("nothing is lost, and no line is wider than asked", () => {
  const styled = fc.stringMatching(/^[a-z]{1,30}$/).map((word) => `\x1b[2m${word}\x1b[22m`);
  const words = fc.array(fc.oneof(fc.stringMatching(/^[a-z日本語é👍]{1,30}$/u), styled), { minLength: 1 });
  fc.assert(
    fc.property(words, fc.integer({ min: 6, max: 40 }), (given, width) => {
      const text = given.join(" ");
      const wrapped = wrapStyled(text, { width, indent: 4 });
      expect(wrapped.replaceAll(/\s/g, "")).toBe(text.replaceAll(" ", ""));
      // eslint-disable-next-line no-control-regex
      const plain = wrapped.replaceAll(/\x1b\[[0-9;]*m/g, "");
      for (const line of plain.split("\n")) expect(displayWidth(line)).toBeLessThanOrEqual(width);
    }),
  );
});

const TERMINAL = { width: 30, terminal: true, program: "holdfast --store a" } as const;

test.for([
  {
    name: "words stay whole",
    text: "a /path/of/a/file/that/is/wider/than/all b",
    lines: ["a", "/path/of/a/file/that/is/wider/than/all", "b"],
  },
  {
    name: "an indent is kept",
    text: "  one two three four five six seven",
    lines: ["  one two three four five six", "  seven"],
  },
  {
    name: "a command at the end of a line gets its own line, whole",
    text: "Continue: holdfast --store a resume fix-login --force",
    lines: ["Continue:", "  holdfast --store a resume fix-login --force"],
  },
  {
    name: "a line that is a command is not wrapped",
    text: "  git merge holdfast/a-branch-with-a-long-name",
    lines: ["  git merge holdfast/a-branch-with-a-long-name"],
  },
  {
    name: "text in backquotes is not broken",
    text: "To continue it run `holdfast resume fix` now.",
    lines: ["To continue it run", "`holdfast resume fix` now."],
  },
  {
    name: "a number stays with its unit",
    text: "Removed 3 checkpoints of a: 14 kB",
    lines: ["Removed 3 checkpoints of a:", "14 kB"],
  },
])("prose on a terminal: $name", ({ text, lines }) => {
  expect(wrapProse(text, TERMINAL).split("\n")).toEqual(lines);
  expect(wrapProse(text, { ...TERMINAL, terminal: false })).toBe(text);
  expect(wrapProse(`${text}\n`, { ...TERMINAL, width: 80 })).toBe(`${text}\n`);
});

test("a command at the end stays whole where long words are cut", () => {
  const text = "abcdefghijklmnopqrstuvwxyz. Merge it with: git merge holdfast/a-long-name";
  expect(wrapLine(text, { program: "holdfast", width: 20, indent: 2, cutsWords: true }).split("\n")).toEqual([
    "abcdefghijklmnopqrst",
    "  uvwxyz. Merge it",
    "  with:",
    "    git merge holdfast/a-long-name",
  ]);
});
