import type { StageResult } from "../../../core/position/workflow.ts";
import type { Forge, PullRequest } from "../../../ports/forge.ts";
import { unreachable } from "../../publish/find-base.ts";
import { askForge } from "../../publish/forge-answer.ts";
import { conclude } from "../history.ts";
import type { Conclusion } from "../history.ts";
import { openPullRequest, rewordPullRequest } from "../../publish/open-pull-request.ts";
import { outputFiles } from "../output-files.ts";
import { closes } from "../../publish/closing-body.ts";
import { bodyOf, titleOf } from "../pull-request-text.ts";
import { pushBranch } from "../../publish/push-branch.ts";
import type { Pushed } from "../../publish/push-branch.ts";
import { ANSWER_TO } from "../../publish/push-refusal.ts";
import { isCloseAccepted, parkClosed } from "../replace-request.ts";
import { requireSetup } from "../state.ts";
import type { ImplState } from "../state.ts";
import type { OpenedRequest } from "../../publish/open-pull-request.ts";
import { openWorktree, prettyJson, requireForge } from "../../worktree.ts";
import type { ImplContext, ImplWork } from "../work.ts";
import type { Worktree } from "../../worktree.ts";

type Existing = Pick<PullRequest, "number" | "url" | "state" | "headCommit" | "title" | "body">;

/** Pushes the branch and opens its pull request, or goes on with the one that is there. */
export async function prStage(work: ImplWork, context: ImplContext): Promise<StageResult<ImplState>> {
  const worktree = await openWorktree(work, context);
  const conclusion = await publish(work, context, worktree);
  const { event, reason, state } = conclusion;
  const report = {
    event,
    pass: event === "pr_pass",
    reason,
    details: conclusion.feedback ?? "",
    pr_number: state.pullRequest === null ? null : String(state.pullRequest.number),
    pr_url: state.pullRequest?.url ?? null,
    branch: worktree.branch.name,
    push_remote: (await worktree.branch.pushRemote())?.name ?? null,
    base_branch: state.base?.branch ?? null,
  };
  await worktree.outputs.write(outputFiles.pullRequest(context.position.iteration), prettyJson(report));
  return conclude(context, conclusion);
}

async function publish(work: ImplWork, context: ImplContext, worktree: Worktree): Promise<Conclusion> {
  const { state } = context;
  const { branch } = worktree;
  const { issue, base } = requireSetup(state);
  const forge = await requireForge(work, context);
  const head = await context.step("head", () => branch.head());
  const existing = await findExisting(context, forge, branch.name);
  const settled = await alreadySettled(context, forge, { existing, head });
  if (settled !== null) return settled;
  const contained = await askForge(context, () => context.step("in-base", () => isInBase(worktree, base.branch, head)));
  if (contained) return await askAboutBase(context, `${base.branch} on the remote already contains ${head}`);

  const pushed = await pushBranch(context, worktree, { head, expected: state.pushed });
  if (pushed.kind === "refused") return refusedPush(pushed, state);

  const after: ImplState = { ...state, pushed: pushed.commit };
  const words = { title: titleOf(state.finalize, issue, work.options.tags), body: bodyOf(state.finalize, issue) };
  const opened = await openPullRequest(context, forge, {
    purpose: "pull-request",
    ...words,
    head: branch.name,
    base: base.branch,
    draft: work.options.draft,
  });
  if (opened.kind === "nothing_new") return await askAboutBase(context, opened.reason);
  if (existing?.state === "open") await reword(context, forge, { existing, words, issue: issue.number });
  return passed(opened.request, after, `Pull request #${opened.request.number} is open: ${opened.request.url}`);
}

async function findExisting(context: ImplContext, forge: Forge, head: string): Promise<Existing | null> {
  return await askForge(context, () =>
    context.step("existing", async () => {
      const found = await forge.findPullRequest(head);
      if (found === null) return null;
      const { number, url, state, headCommit, title, body } = found;
      return { number, url, state, headCommit, title, body };
    }),
  );
}

async function isInBase({ branch }: Worktree, base: string, head: string): Promise<boolean> {
  const fetched = await branch.fetch();
  if (fetched.kind === "failed")
    throw unreachable((await branch.remote())?.name ?? "of this repository", fetched.refusal);
  const tip = await branch.remoteBranch(base);
  return tip !== null && (await branch.isAncestor({ ancestor: head, of: tip }));
}

/** There is nothing to open a pull request for: an agent may have pushed to the base itself. What that means is for the user to say. */
async function askAboutBase(context: ImplContext, why: string): Promise<Conclusion> {
  const { state } = context;
  const answer = await context.decide({
    name: "work-in-base",
    question: `There is nothing to open a pull request for: ${why}. This run has not pushed there. Accept that as the result, or stop?`,
    options: ["accept", "stop"],
  });
  if (answer === "stop") return { event: "fatal", reason: `Stopped by you: ${why}`, state };
  const reason = `Accepted by you without a pull request: ${why}`;
  return { event: "pr_pass", reason, state: { ...state, inBase: true, failing: null }, feedback: null };
}

/**
 * Merged meanwhile: done. Closed meanwhile: the run waits for the user, who reopens it or accepts another one. One of an earlier run, from other commits,
 * is neither.
 */
async function alreadySettled(
  context: ImplContext,
  forge: Forge,
  { existing, head }: { readonly existing: Existing | null; readonly head: string },
): Promise<Conclusion | null> {
  if (existing === null || existing.state === "open") return null;
  const { state } = context;
  const ours =
    existing.number === state.pullRequest?.number ||
    (existing.state === "merged" && [head, state.pushed].includes(existing.headCommit));
  if (!ours) return null;
  const name = `Pull request #${existing.number}`;
  if (existing.state === "merged")
    return passed({ number: existing.number, url: existing.url }, state, `${name} is merged already`);
  if (isCloseAccepted(context, existing.number)) return null;
  // It may have been reopened while the run waited.
  const now = await askForge(context, () => forge.getPullRequest(existing.number));
  return now?.state === "open" ? null : await parkClosed(context, existing.number);
}

function refusedPush({ refusal, remote }: Extract<Pushed, { kind: "refused" }>, state: ImplState): Conclusion {
  const reason = `The push to ${remote} was refused (${refusal.cause}): ${refusal.message.trim()}`;
  switch (ANSWER_TO[refusal.cause]) {
    case "rebase":
      return { event: "pr_fail_need_rebase", reason, state };
    case "fatal":
      return { event: "fatal", reason, state };
    case "fixable":
    case "park":
      return {
        event: "pr_fail_fixable",
        reason,
        state: { ...state, failing: { gate: "push", detail: reason } },
        feedback: `${reason}.`,
      };
  }
}

/** Ours gets the new words. Another person's keeps its own, and only learns which issue it closes. */
async function reword(
  context: ImplContext,
  forge: Forge,
  params: {
    readonly existing: Existing;
    readonly words: { readonly title: string; readonly body: string };
    readonly issue: number;
  },
): Promise<void> {
  const { existing, words, issue } = params;
  const { number } = existing;
  if (context.state.pullRequest?.number === number)
    return await rewordPullRequest(context, forge, { number, ...words });
  if (closes(existing.body, issue)) return;
  const body = `${existing.body.trim()}\n\nCloses #${issue}`.trim();
  await rewordPullRequest(context, forge, { number, title: existing.title, body });
}

function passed(request: OpenedRequest, state: ImplState, reason: string): Conclusion {
  return { event: "pr_pass", reason, state: { ...state, pullRequest: request, failing: null }, feedback: null };
}
