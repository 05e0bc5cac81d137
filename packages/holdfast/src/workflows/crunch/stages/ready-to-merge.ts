import type { CrunchState } from "../../../core/crunch/crunch-state.ts";
import type { StageResult } from "../../../core/position/workflow.ts";
import { askForge } from "../../publish/forge-answer.ts";
import { openPullRequest } from "../../publish/open-pull-request.ts";
import type { OpenedRequest } from "../../publish/open-pull-request.ts";
import { pushBranch } from "../../publish/push-branch.ts";
import { ANSWER_TO } from "../../publish/push-refusal.ts";
import { commitPhase } from "../commit-phase.ts";
import { conclude, fail } from "../conclude.ts";
import { enterPhase, findPlace } from "../enter-phase.ts";
import type { Place } from "../enter-phase.ts";
import { pullRequestText } from "../pull-request-text.ts";
import { settleRemote } from "../../publish/settle-remote.ts";
import { requireSetup, tell } from "../work.ts";
import type { CrunchContext, CrunchWork } from "../work.ts";

/** Everything is pushed and a pull request is open. Whether it is merged is for people to say. */
export async function readyToMergeStage(work: CrunchWork, context: CrunchContext): Promise<StageResult<CrunchState>> {
  const place = await findPlace(work, context);
  await enterPhase(work, context, { place, phase: "ready-to-merge" });
  const { head } = await commitPhase(context, place, { phase: "ready-to-merge", summary: "" });
  const remote = await settleRemote(context, place.worktree, { head });
  if (remote.kind === "stop") return fail(remote.reason);
  const pushed = await pushBranch(context, place.worktree, { head, expected: remote.expected });
  if (pushed.kind === "refused") {
    const reason = `The push to ${pushed.remote} was refused (${pushed.refusal.cause}): ${pushed.refusal.message.trim()}`;
    if (ANSWER_TO[pushed.refusal.cause] !== "fixable") return fail(reason);
    return { event: "push_refused", reason, feedback: `${reason}.` };
  }
  const opened = await open(work, context, place);
  if (opened.kind === "refused") return fail(opened.reason);
  const { request } = opened;
  await tell(context, "pull-request-opened", { kind: "pull_request_opened", pullRequest: request });
  if (work.options.target === "done") return await awaitMerge(context, place, request);
  const reason = `Pull request #${request.number} is open: ${request.url}`;
  return conclude(work.options, { stage: "ready-to-merge", event: "merged", reason });
}

type Open =
  | { readonly kind: "open"; readonly request: OpenedRequest }
  | { readonly kind: "refused"; readonly reason: string };

async function open(work: CrunchWork, context: CrunchContext, { forge, worktree }: Place): Promise<Open> {
  const { base, issue } = requireSetup(context);
  const opened = await openPullRequest(context, forge, {
    purpose: "pull-request",
    ...pullRequestText(context.state, issue),
    head: worktree.branch.name,
    base: base.branch,
    draft: work.options.draft,
  });
  if (opened.kind === "open") return opened;
  return { kind: "refused", reason: `No pull request could be opened: ${opened.reason}` };
}

/** Parks each time that it is asked and not merged: who resumes has merged it, or finds it parked again. */
async function awaitMerge(
  context: CrunchContext,
  { forge }: Place,
  request: OpenedRequest,
): Promise<StageResult<CrunchState>> {
  const found = await askForge(context, () => forge.getPullRequest(request.number));
  const name = `Pull request #${request.number}`;
  switch (found?.state) {
    case "merged":
      return { event: "merged", reason: `${name} is merged` };
    case "open":
      return await context.park({
        on: "person",
        reason: `${name} is open and waits to be merged: ${request.url}. Merge it, then resume.`,
      });
    case "closed":
      return fail(`${name} was closed without being merged`);
    case undefined:
      return fail(`${name} is not there any more`);
  }
}
