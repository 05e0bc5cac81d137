import { expect, test } from "vitest";
import { emptyPlanes } from "@holdfast/core/checkpoint";
import { summarizeLoop } from "./loop-summary.ts";
import { loopOptionsJson, parseLoopOptions } from "./options.ts";
import { initialLoopState, parseLoopState, reduceLoop } from "./state.ts";

const planes = emptyPlanes({ workflow: "ralph", stage: "iterate" });
const config = {
  ...planes.config,
  inputs: loopOptionsJson(parseLoopOptions({ task: "x", until: ["make", "make test"], maxIterations: 7 })),
};

test("of a loop that has begun", () => {
  const values = reduceLoop(initialLoopState, { kind: "begun", loopId: "ralph-x-0123abcd" });
  expect(summarizeLoop({ ...planes, config, context: { values, tokens: {} } })).toMatchObject({
    loop: "ralph-x-0123abcd",
    type: "ralph_loop",
    maxIterations: 7,
    until: ["make", "make test"],
    unit: { name: "loop", place: 1, of: 1 },
    iterations: [],
    best: null,
  });
});

test("looking never fails: another workflow's checkpoint, or one that cannot be read, has none", () => {
  expect(summarizeLoop(emptyPlanes({ workflow: "impl" }))).toBeNull();
  expect(summarizeLoop({ ...planes, config })).toBeNull();
  expect(summarizeLoop({ ...planes, context: { values: initialLoopState, tokens: {} } })).toBeNull();
});

test("an event of the loop leaves its place alone, and what cannot be read is refused", () => {
  const state = { ...initialLoopState, began: "abc", pushed: "def" };
  expect(reduceLoop(state, { kind: "begun", loopId: "ralph-x-0123abcd" })).toMatchObject({
    began: "abc",
    pushed: "def",
  });
  expect(parseLoopState({ ...state })).toEqual(state);
  expect(() => parseLoopState({ ...state, pushed: 4 })).toThrow(/pushed/);
});
