import fc from "fast-check";
import { expect, test } from "vitest";
import { describeTextChange, diffLines } from "./text-diff.ts";
import type { LineEdit } from "./text-diff.ts";

const side = (edits: readonly LineEdit[], left: "removed" | "added"): string =>
  edits
    .filter((edit) => edit.kind === "same" || edit.kind === left)
    .map((edit) => edit.line)
    .join("\n");
const changes = (edits: readonly LineEdit[]): number => edits.filter((edit) => edit.kind !== "same").length;
const lines = fc.array(fc.constantFrom("a", "b", "c", "", "long line"), { maxLength: 30 }).map((all) => all.join("\n"));

test("both texts can be read back from the edits, whatever they are", () => {
  fc.assert(
    fc.property(fc.oneof(lines, fc.string()), fc.oneof(lines, fc.string()), (before, after) => {
      const edits = diffLines({ before, after });
      expect(side(edits, "removed")).toBe(before.replaceAll("\r\n", "\n"));
      expect(side(edits, "added")).toBe(after.replaceAll("\r\n", "\n"));
    }),
  );
});

test("as few edits as the longest common run of lines allows", () => {
  fc.assert(
    fc.property(lines, lines, (before, after) => {
      const [a, b] = [before.split("\n"), after.split("\n")];
      expect(changes(diffLines({ before, after }))).toBe(a.length + b.length - 2 * longestCommon(a, b));
    }),
  );
});

test("beyond the bound the middle is told as replaced, and still whole", () => {
  const before = ["head", ...Array.from({ length: 2000 }, (_, i) => `old ${i}`), "tail"].join("\n");
  const after = ["head", ...Array.from({ length: 2000 }, (_, i) => `new ${i}`), "tail"].join("\n");
  const edits = diffLines({ before, after });
  expect(side(edits, "added")).toBe(after);
  expect(changes(edits)).toBe(4000);
  expect(describeTextChange({ before, after })).toMatch(/\n… and \d+ more lines$/);
});

test("what is shown: the change, two lines around it, and that something was left out", () => {
  const before = "1\n2\n3\n4\n5\n6\n7\n8\n9";
  expect(describeTextChange({ before, after: before.replace("5", "five") })).toBe(
    "…\n  3\n  4\n- 5\n+ five\n  6\n  7\n…",
  );
  expect(describeTextChange({ before: "a\r\nb", after: "a\nb\nc" })).toBe("  a\n  b\n+ c");
});

function longestCommon(a: readonly string[], b: readonly string[]): number {
  const table = Array.from({ length: a.length + 1 }, () => Array.from({ length: b.length + 1 }, () => 0));
  const get = (i: number, j: number): number => table[i]?.[j] ?? 0;
  for (const [i, x] of a.entries())
    for (const [j, y] of b.entries()) {
      const row = table[i + 1];
      if (row !== undefined) row[j + 1] = x === y ? get(i, j) + 1 : Math.max(get(i, j + 1), get(i + 1, j));
    }
  return get(a.length, b.length);
}
