import type { StageResult } from "../../../core/position/workflow.ts";
import { openWorktree } from "../../worktree.ts";
import { bestToReturnTo, returnToBest } from "../hand-over.ts";
import { loopReport } from "../loop-report.ts";
import { outputFiles } from "../output-files.ts";
import type { LoopState } from "../state.ts";
import type { LoopContext, LoopWork } from "../work.ts";

/** Hands over the best there was, and a report of the whole course. */
export async function giveUpStage(work: LoopWork, context: LoopContext): Promise<StageResult<LoopState>> {
  const { position, state } = context;
  const reason = position.reason ?? "The loop gave up without a reason";
  const event = position.stage === "limit" ? "limit_reached" : "fatal";
  if (context.workspace === undefined) return { event, reason };
  const worktree = await openWorktree(work, context);
  const best = bestToReturnTo(state);
  if (best !== null && !(await returnToBest(work.parts, context, worktree, best)))
    await context.note(
      `The checkpoint of iteration ${best.iteration} is gone: the files stay those of the last iteration`,
    );
  await worktree.outputs.write(outputFiles.report, loopReport({ state, reason, options: work.options }));
  return { event, reason };
}
