import { expect, test } from "vitest";
import { answerWords } from "./answer-words.ts";

test("an answer can be typed as it is printed", () => {
  expect(answerWords(["again", "go on"])).toBe('again|"go on"');
  expect(answerWords(['say "$x"'])).toBe('"say \\"\\$x\\""');
  expect(answerWords([])).toBe("ANSWER");
});
