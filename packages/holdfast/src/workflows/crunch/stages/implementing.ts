import type { CrunchState } from "../../../core/crunch/crunch-state.ts";
import type { StageResult } from "../../../core/position/workflow.ts";
import { commitPhase } from "../commit-phase.ts";
import { conclude, fail } from "../conclude.ts";
import { enterPhase, findPlace } from "../enter-phase.ts";
import { runPhase } from "../phase/run-phase.ts";
import { whyEmpty } from "../why-empty.ts";
import type { CrunchContext, CrunchWork } from "../work.ts";

/** One round of implementing, with what the end-to-end check said of the round before. */
export async function implementingStage(work: CrunchWork, context: CrunchContext): Promise<StageResult<CrunchState>> {
  const place = await findPlace(work, context);
  await enterPhase(work, context, { place, phase: "implementing" });
  const end = await runPhase(work, context, { phase: "implementing", place });
  if (end.kind === "given_up") return fail(end.reason);
  const { moved } = await commitPhase(context, place, { phase: "implementing", summary: end.summary });
  const empty = await whyEmpty(work, context, { place, phase: "implementing", summary: end.summary });
  if (empty !== null) return fail(empty);
  const what = moved ? "is implemented" : "is implemented without any change to the files";
  return conclude(work.options, {
    stage: "implementing",
    event: "implemented",
    reason: `Round ${context.position.iteration} ${what}${end.remark}`,
    feedback: null,
  });
}
