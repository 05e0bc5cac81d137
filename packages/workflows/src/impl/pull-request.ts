// The pr stage of impl: pushes the branch, opens or adopts its pull request, and writes its title and body.

import { readAccepted } from "@holdfast/core/findings";
import type { Forge, PullRequest } from "@holdfast/core/forge";
import { isJsonObject } from "@holdfast/core/json";
import type { StageResult } from "@holdfast/core/transitions";
import { type PushOutcome, REFUSAL_RESPONSE, fetchRemote, pushBranch } from "../branch.ts";
import { callForge, closesIssue } from "../forge.ts";
import { type OpenedRequest, openPullRequest, updatePullRequestText } from "../pull-request.ts";
import { formBody, formTitle, inCode } from "../pull-request-text.ts";
import { NO_FACTS } from "../repository-facts.ts";
import { type Worktree, openWorktree, prettyJson, requireForge, stageHead } from "../worktree.ts";
import { outputFiles } from "./layout.ts";
import {
  type Conclusion,
  type ImplContext,
  type ImplDependencies,
  type ImplState,
  NO_ISSUE,
  conclude,
  requireSetup,
} from "./state.ts";

type Existing = Pick<PullRequest, "number" | "url" | "state" | "headCommit" | "title" | "body">;

/** Pushes the branch and opens its pull request, or adopts an existing one. */
export async function pullRequestStage(work: ImplDependencies, context: ImplContext): Promise<StageResult<ImplState>> {
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

async function publish(work: ImplDependencies, context: ImplContext, worktree: Worktree): Promise<Conclusion> {
  const { state } = context;
  const { branch } = worktree;
  const { issue, base } = requireSetup(state);
  if (issue.number === NO_ISSUE) return await leaveBranch(context, worktree);
  const forge = await requireForge(work, context);
  const head = await stageHead(context, branch);
  const existing = await findExisting(context, forge, branch.name);
  const settled = await alreadySettled(context, forge, { existing, head });
  if (settled !== null) return settled;
  const contained = await callForge(context, () =>
    context.step("in-base", () => isInBase(worktree, base.branch, head), {
      title: "comparing the branch with its base",
    }),
  );
  if (contained) return await askAboutBase(context, `${base.branch} on the remote already contains ${head}`);

  const pushed = await pushBranch(context, worktree, { head, expected: state.pushed });
  if (pushed.kind === "refused") return refusedPush(pushed, state);

  const after: ImplState = { ...state, pushed: pushed.commit };
  const words = pullRequestText(work, context);
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

/** Without a forge the branch is the result. Nothing is pushed or merged: the user decides where it goes. */
async function leaveBranch(context: ImplContext, { branch }: Worktree): Promise<Conclusion> {
  const remote = await context.step("remote", async () => (await branch.pushRemote())?.name ?? null, {
    title: "looking for the remote",
  });
  const next =
    remote === null ? `Merge it with: git merge ${branch.name}` : `Push it with: git push -u ${remote} ${branch.name}`;
  const reason = `The branch ${branch.name} is ready. ${next}`;
  return { event: "pr_pass", reason, state: { ...context.state, failing: null }, feedback: null };
}

async function findExisting(context: ImplContext, forge: Forge, head: string): Promise<Existing | null> {
  return await callForge(context, () =>
    context.step(
      "existing",
      async () => {
        const found = await forge.findPullRequest(head);
        if (found === null) return null;
        const { number, url, state, headCommit, title, body } = found;
        return { number, url, state, headCommit, title, body };
      },
      { title: "looking for the pull request" },
    ),
  );
}

async function isInBase({ branch }: Worktree, base: string, head: string): Promise<boolean> {
  await fetchRemote(branch);
  const tip = await branch.remoteBranch(base);
  return tip !== null && (await branch.isAncestor({ ancestor: head, of: tip }));
}

/**
 * There is nothing to open a pull request for; an agent may have pushed to the base itself. The user decides whether
 * that is the result.
 */
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
 * Handles a pull request that is no longer open. A merged one ends the run. For a closed one the run waits for the
 * user, who reopens it or accepts a new one. One of an earlier run, from other commits, is ignored.
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
  // The user may have reopened it while the run waited.
  const now = await callForge(context, () => forge.getPullRequest(existing.number));
  return now?.state === "open" ? null : await waitForReopening(context, existing.number);
}

function refusedPush({ refusal, remote }: Extract<PushOutcome, { kind: "refused" }>, state: ImplState): Conclusion {
  const reason = `The push to ${remote} was refused (${refusal.cause}): ${refusal.message.trim()}`;
  switch (REFUSAL_RESPONSE[refusal.cause]) {
    case "rebase":
      return { event: "pr_fail_need_rebase", reason, state };
    case "fail":
      return { event: "fatal", reason, state };
    case "fixable":
    case "wait":
      return {
        event: "pr_fail_fixable",
        reason,
        state: { ...state, failing: { gate: "push", detail: reason } },
        feedback: `${reason}.`,
      };
  }
}

/**
 * Updates the text of the run's own pull request. Another person's keeps its text and only gets the line that closes
 * the issue.
 */
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
    return await updatePullRequestText(context, forge, { number, ...words });
  if (closesIssue(existing.body, issue)) return;
  const body = `${existing.body.trim()}\n\nCloses #${issue}`.trim();
  await updatePullRequestText(context, forge, { number, title: existing.title, body });
}

