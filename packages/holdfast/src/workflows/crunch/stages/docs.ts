import type { CrunchState } from "../../../core/crunch/crunch-state.ts";
import type { StageResult } from "../../../core/position/workflow.ts";
import { commitPhase } from "../commit-phase.ts";
import { conclude, fail } from "../conclude.ts";
import { enterPhase, findPlace } from "../enter-phase.ts";
import { runPhase } from "../phase/run-phase.ts";
import { whyEmpty } from "../why-empty.ts";
import type { CrunchContext, CrunchWork } from "../work.ts";

/** What was built is written down for those who use it. */
export async function docsStage(work: CrunchWork, context: CrunchContext): Promise<StageResult<CrunchState>> {
  const place = await findPlace(work, context);
  await enterPhase(work, context, { place, phase: "docs" });
  const end = await runPhase(work, context, { phase: "docs", place });
  if (end.kind === "given_up") return fail(end.reason);
  const { moved } = await commitPhase(context, place, { phase: "docs", summary: end.summary });
  const empty = await whyEmpty(work, context, { place, phase: "docs", summary: end.summary });
  if (empty !== null) return fail(empty);
  const reason = `${moved ? "The documents are up to date" : "The documents need no change"}${end.remark}`;
  return conclude(work.options, { stage: "docs", event: "documented", reason });
}
