import fc from "fast-check";
import { expect, test } from "vitest";
import { hostileText } from "@holdfast/test-support/workflows/ralph-sample";
import { readLearnings } from "./iterate.ts";

test.each<[string, string, readonly string[]]>([
  ["nothing", "I did it. Learnings: none.", []],
  ["a section", "Done.\n\n## Learnings\n\n- one\n* two\n3. three\n\n## Next\n- no", ["one", "two", "three"]],
  ["a wrapped bullet", "## Learnings\n- one\n  and more\n- two", ["one and more", "two"]],
  ["plain lines", "# Lessons learned:\none\ntwo", ["one", "two"]],
  ["a heading below", "## Learnings\n- one\n### Detail\n- two\n# End\n- no", ["one", "two"]],
  ["a fenced block", "Done.\n```learnings\n- one\n- ## two\n```\n- no", ["one", "## two"]],
  ["a longer fence", "````learnings\n```\none\n````", ["```", "one"]],
  ["a fence that is never closed", "```learnings\n- one", ["one"]],
  ["the same twice", "## Learnings\n- one\n- one", ["one"]],
  ["a block in the section", "## Learnings\n```\n- one\n## two\n```\n- three\n## End\nno", ["one", "## two", "three"]],
  ["another block", "```js\n## Learnings\n```", []],
])("%s", (_, answer, learnings) => {
  expect(readLearnings(answer).learnings).toEqual(learnings);
});

test("other text stays unchanged", () => {
  expect(readLearnings("Did a.\n\n## Learnings\n- b\n\n## Next\nc\n```learnings\nd\n```\ne").rest).toBe(
    "Did a.\n\n## Next\nc\ne",
  );
});

test("there are few of them, each short and on one line, for any text", () => {
  const piece = fc.oneof(
    fc.constantFrom("## Learnings", "```learnings", "```", "- ", "  x", "", "# a", "y".repeat(900)),
    hostileText(20),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 60 }), (lines) => {
      const { learnings } = readLearnings(lines.join("\n"));
      expect(learnings.length).toBeLessThanOrEqual(10);
      for (const one of learnings) {
        expect(one.length).toBeLessThanOrEqual(300);
        expect(one).not.toBe("");
        expect(one).not.toContain("\n");
      }
    }),
  );
});
