import fc from "fast-check";
import { expect, test } from "vitest";
import { betterOf } from "./score.ts";

const scored = fc.array(fc.option(fc.oneof(fc.integer({ min: 0, max: 9 }), fc.double())));

test("a score that is not a number is never the best, nor the first", () => {
  expect(betterOf(null, { sequence: 1, score: Number.NaN })).toBeNull();
  expect(betterOf(null, { sequence: 1, score: Number.POSITIVE_INFINITY })).toBeNull();
  expect(betterOf({ sequence: 1, score: 5 }, { sequence: 2, score: 5 })).toEqual({ sequence: 1, score: 5 });
});

test("the best is the earliest of the highest, and nothing that is not a number", () => {
  fc.assert(
    fc.property(scored, (scores) => {
      const best = scores.reduce<ReturnType<typeof betterOf>>(
        (so, score, index) => betterOf(so, { sequence: index + 1, score }),
        null,
      );
      const numbers = scores.filter((score) => score !== null && Number.isFinite(score));
      if (numbers.length === 0) {
        expect(best).toBeNull();
        return;
      }
      const highest = numbers.reduce((a, b) => (Number(b) > Number(a) ? b : a));
      expect(best).toEqual({ sequence: scores.indexOf(highest) + 1, score: highest });
    }),
  );
});
