import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { emptyPlanes } from "@holdfast/core/checkpoint";
import { nextStage } from "@holdfast/core/transitions";
import { sampleIteration } from "@holdfast/test-support/workflows/ralph-sample";
import { parseRalphOptions } from "./options.ts";
import { initialRalphState } from "./state.ts";
import { RALPH_SHAPE, planForcedResume, ralphGuard } from "./workflow.ts";

describe("guard", () => {
  const { position: empty } = emptyPlanes({ workflow: "ralph", stage: "begin" });
  const pairs = Object.entries(RALPH_SHAPE.transitions).flatMap(([stage, row]) =>
    Object.keys(row).map((event) => ({ stage, event })),
  );

  test("an iteration is counted only when it is entered, and none beyond the limit", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...pairs),
        fc.nat(9),
        fc.integer({ min: 1, max: 9 }),
        ({ stage, event }, iteration, max) => {
          const position = { ...empty, stage, iteration };
          const guarded = ralphGuard({ maxIterations: max })({ position, result: { event, reason: "so" } });
          const enters = nextStage(RALPH_SHAPE, stage, event) === "iterate";
          // The first one is allowed by every limit.
          if (enters && stage === "begin" && iteration > 0) return;
          const next = nextStage(RALPH_SHAPE, stage, guarded.result.event);
          expect(next === "iterate").toBe(enters && iteration < max);
          expect(guarded.position.iteration).toBe(next === "iterate" ? iteration + 1 : iteration);
          if (enters && next !== "iterate") expect(next).toBe("limit");
        },
      ),
    );
  });
});

describe("reopen", () => {
  const plan = (stage: string, iteration: number, reflected: number, maxIterations = 9, unit = 0) =>
    planForcedResume({
      position: { stage, iteration },
      state: {
        ...initialRalphState,
        unit,
        tries: reflected,
        iterations: Array.from({ length: reflected }, (_, at) => sampleIteration({ number: at + 1 })),
      },
      options: parseRalphOptions({ task: "x", until: "true", maxIterations }),
    });

  test.each([
    ["iterate", 3, 2, { at: 2, begins: null }],
    ["verify", 3, 2, { at: 3, begins: null }],
    ["reflect", 3, 2, { at: 3, begins: null }],
    ["reflect", 3, 3, { at: 3, begins: 4 }],
    ["fatal", 3, 3, { at: 3, begins: 4 }],
    ["fatal", 3, 2, { at: 2, begins: 3 }],
  ] as const)("in %s of iteration %d with %d reflected: %o", (stage, iteration, reflected, { at, begins }) => {
    expect(plan(stage, iteration, reflected)).toEqual({
      values: { tries: 0, interventions: [{ kind: "answered", at, answer: "continue" }] },
      begins,
      why: expect.stringContaining(`up to iteration ${at}`),
    });
  });

  test.each([
    ["it has no evidence yet", plan("iterate", 1, 0)],
    ["it has not started", plan("begin", 0, 0)],
    ["all of its work is done, and was not handed over", plan("fatal", 3, 3, 9, 1)],
    ["a limit is raised, not forced", plan("limit", 3, 3)],
    ["there is no iteration left", plan("fatal", 3, 3, 3)],
  ])("unchanged: %s", (_, found) => expect(found).toBeNull());

  test("a loop that failed in its first iteration starts it again", () => {
    expect(plan("fatal", 1, 0)).toMatchObject({ values: { tries: 0, interventions: [] }, begins: 1 });
  });
});
