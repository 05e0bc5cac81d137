import { expect, test } from "vitest";
import { emptyPlanes } from "@holdfast/core/checkpoint";
import { summarizeLoop } from "./loop-summary.ts";
import { parseRalphOptions } from "./options.ts";
import { initialRalphState, parseRalphState, reduceRecorded } from "./state.ts";

const planes = emptyPlanes({ workflow: "ralph", stage: "iterate" });
const config = {
  ...planes.config,
  inputs: parseRalphOptions({ task: "x", until: ["make", "make test"], maxIterations: 7 }),
};

test("a loop that has started", () => {
  const values = reduceRecorded(initialRalphState, { kind: "begun", loopId: "ralph-x-0123abcd" });
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

test("never fails: another workflow's checkpoint, or an unreadable one, has no summary", () => {
  expect(summarizeLoop(emptyPlanes({ workflow: "impl" }))).toBeNull();
  expect(summarizeLoop({ ...planes, config })).toBeNull();
  expect(summarizeLoop({ ...planes, context: { values: initialRalphState, tokens: {} } })).toBeNull();
});

test("an event of the loop keeps its position, and an unreadable one is refused", () => {
  const state = { ...initialRalphState, began: "abc", pushed: "def" };
  expect(reduceRecorded(state, { kind: "begun", loopId: "ralph-x-0123abcd" })).toMatchObject({
    began: "abc",
    pushed: "def",
  });
  expect(parseRalphState({ ...state })).toEqual(state);
  expect(() => parseRalphState({ ...state, pushed: 4 })).toThrow(/pushed/);
});
