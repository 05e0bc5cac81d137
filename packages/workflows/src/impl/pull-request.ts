// The pr stage of impl: pushes the branch, opens or adopts its pull request, and writes its title and body.

import { readAccepted } from "@holdfast/core/findings";
import type { Forge, PullRequest } from "@holdfast/core/forge";
import { isJsonObject } from "@holdfast/core/json";
import type { StageResult } from "@holdfast/core/transitions";
import { type PushOutcome, REFUSAL_RESPONSE, pushBranch, unreachable } from "../branch.ts";
import { callForge, closesIssue, closingBody } from "../forge.ts";
import { type OpenedRequest, openPullRequest, updatePullRequestText } from "../pull-request.ts";
import { type Worktree, openWorktree, prettyJson, requireForge } from "../worktree.ts";
import { outputFiles } from "./layout.ts";
import {
  type Conclusion,
  type ImplContext,
  type ImplDependencies,
  type ImplState,
  type Issue,
  type PullRequestProposal,
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
  const forge = await requireForge(work, context);
  const head = await context.step("head", () => branch.head());
  const existing = await findExisting(context, forge, branch.name);
  const settled = await alreadySettled(context, forge, { existing, head });
  if (settled !== null) return settled;
  const contained = await callForge(context, () =>
    context.step("in-base", () => isInBase(worktree, base.branch, head)),
  );
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
  return await callForge(context, () =>
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

/**
 * The title of the pull request, `[tag][#N] description`, from the agent's proposal if it is usable, else from the
 * issue's title. Every proposal yields a title, so a bad title never costs an agent call.
 */
export function titleOf(finalize: PullRequestProposal | null, issue: Issue, tags: readonly string[]): string {
  const proposed = readProposal(oneLine(finalize?.title ?? ""), tags);
  const words = proposed.words || oneLine(issue.title) || "Implementation";
  const start = `[${proposed.tag ?? tags[0] ?? "feat"}][#${issue.number}] `;
  return `${start}${cut(words, MAX_TITLE - start.length)}`;
}

/** The proposed body without the title line, closing this issue. */
export function bodyOf(finalize: PullRequestProposal | null, issue: Issue): string {
  return closingBody(finalize?.body ?? "", issue.number);
}

/** GitHub accepts 256 characters, GitLab 255. */
const MAX_TITLE = 255;

/**
 * Ignores the issue number in a proposal, because the run knows its issue. Drops an unknown tag only in the form
 * `[tag][#N]`.
 */
function readProposal(line: string, tags: readonly string[]): { readonly tag: string | null; readonly words: string } {
  const known = (name: string | undefined): string | null =>
    tags.find((tag) => tag.toLowerCase() === name?.trim().toLowerCase()) ?? null;
  const full = /^\[([^\]]*)\]\s*\[#?\d+\]\s*(.*)$/.exec(line);
  if (full !== null) return { tag: known(full[1]), words: full[2] ?? "" };
  const numbered = /^\[#?\d+\]\s*(.*)$/.exec(line);
  if (numbered !== null) return { tag: null, words: numbered[1] ?? "" };
  const tagged = /^\[([^\]]*)\]\s*(.*)$/.exec(line);
  if (tagged !== null && known(tagged[1]) !== null) return { tag: known(tagged[1]), words: tagged[2] ?? "" };
  const conventional = /^([a-z.]+)(?:\([^)]*\))?!?:\s+(.*)$/i.exec(line);
  const type = conventional?.[1] === "fix" ? "bugfix" : conventional?.[1];
  if (known(type) !== null) return { tag: known(type), words: conventional?.[2] ?? "" };
  return { tag: null, words: line };
}

/**
 * Returns one line without control characters and without the Markdown or label that some agents put around a title.
 */
function oneLine(text: string): string {
  return text
    .replaceAll(/[\p{Cc}\p{Zl}\p{Zp}\s]+/gu, " ")
    .trim()
    .replace(/^#{1,6}\s+/, "")
    .replace(/^(?:\*\*)?(?:PR )?title:?(?:\*\*)?:?\s+(?=\S)/i, "")
    .replace(/^(\*\*|["'`])(.+)\1$/, "$2")
    .toWellFormed()
    .trim();
}

function cut(words: string, most: number): string {
  if (words.length <= most) return words;
  const kept = words.slice(0, most - 1).replace(/\p{Cs}$/u, "");
  return `${kept.trimEnd()}…`;
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
    const { issue, base } = requireSetup(context.state);
    const { branch } = await openWorktree(work, context);
    const opened = await openPullRequest(context, forge, {
      purpose: `another-${nth}`,
      title: titleOf(context.state.finalize, issue, work.options.tags),
      body: bodyOf(context.state.finalize, issue),
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
