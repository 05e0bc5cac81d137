import { expect, test } from "vitest";
import { planReopening } from "./reopen.ts";
import { sampleIteration } from "./loop-sample.ts";
import { parseRalphOptions } from "./options.ts";
import { initialRalphState } from "./state.ts";

const plan = (stage: string, iteration: number, reflected: number, maxIterations = 9, unit = 0) =>
  planReopening({
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
    values: { tries: 0, interventions: [{ kind: "answered", at, answer: "go-on" }] },
    begins,
    why: expect.stringContaining(`up to iteration ${at}`),
  });
});

test.each([
  ["nothing was held against it yet", plan("iterate", 1, 0)],
  ["it has not begun", plan("begin", 0, 0)],
  ["all of its work is done, and was not handed over", plan("fatal", 3, 3, 9, 1)],
  ["a limit is raised, not forced", plan("limit", 3, 3)],
  ["there is no iteration left", plan("fatal", 3, 3, 3)],
])("as it stood: %s", (_, found) => expect(found).toBeNull());

test("what gave up in its first iteration begins it anew", () => {
  expect(plan("fatal", 1, 0)).toMatchObject({ values: { tries: 0, interventions: [] }, begins: 1 });
});
