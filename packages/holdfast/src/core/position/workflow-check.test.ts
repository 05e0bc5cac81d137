import { expect, test } from "vitest";
import { checkWorkflow } from "./workflow-check.ts";
import type { WorkflowShape } from "./workflow.ts";

const sound: WorkflowShape = {
  name: "w",
  version: 1,
  initial: "work",
  stages: ["work", "done", "fatal"],
  events: ["worked", "fatal"],
  transitions: { work: { worked: "done", fatal: "fatal" } },
  ends: { done: "done", fatal: "fatal" },
};

const check =
  (change: Partial<WorkflowShape>, functions = ["work"], required: [string, string][] = []) =>
  () =>
    checkWorkflow({ shape: { ...sound, ...change }, functions, required });

test("a sound workflow passes, with a function for an end too", () => {
  expect(check({})).not.toThrow();
  expect(check({}, ["work", "fatal"], [["work", "worked"]])).not.toThrow();
});

test.each<[string, Partial<WorkflowShape>, string[]?, [string, string][]?]>([
  ["unknown stage: nowhere", { transitions: { work: { worked: "nowhere", fatal: "fatal" } } }],
  ["unknown stage: elsewhere", { transitions: { ...sound.transitions, elsewhere: { worked: "done" } } }],
  ["unknown stage: start", { initial: "start" }],
  ["unknown stage: over", { ends: { ...sound.ends, over: "done" } }],
  ["unknown stage: other", {}, ["work", "other"]],
  ["unknown event: work+tired", { transitions: { work: { worked: "done", fatal: "fatal", tired: "work" } } }],
  ["event that no stage has: slept", { events: ["worked", "fatal", "slept"] }],
  ["stage without a transition: work", { transitions: { work: { fatal: "fatal" } }, events: ["fatal"] }],
  [
    "missing transition: work+passed, done+worked",
    {},
    ["work"],
    [
      ["work", "passed"],
      ["done", "worked"],
    ],
  ],
  ["stage without a function: work", {}, []],
  [
    "stage that nothing leads to: attic",
    { stages: [...sound.stages, "attic"], transitions: { ...sound.transitions, attic: { worked: "done" } } },
    ["work", "attic"],
  ],
  ["stage named twice: work", { stages: [...sound.stages, "work"] }],
  ['not a name (lower-case letters, digits, . _ -): "Work"', { stages: [...sound.stages, "Work"] }],
  ["the initial stage done is an end", { initial: "done" }],
  ["the version must be a whole number from 1", { version: 0 }],
])("%s", (message, change, functions, required) => {
  expect(check(change, functions, required)).toThrow(
    expect.objectContaining({ code: "WORKFLOW_INVALID", message: expect.stringContaining(message) }),
  );
});

test("everything that is wrong is told at once", () => {
  expect(check({ initial: "start", version: 0 }, [])).toThrow(
    /version must be .*; unknown stage: start; stage without a function: work/,
  );
});
