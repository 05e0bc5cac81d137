import type { Budget } from "../position/position.ts";
import { detectBurn } from "./detect-burn.ts";
import { detectOscillation } from "./detect-oscillation.ts";
import { detectRegression } from "./detect-regression.ts";
import { detectStuck } from "./detect-stuck.ts";
import type { LoopFinding } from "./finding.ts";
import type { BestIteration, Iteration } from "./iteration.ts";
import type { Failing } from "./metrics.ts";
import type { Detection } from "./options.ts";
import type { Intervention } from "./state.ts";

/**
 * All that is wrong with the course of the loop after its newest iteration. One that passed has nothing wrong. Only iterations of the same unit are
 * compared, and for stuck and oscillation only those since somebody last intervened.
 */
export function detect(params: {
  /** With the newest, which is last. */
  readonly iterations: readonly Iteration[];
  readonly failing: Failing;
  /** Before the newest. */
  readonly best: BestIteration | null;
  readonly interventions: readonly Intervention[];
  readonly detection: Detection;
  readonly budget: Budget;
}): readonly LoopFinding[] {
  const { iterations, best, interventions, detection } = params;
  const newest = iterations.at(-1);
  if (newest === undefined || newest.verdict === "passed") return [];
  const unit = iterations.filter((one) => one.unit === newest.unit);
  const since = interventions.at(-1)?.at ?? 0;
  const fresh = unit.filter((one) => one.number > since);
  return [
    detection.stuck === null ? null : detectStuck(fresh, detection.stuck),
    detection.oscillation === null ? null : detectOscillation(fresh, detection.oscillation),
    detection.regression === null
      ? null
      : detectRegression({ iterations: unit, best, failing: params.failing, points: detection.regression }),
    detection.burn === null ? null : detectBurn({ iterations: unit, budget: params.budget, window: detection.burn }),
  ].filter((finding) => finding !== null);
}
