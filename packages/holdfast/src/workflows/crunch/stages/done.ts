import type { CrunchState } from "../../../core/crunch/crunch-state.ts";
import type { StageResult } from "../../../core/position/workflow.ts";
import { requireForge, stageTime } from "../../worktree.ts";
import { keepResolution } from "../phase/keep-knowledge.ts";
import { setStateLabel } from "../set-state-label.ts";
import { requireSetup, tell } from "../work.ts";
import type { CrunchContext, CrunchWork } from "../work.ts";

/** The pull request is merged: the issue says so, and what was learnt is kept. */
export async function doneStage(work: CrunchWork, context: CrunchContext): Promise<StageResult<CrunchState>> {
  const forge = await requireForge(work, context);
  const { issue } = requireSetup(context);
  await setStateLabel(context, forge, { issue: issue.number, phase: "done" });
  const at = await stageTime(context);
  await tell(context, "phase-entered", { kind: "phase_entered", phase: "done", at });
  await keepResolution(context, at);
  return { event: "done", reason: context.position.reason ?? "Done" };
}
