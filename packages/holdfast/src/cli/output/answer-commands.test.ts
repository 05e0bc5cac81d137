import { expect, test } from "vitest";
import { answerCommands } from "./answer-commands.ts";

test("each answer is a command of its own that can be pasted as it is printed", () => {
  expect(answerCommands("holdfast approve r", ["again", "go on"])).toBe(
    'Answer with: holdfast approve r again\n         or: holdfast approve r "go on"',
  );
  expect(answerCommands("holdfast approve r", ['say "$x"'])).toBe('Answer with: holdfast approve r "say \\"\\$x\\""');
  expect(answerCommands("holdfast approve r", [])).toBe("Answer with: holdfast approve r ANSWER");
});
