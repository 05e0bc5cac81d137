import fc from "fast-check";
import { expect, test } from "vitest";
import { bestFilesNote, chooseBestIteration } from "./finish.ts";
import type { Iteration } from "./iteration.ts";
import { bestOf } from "./reflection.ts";
import type { RalphState } from "./state.ts";

function iteration(number: number, quality: number | null, unit = 0): Iteration {
  return {
    number,
    unit,
    unitName: "loop",
    outcome: "completed",
    verdict: "failed",
    quality,
    tests: null,
    errors: null,
    warnings: null,
    spent: { tokens: null, microUsd: null },
    milliseconds: 0,
    filesChanged: 1,
    signature: null,
    failingDigest: null,
    tree: `t${number}`,
  };
}

function stateOf(iterations: readonly Iteration[]): Pick<RalphState, "best" | "iterations"> {
  const best = iterations.reduce<RalphState["best"]>(
    (found, { number, unit, verdict, quality, tree }) =>
      bestOf(found, { iteration: number, unit, verdict, quality, tree, failing: { names: [], more: 0 } }),
    null,
  );
  return { best, iterations };
}

test("files go back only to an iteration that was better than the last one", () => {
  const quality = fc.option(fc.integer({ min: 0, max: 100 }));
  fc.assert(
    fc.property(fc.array(quality, { minLength: 1, maxLength: 8 }), (qualities) => {
      const state = stateOf(qualities.map((one, index) => iteration(index + 1, one)));
      const best = chooseBestIteration(state);
      const last = qualities.at(-1) ?? null;
      const top = Math.max(...qualities.map((one) => one ?? -1));
      expect(best !== null).toBe(top > (last ?? -1));
      if (best !== null) expect(best.iteration).toBe(qualities.indexOf(top) + 1);
    }),
  );
});

test("a finished step is not rolled back for the result of the next one", () => {
  expect(chooseBestIteration(stateOf([iteration(1, 100, 0), iteration(2, 0, 1)]))).toBeNull();
  expect(bestFilesNote(stateOf([iteration(1, 60), iteration(2, 20)]))).toBe(
    "The files are those of iteration 1, the best (quality 60)",
  );
});
