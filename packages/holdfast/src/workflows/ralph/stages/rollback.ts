import type { StageResult } from "../../../core/position/workflow.ts";
import { openWorktree } from "../../worktree.ts";
import { returnToBest } from "../hand-over.ts";
import type { LoopState } from "../state.ts";
import { tell } from "../work.ts";
import type { LoopContext, LoopWork } from "../work.ts";

/** Back to the files of the best iteration, with a prompt that says what did not work since. */
export async function rollbackStage(work: LoopWork, context: LoopContext): Promise<StageResult<LoopState>> {
  const { state, position } = context;
  const { best } = state;
  const why = position.reason ?? "The loop is stuck";
  if (best === null) return { event: "fatal", reason: `${why}, and there is no iteration to go back to` };
  const worktree = await openWorktree(work, context);
  if (!(await returnToBest(work.parts, context, worktree, best)))
    return { event: "fatal", reason: `${why}, and the checkpoint of iteration ${best.iteration} is gone` };
  const intervention = { kind: "rolled_back", at: position.iteration, to: best.iteration } as const;
  await tell(context, { kind: "intervened", intervention });
  return {
    event: "went_back",
    reason: `The files are those of iteration ${best.iteration} again`,
    feedback: `${why}. The files were put back to those of iteration ${best.iteration}; what iterations ${best.iteration + 1} to ${position.iteration} tried is gone. It did not work: take another way, not the same one again.`,
  };
}
