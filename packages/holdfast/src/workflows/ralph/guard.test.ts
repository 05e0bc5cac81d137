import fc from "fast-check";
import { expect, test } from "vitest";
import { emptyPlanes } from "../../core/checkpoint/checkpoint.ts";
import { nextStage } from "../../core/position/transition.ts";
import { ralphGuard } from "./guard.ts";
import { RALPH_SHAPE } from "./workflow-shape.ts";

const { position: empty } = emptyPlanes({ workflow: "ralph", stage: "begin" });
const pairs = Object.entries(RALPH_SHAPE.transitions).flatMap(([stage, row]) =>
  Object.keys(row).map((event) => ({ stage, event })),
);

test("an iteration is counted where it is entered and nowhere else, and none beyond the limit is", () => {
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
