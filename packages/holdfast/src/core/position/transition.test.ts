import fc from "fast-check";
import { expect, test } from "vitest";
import { emptyPlanes } from "../checkpoint/checkpoint.ts";
import type { Position } from "./position.ts";
import { nextStage, transition } from "./transition.ts";
import type { WorkflowShape } from "./workflow.ts";

const shape: WorkflowShape = {
  name: "w",
  version: 1,
  initial: "work",
  stages: ["work", "check", "done", "constructor"],
  events: ["worked", "passed", "failed", "toString"],
  transitions: { work: { worked: "check" }, check: { passed: "done", failed: "work" } },
  ends: { done: "done" },
};
const at = (stage: string) => ({ ...emptyPlanes({ workflow: "w", stage }).position, iteration: 2, attempts: { a: 1 } });

test("an unknown stage is told before an unknown event, and that before a missing pair", () => {
  expect(() => nextStage(shape, "wrok", "nothing")).toThrow('no stage "wrok"');
  expect(() => nextStage(shape, "work", "worke")).toThrow('no event "worke"');
  expect(() => nextStage(shape, "work", "passed")).toThrow("no transition for work+passed");
  expect(() => nextStage(shape, "wrok", "worked")).toThrow(
    expect.objectContaining({ code: "WORKFLOW_INVALID", hint: "Did you mean work?" }),
  );
});

test("names that every object has are no rows and no pairs", () => {
  expect(() => nextStage(shape, "constructor", "worked")).toThrow("no transition");
  expect(() => nextStage(shape, "work", "toString")).toThrow("no transition");
});

test("feedback stays unless the stage says otherwise, and null takes it away", () => {
  const position = { ...at("work"), feedback: "mend it", score: 60 };
  expect(transition(shape, position, { event: "worked", reason: "r" })).toMatchObject({
    feedback: "mend it",
    score: 60,
  });
  expect(transition(shape, position, { event: "worked", reason: "r", feedback: null, score: 0 })).toMatchObject({
    feedback: null,
    score: 0,
  });
});

test("any walk stays in the table; counters are kept, and nothing finished is carried over", () => {
  const anyEvents = fc.array(fc.constantFrom(...shape.events));
  fc.assert(
    fc.property(anyEvents, (events) => {
      let position: Position = { ...at("work"), visit: { number: 7, steps: { s: 1 }, failures: { s: 1 } } };
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
          visit: { number: position.visit.number + 1, steps: {}, failures: {} },
        });
        position = { ...next, visit: { ...next.visit, steps: { s: 1 }, failures: { s: 1 } } };
      }
    }),
  );
});
