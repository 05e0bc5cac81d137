import { expect, test } from "vitest";
import { answerMeaning } from "./answer-meanings.ts";

test.each([
  ["base-gate-fails-2", ["continue", "again", "stop"]],
  ["unknown-branch", ["theirs", "ours", "stop"]],
  ["unreadable-review", ["skip", "rework", "stop"]],
  ["stuck", ["continue", "rollback", "stop"]],
  ["impl/denied", ["allow", "continue", "stop"]],
  ["consent:publish", ["publish", "stop"]],
  ["phase-implementing", ["again", "continue", "stop"]],
])("the answers to %s differ in what they do", (question, answers) => {
  const meanings = answers.map((answer) => answerMeaning(question, answer));
  expect(new Set(meanings).size).toBe(answers.length);
  expect(meanings).not.toContain("The answer is recorded, and the run continues.");
});

test("an answer of a workflow that is not built in says what is known", () => {
  expect(answerMeaning("colour", "blue")).toBe("The answer is recorded, and the run continues.");
  expect(answerMeaning("colour", "stop")).toBe("The run stops here; its work is saved.");
  expect(answerMeaning("constructor", "constructor")).toBe("The answer is recorded, and the run continues.");
});