function passed(request: OpenedRequest, state: ImplState, reason: string): Conclusion {
  return { event: "pr_pass", reason, state: { ...state, pullRequest: request, failing: null }, feedback: null };
}

/** The text of the pull request in the form that the repository uses, else with the seed's title `[tag][#N] words`. */
function pullRequestText(
  work: ImplDependencies,
  context: ImplContext,
): { readonly title: string; readonly body: string } {
  const { state, run } = context;
  const { tags, attribution } = work.options;
  const { issue } = requireSetup(state);
  const { titles, template } = state.repository ?? NO_FACTS;
  return {
    title: formTitle({
      proposed: state.finalize?.title ?? null,
      otherwise: issue.title,
      issue: issue.number,
      form: titles.form ?? "numbered",
      tags: [...tags, ...titles.tags],
    }),
    body: formBody({
      words: state.finalize?.body ?? "",
      template: template?.text ?? null,
      tested: describeChecks(state),
      issue: issue.number,
      madeBy: attribution ? run.id : null,
    }),
  };
}

/** What was checked, as far as Holdfast knows it. What an agent says about its tests is in its own words. */
function describeChecks({ gate, reviews }: Pick<ImplState, "gate" | "reviews">): readonly string[] {
  const review = reviews.at(-1);
  const score = review?.score == null ? "" : ` (score ${review.score})`;
  return [
    gate === undefined
      ? "Holdfast ran no tests: no gate command is configured."
      : `${inCode(gate.command)} ${gate.passed ? "passed" : "failed"}${gate.rebased === true ? ", before the last rebase" : ""}.`,
    ...(review === undefined ? [] : [`An agent's last review ${review.pass ? "passed" : "failed"}${score}.`]),
  ];
}

type Watched =
  | { readonly kind: "watched"; readonly request: OpenedRequest | null }
  | { readonly kind: "refused"; readonly reason: string };

/**
 * Returns the pull request to watch. If one was closed and the user accepted that, a new one replaces it. The closed
 * state is read once and recorded: if the old one is reopened later, the stage must not forget the new one.
 */
export async function findWatchedPullRequest(
  work: ImplDependencies,
  context: ImplContext,
  forge: Forge,
): Promise<Watched> {
  let request = context.state.pullRequest;
  for (let nth = 1; request !== null; nth += 1) {
    const { number } = request;
    const step = `closed-${nth}`;
    if (!isCloseAccepted(context, number) && !Object.hasOwn(context.position.stageAttempt.steps, step)) break;
    const isClosed = async () => (await forge.getPullRequest(number))?.state === "closed";
    if (!(await callForge(context, () => context.step(step, isClosed)))) break;
    const { base } = requireSetup(context.state);
    const { branch } = await openWorktree(work, context);
    const opened = await openPullRequest(context, forge, {
      purpose: `another-${nth}`,
      ...pullRequestText(work, context),
      head: branch.name,
      base: base.branch,
      draft: work.options.draft,
    });
    if (opened.kind === "nothing_new")
      return {
        kind: "refused",
        reason: `No pull request could be opened in the place of #${number}: ${opened.reason}`,
      };
    request = opened.request;
  }
  return { kind: "watched", request };
}

/** Makes the run wait for the user, who can reopen the pull request, accept a new one or end the run. */
export async function waitForReopening(context: ImplContext, number: number): Promise<never> {
  const { id } = context.run;
  return await context.wait({
    for: "you",
    reason: `Pull request #${number} was closed without being merged. Reopen it and run \`holdfast resume ${id}\`, let the run open another one with \`holdfast resume ${id} --accept pull_request_closed\`, or end it with \`holdfast stop ${id} --now\`.`,
  });
}

/** Whether the user saw that this pull request is closed and accepted it. */
function isCloseAccepted({ extensions }: Pick<ImplContext, "extensions">, number: number): boolean {
  const { pull_request_closed: accepted } = readAccepted(extensions);
  return isJsonObject(accepted) && accepted["number"] === number;
}
