import type { StageResult } from "../../../core/position/workflow.ts";
import { commitWork } from "../../commit-work.ts";
import { outputFiles } from "../output-files.ts";
import type { ImplState } from "../state.ts";
import { bestToReturnTo } from "../return-to-best.ts";
import { stuckReport } from "../stuck-report.ts";
import { OUTPUT_DIRECTORY, openWorktree, prettyJson, stageTime } from "../../worktree.ts";
import type { ImplContext, ImplWork } from "../work.ts";

const DIFF_BYTES = 200_000;

/** Hands over the best there was: its files when reviews went nowhere, and a report in any case. */
export async function fatalStage(work: ImplWork, context: ImplContext): Promise<StageResult<ImplState>> {
  const { position, state } = context;
  const reason = position.reason ?? "The run gave up without a reason";
  if (context.workspace === undefined) return { event: "fatal", reason };
  const worktree = await openWorktree(work, context);
  const { branch, outputs } = worktree;
  const at = await stageTime(context);
  const returnedTo = bestToReturnTo(position, state);
  if (returnedTo !== null) {
    const before = await context.step("head", () => branch.head());
    await context.restoreFiles("best", { sequence: returnedTo.sequence });
    const message = `Issue #${state.issue?.number ?? 0}: back to the best-reviewed state (${returnedTo.score})\n`;
    await commitWork(context, worktree, { step: "commit", message, before, at });
  }
  const diff =
    state.base === null
      ? null
      : await branch.diffSince({ from: state.base.commit, exclude: [OUTPUT_DIRECTORY], maxBytes: DIFF_BYTES });
  const report = stuckReport({ position, state, reason, at, diff, returnedTo });
  await outputs.write(outputFiles.fatal(Date.parse(at)), prettyJson(report.json));
  await outputs.write(outputFiles.stuckReport, report.text);
  return { event: "fatal", reason, state: { ...state, stuckReport: report.text } };
}
