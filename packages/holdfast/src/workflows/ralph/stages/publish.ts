import type { StageResult } from "../../../core/position/workflow.ts";
import { askForge } from "../../publish/forge-answer.ts";
import { openPullRequest } from "../../publish/open-pull-request.ts";
import { pushBranch } from "../../publish/push-branch.ts";
import { ANSWER_TO } from "../../publish/push-refusal.ts";
import { settleRemote } from "../../publish/settle-remote.ts";
import { openWorktree, requireForge } from "../../worktree.ts";
import type { Worktree } from "../../worktree.ts";
import { loopReport } from "../loop-report.ts";
import { outputFiles } from "../output-files.ts";
import { pullRequestText } from "../pull-request-text.ts";
import type { LoopState } from "../state.ts";
import type { LoopContext, LoopWork } from "../work.ts";

/** What a loop that is done leaves: commits on its branch, and where that is asked for a pull request. */
export async function publishStage(work: LoopWork, context: LoopContext): Promise<StageResult<LoopState>> {
  const worktree = await openWorktree(work, context);
  const { state, position } = context;
  const done = position.reason ?? "The criterion holds";
  const head = await context.step("head", () => worktree.branch.head());
  await worktree.outputs.write(outputFiles.report, loopReport({ state, reason: done, options: work.options }));
  if (head === state.began) return { event: "published", reason: `${done}; no file had to be changed` };
  if (!work.options.pullRequest)
    return { event: "published", reason: `${done}; the commits are on ${worktree.branch.name}` };
  return await publish(work, context, { worktree, head, done });
}

async function publish(
  work: LoopWork,
  context: LoopContext,
  params: { readonly worktree: Worktree; readonly head: string; readonly done: string },
): Promise<StageResult<LoopState>> {
  const { worktree, head } = params;
  const { state, inputs } = context;
  const forge = await requireForge(work, context);
  const remote = await settleRemote(context, worktree, { head });
  if (remote.kind === "stop") return { event: "fatal", reason: remote.reason };
  const pushed = await pushBranch(context, worktree, { head, expected: remote.expected });
  if (pushed.kind === "refused") {
    const reason = `The push to ${pushed.remote} was refused (${pushed.refusal.cause}): ${pushed.refusal.message.trim()}`;
    if (ANSWER_TO[pushed.refusal.cause] !== "fixable") return { event: "fatal", reason };
    // All of its work was done; now the last piece of it is at hand once more.
    const again: LoopState = { ...state, unit: Math.max(0, state.unit - 1), tries: 0 };
    return { event: "push_refused", reason, state: again, feedback: `${reason}. Mend what it says.` };
  }
  const after: LoopState = { ...state, pushed: pushed.commit };
  const opened = await openPullRequest(context, forge, {
    purpose: "pull-request",
    ...pullRequestText({ state, issue: inputs.issue, options: work.options }),
    head: worktree.branch.name,
    base: state.base?.branch ?? (await askForge(context, () => forge.defaultBranch())),
    draft: work.options.draft,
  });
  if (opened.kind === "nothing_new")
    return { event: "fatal", reason: `No pull request could be opened: ${opened.reason}`, state: after };
  const { request } = opened;
  const reason = `${params.done}. Pull request #${request.number} is open: ${request.url}`;
  return { event: "published", reason, state: { ...after, pullRequest: request } };
}
