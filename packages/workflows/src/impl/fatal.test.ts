import { expect, test } from "vitest";
import { chooseBestCheckpoint } from "./fatal.ts";
import type { Review } from "./state.ts";

const review = (pass: boolean): Review => ({
  iteration: 1,
  pass,
  score: 70,
  scores: null,
  findings: [],
  suggestions: [],
});
const best = { sequence: 9, score: 75 };
const given = (streak: number, reviews: readonly Review[]) =>
  chooseBestCheckpoint({ best, streaks: { review: streak } }, { reviews });

test("without improvement of the reviews, the run goes back to the best", () => {
  expect(given(2, [review(false), review(false)])).toEqual(best);
  expect(given(4, [review(false)])).toEqual(best);
});

test("the newest files stay when the last review was the best, passed, or there was none", () => {
  expect(given(1, [review(false)])).toBeNull();
  expect(given(0, [review(false), review(true)])).toBeNull();
  expect(given(0, [])).toBeNull();
});
