import fc from "fast-check";
import { createTwoFilesPatch } from "diff";
import { expect, test } from "vitest";
import { cutTokens, pairsOf, rowsOf } from "./diff-rows.ts";

const patch = `--- a/greet.js
+++ b/greet.js
@@ -1,3 +1,3 @@
-export function greet() {
+export function greet(name) {
   return 1;
 }
\\ No newline at end of file
`;

test("rows have the line numbers of both sides, and the words that changed", () => {
  expect(rowsOf(patch)).toEqual([
    { kind: "hunk", old: null, new: null, text: "@@ -1,3 +1,3 @@", words: [] },
    { kind: "removed", old: 1, new: null, text: "export function greet() {", words: [] },
    { kind: "added", old: null, new: 1, text: "export function greet(name) {", words: [[22, 26]] },
    { kind: "same", old: 2, new: 2, text: "  return 1;", words: [] },
    { kind: "same", old: 3, new: 3, text: "}", words: [] },
    { kind: "note", old: null, new: null, text: "No newline at end of file", words: [] },
  ]);
});

test("text that is not a patch has no rows", () => {
  expect(rowsOf("")).toEqual([]);
  expect(rowsOf("Binary files a/x and b/x differ\n")).toEqual([]);
  expect(rowsOf("@@ broken @@\n+x")).toEqual([]);
});

test("a very long line is cut", () => {
  const [, row] = rowsOf(`--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+${"y".repeat(1_000_000)}\n`);
  expect(row?.text.length).toBeLessThan(4100);
});

test("every line of a patch is one row", () => {
  const lines = fc.array(fc.constantFrom("a", "b", "  c", "", "--- x", "+++ y", "@@ z"), { maxLength: 12 });
  fc.assert(
    fc.property(lines, lines, (before, after) => {
      const [from, to] = [before, after].map((list) => list.map((line) => `${line}\n`).join(""));
      const rows = rowsOf(createTwoFilesPatch("a", "b", from ?? "", to ?? "", "", "", { context: 1000 }));
      const side = (kind: "added" | "removed"): readonly string[] =>
        rows.filter((row) => row.kind === "same" || row.kind === kind).map(({ text }) => text);
      const same = from === to;
      expect(side("removed")).toEqual(same ? [] : before);
      expect(side("added")).toEqual(same ? [] : after);
    }),
  );
});

test("tokens and changed words cut a line together, and no character is lost", () => {
  const cuts = cutTokens(
    [
      { text: "const ", kind: "kwd" },
      { text: "name", kind: "" },
    ],
    [[4, 8]],
  );
  expect(cuts).toEqual([
    { text: "cons", kind: "kwd", changed: false },
    { text: "t ", kind: "kwd", changed: true },
    { text: "na", kind: "", changed: true },
    { text: "me", kind: "", changed: false },
  ]);
});

test("two columns have each old line beside the new one that replaced it", () => {
  const rows = rowsOf("--- a/x\n+++ b/x\n@@ -1,4 +1,4 @@\n same\n-one\n-two\n+eins\n+zwei\n+drei\n-end\n");
  const sides = pairsOf(rows).map(([left, right]) => [left?.text ?? null, right?.text ?? null]);
  expect(sides.slice(1)).toEqual([
    ["same", "same"],
    ["one", "eins"],
    ["two", "zwei"],
    [null, "drei"],
    ["end", null],
  ]);
});

test("a patch that was cut shows the lines that are left", () => {
  const whole = createTwoFilesPatch(
    "a/x",
    "b/x",
    "one\ntwo\n",
    Array.from({ length: 50 }, (_, n) => `${n}\n`).join(""),
  );
  for (const lines of [4, 5, 6, 7, 20, 40]) {
    const cut = `${whole.split("\n").slice(0, lines).join("\n")}\n`;
    expect(
      rowsOf(cut, true).filter(({ kind }) => kind !== "hunk"),
      String(lines),
    ).toHaveLength(lines - 4);
  }
  expect(rowsOf("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n", true).filter(({ kind }) => kind !== "hunk")).toEqual([]);
});
