import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { emptyPlanes } from "./checkpoint.ts";
import type { Position } from "./position.ts";
import { type WorkflowShape, checkWorkflow, nextStage, transition } from "./transitions.ts";

describe("transition", () => {
  const shape: WorkflowShape = {
    name: "w",
    version: 1,
    initial: "work",
    stages: ["work", "check", "done", "constructor"],
    events: ["worked", "passed", "failed", "toString"],
    transitions: { work: { worked: "check" }, check: { passed: "done", failed: "work" } },
    ends: { done: "done" },
  };
  const at = (stage: string) => ({
    ...emptyPlanes({ workflow: "w", stage }).position,
    iteration: 2,
    attempts: { a: 1 },
  });

  test("an unknown stage is reported before an unknown event, and that before a missing pair", () => {
    expect(() => nextStage(shape, "wrok", "nothing")).toThrow('no stage "wrok"');
    expect(() => nextStage(shape, "work", "worke")).toThrow('no event "worke"');
    expect(() => nextStage(shape, "work", "passed")).toThrow("no transition for work+passed");
    expect(() => nextStage(shape, "wrok", "worked")).toThrow(
      expect.objectContaining({ code: "WORKFLOW_INVALID", hint: "Did you mean work?" }),
    );
  });

  test("names that every object inherits are not rows or pairs", () => {
    expect(() => nextStage(shape, "constructor", "worked")).toThrow("no transition");
    expect(() => nextStage(shape, "work", "toString")).toThrow("no transition");
  });

  test("feedback stays unless the stage sets it, and null removes it", () => {
    const position = { ...at("work"), feedback: "fix it", score: 60 };
    expect(transition(shape, position, { event: "worked", reason: "r" })).toMatchObject({
      feedback: "fix it",
      score: 60,
    });
    expect(transition(shape, position, { event: "worked", reason: "r", feedback: null, score: 0 })).toMatchObject({
      feedback: null,
      score: 0,
    });
  });

  test("any walk stays in the table; counters are kept, and finished steps are not", () => {
    const anyEvents = fc.array(fc.constantFrom(...shape.events));
    fc.assert(
      fc.property(anyEvents, (events) => {
        let position: Position = { ...at("work"), stageAttempt: { number: 7, steps: { s: 1 }, failures: { s: 1 } } };
        for (const event of events) {
          const target = shape.transitions[position.stage]?.[event];
          const step = () => transition(shape, position, { event, reason: event });
          if (target === undefined || !Object.hasOwn(shape.transitions[position.stage] ?? {}, event)) {
            expect(step).toThrow(expect.objectContaining({ code: "WORKFLOW_INVALID" }));
            continue;
          }
          const next = step();
          expect(next).toEqual({
            ...position,
            stage: target,
            reason: event,
            stageAttempt: { number: position.stageAttempt.number + 1, steps: {}, failures: {} },
          });
          position = { ...next, stageAttempt: { ...next.stageAttempt, steps: { s: 1 }, failures: { s: 1 } } };
        }
      }),
    );
  });
});

describe("workflow check", () => {
  const sound: WorkflowShape = {
    name: "w",
    version: 1,
    initial: "work",
    stages: ["work", "done", "fatal"],
    events: ["worked", "fatal"],
    transitions: { work: { worked: "done", fatal: "fatal" } },
    ends: { done: "done", fatal: "failed" },
  };

  const check =
    (change: Partial<WorkflowShape>, functions = ["work"], required: [string, string][] = []) =>
    () =>
      checkWorkflow({ shape: { ...sound, ...change }, functions, required });

  test("a valid workflow passes, also with a function for an end", () => {
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

  test("all problems are reported at once", () => {
    expect(check({ initial: "start", version: 0 }, [])).toThrow(
      /version must be .*; unknown stage: start; stage without a function: work/,
    );
  });
});
