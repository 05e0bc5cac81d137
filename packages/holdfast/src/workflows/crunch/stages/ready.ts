import type { CrunchState } from "../../../core/crunch/crunch-state.ts";
import type { StageResult } from "../../../core/position/workflow.ts";
import { conclude } from "../conclude.ts";
import { enterPhase, findPlace } from "../enter-phase.ts";
import { requireSetup } from "../work.ts";
import type { CrunchContext, CrunchWork } from "../work.ts";

/** Nobody works here: what stands is that the issue can be implemented, for those who look at its label. */
export async function readyStage(work: CrunchWork, context: CrunchContext): Promise<StageResult<CrunchState>> {
  await enterPhase(work, context, { place: await findPlace(work, context), phase: "ready" });
  const { issue } = requireSetup(context);
  return conclude(work.options, {
    stage: "ready",
    event: "accepted",
    reason: `Issue #${issue.number} is ready to be implemented`,
  });
}
