import { readVerification } from "../../../core/ralph/read-verification.ts";
import type { StageResult } from "../../../core/position/workflow.ts";
import { openWorktree, stageTime } from "../../worktree.ts";
import { checkText, commitChecked, hasPassed, runChecks } from "../run-checks.ts";
import type { LoopState } from "../state.ts";
import { tell, unitAtHand } from "../work.ts";
import type { LoopContext, LoopWork } from "../work.ts";

/** Does the criterion hold? Only its commands say so, whatever the agent thinks of its work. */
export async function verifyStage(work: LoopWork, context: LoopContext): Promise<StageResult<LoopState>> {
  const { checks } = unitAtHand(work, context);
  const worktree = await openWorktree(work, context);
  const at = await stageTime(context);
  const ran = await runChecks(work, context, worktree, checks);
  if (ran.length > 0 && ran.every(hasPassed)) await commitChecked(context, worktree, { ran, at });
  const { iteration } = context.position;
  const verification = readVerification({ number: iteration, planned: checks.length, ended: ran });
  await tell(context, { kind: "verified", verification });
  const completed = context.state.answer?.outcome === "completed";
  switch (verification.verdict) {
    case "passed":
      return { event: "verify_pass", reason: ran.map(checkText).join(", ") };
    case "unchecked":
      return completed
        ? { event: "verify_pass", reason: "The agent says that it is done; there is nothing to check it with" }
        : { event: "verify_fail", reason: "The agent failed, and there is nothing to check its work with" };
    case "failed":
    case "not_run":
      return {
        event: "verify_fail",
        reason: ran
          .filter((one) => !hasPassed(one))
          .map(checkText)
          .join(", "),
      };
  }
}
