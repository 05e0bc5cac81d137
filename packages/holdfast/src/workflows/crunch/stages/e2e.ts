import type { CrunchState } from "../../../core/crunch/crunch-state.ts";
import type { StageResult } from "../../../core/position/workflow.ts";
import { runGateCommand } from "../../gate-command.ts";
import { commitPhase } from "../commit-phase.ts";
import { conclude, fail } from "../conclude.ts";
import { enterPhase, findPlace } from "../enter-phase.ts";
import { runPhase } from "../phase/run-phase.ts";
import type { CrunchContext, CrunchWork } from "../work.ts";

/** Does it work as a whole? The user's own command says so first, then those of the team who check. What fails goes back to be implemented. */
export async function e2eStage(work: CrunchWork, context: CrunchContext): Promise<StageResult<CrunchState>> {
  const place = await findPlace(work, context);
  await enterPhase(work, context, { place, phase: "e2e" });
  const { gate } = work.options;
  const verdict = await runGateCommand(work, context, place.worktree, { gate, commitAt: place.at });
  if (verdict.kind === "failed") return { event: "e2e_fail", reason: verdict.reason, feedback: verdict.detail };
  const end = await runPhase(work, context, { phase: "e2e", place });
  if (end.kind === "given_up") return fail(end.reason);
  await commitPhase(context, place, { phase: "e2e", summary: end.summary });
  if (end.failing !== null) return { event: "e2e_fail", reason: end.failing.reason, feedback: end.failing.detail };
  const checked = gate === null ? "The team's checks passed" : "The gate command and the team's checks passed";
  return conclude(work.options, { stage: "e2e", event: "e2e_pass", reason: checked + end.remark, feedback: null });
}
