import { expect, test } from "vitest";
import { proseOf } from "./prose-of.ts";

test("what stands before the JSON at the end, fences of its own included", () => {
  const answer = '# Plan\n```json\n{"a": 1}\n```\nDone.\n```json\n{"status": "SUCCESS"}\n```\n';
  expect(proseOf(answer)).toBe('# Plan\n```json\n{"a": 1}\n```\nDone.');
});

test("nothing of an answer that is its JSON alone; of one longer than a prompt can carry the beginning, and that it is cut", () => {
  expect(proseOf('```json\n{"status": "SUCCESS"}\n```')).toBe("");
  expect(proseOf('{"status": "SUCCESS"}')).toBe("");
  expect(proseOf(`${"a".repeat(20_000)}\n\`\`\`json\n{}\n\`\`\``)).toBe(`${"a".repeat(12_000)}\n(cut here)`);
});
