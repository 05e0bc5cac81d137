// The ci stage of impl: polls pull request, checks and reviews until they pass, fail or conflict.

import type { Checks, Forge, PullRequest, PullRequestReview } from "@holdfast/core/forge";
import type { StageResult } from "@holdfast/core/transitions";
import { HoldfastError } from "@holdfast/platform/error";
import { callForge } from "../forge.ts";
import { openWorktree, requireForge } from "../worktree.ts";
import { findWatchedPullRequest, waitForReopening } from "./pull-request.ts";
import { type ImplContext, type ImplDependencies, type ImplState, NO_ISSUE, conclude } from "./state.ts";

const LONGEST_PAUSE_MS = 60_000;

/**
 * Polls until pull request and checks give a result. The pauses are durable: after a restart the run waits only for the
 * remaining time.
 */
export async function ciStage(work: ImplDependencies, context: ImplContext): Promise<StageResult<ImplState>> {
  const { ci } = work.options;
  if (context.state.issue?.number === NO_ISSUE)
    return conclude(context, {
      event: "ci_pass",
      reason: context.position.reason ?? "Without a forge there is no CI to wait for",
      state: context.state,
      feedback: null,
    });
  const forge = await requireForge(work, context);
  const watched = await findWatchedPullRequest(work, context, forge);
  if (watched.kind === "refused")
    return conclude(context, { event: "fatal", reason: watched.reason, state: context.state });
  const state: ImplState = { ...context.state, pullRequest: watched.request };
  if (state.inBase === true && state.pullRequest === null)
    return conclude(context, { event: "ci_pass", reason: "There is no pull request to watch", state, feedback: null });
  let looks = 0;
  // Pauses of an earlier process have elapsed. Replay must still request them, like every finished step, but it does
  // not poll in between.
  for (const done = finishedPauses(context); looks < done; looks += 1)
    await context.sleep(`pause-${looks + 1}`, pause(looks + 1, ci.pollMs));
  for (;;) {
    const decision = await decideOnce(work, context, { forge, state, looks });
    switch (decision.kind) {
      case "pass":
        return conclude(context, { event: "ci_pass", reason: decision.reason, state, feedback: null });
      case "conflict":
        return conclude(context, { event: "ci_conflict", reason: decision.reason, state });
      case "closed":
        return await waitForReopening(context, decision.number);
      case "gone":
        return conclude(context, { event: "fatal", reason: decision.reason, state });
      case "fail": {
        const { reason, feedback } = decision;
        const failing = { gate: decision.appliedReviews.length === 0 ? "ci" : "review", detail: feedback };
        const appliedReviews = [...(state.appliedReviews ?? []), ...decision.appliedReviews];
        return conclude(context, { event: "ci_fail", reason, state: { ...state, failing, appliedReviews }, feedback });
      }
      case "moved": {
        const external = looks === 0 ? null : await externalTip(work, context, state);
        if (external === null) break;
        const reason = `The run's branch on the remote is at ${external}, which this run did not push`;
        return conclude(context, { event: "ci_conflict", reason, state });
      }
      case "wait":
        break;
    }
    if (waited(looks, ci.pollMs) >= ci.timeoutMs) return await context.wait({ for: "ci", reason: decision.reason });
    looks += 1;
    await context.sleep(`pause-${looks}`, pause(looks, ci.pollMs));
  }
}

async function decideOnce(
  work: ImplDependencies,
  context: ImplContext,
  at: { readonly forge: Forge; readonly state: ImplState; readonly looks: number },
): Promise<CiDecision> {
  const { forge, looks } = at;
  const { pullRequest, pushed, appliedReviews = [] } = at.state;
  if (pullRequest === null) return { kind: "gone", reason: "There is no pull request whose checks could be watched" };
  const commit = pushed ?? (await (await openWorktree(work, context)).branch.head());
  return await callForge(context, async () => {
    try {
      // Checks come first: they can take long, and the base may move meanwhile. A pass must mean that the pull request
      // can still be merged.
      const checks = await forge.checks(commit);
      const found = await forge.getPullRequest(pullRequest.number);
      const applies = work.options.applyReviews && found?.state === "open";
      const reviews = applies ? await forge.reviews(pullRequest.number) : [];
      return decideCi({
        pullRequest: found,
        checks,
        requests: openChangeRequests(reviews, appliedReviews),
        commit,
        rebaseWhenBehind: work.options.ci.rebaseWhenBehind,
        noneBefore: looks > 0,
      });
    } catch (error) {
      // One failed poll does not matter, because another follows. If the forge gives a retry time, `callForge` waits
      // for it.
      if (error instanceof HoldfastError && error.code === "FORGE_FAILED" && typeof error.data["until"] !== "string")
        return { kind: "wait", reason: error.message };
      throw error;
    }
  });
}

/**
 * Asks the remote itself, because a forge may lag behind. The rebase stage then asks the user about the tip. null: the
 * remote has only what this run pushed.
 */
async function externalTip(
  work: ImplDependencies,
  context: ImplContext,
  { pushed }: ImplState,
): Promise<string | null> {
  const { branch } = await openWorktree(work, context);
  const found = await branch.lookUpRemote(branch.name);
  return found.kind === "known" && found.commit !== pushed ? found.commit : null;
}

/** The pauses that this stage attempt has finished, in this process or an earlier one. */
function finishedPauses({ position }: ImplContext): number {
  return Object.keys(position.stageAttempt.steps).filter((name) => name.startsWith("pause-")).length;
}

function pause(nth: number, first: number): number {
  return Math.max(first, Math.min(LONGEST_PAUSE_MS, first * 2 ** Math.min(nth - 1, 20)));
}

function waited(pauses: number, first: number): number {
  let sum = 0;
  for (let nth = 1; nth <= pauses; nth += 1) sum += pause(nth, first);
  return sum;
}

type CiDecision =
  | { readonly kind: "pass"; readonly reason: string }
  /** `appliedReviews` holds the ids of the reviews that the feedback includes. */
  | {
      readonly kind: "fail";
      readonly reason: string;
      readonly feedback: string;
      readonly appliedReviews: readonly string[];
    }
  | { readonly kind: "conflict"; readonly reason: string }
  | { readonly kind: "closed"; readonly reason: string; readonly number: number }
  /** The pull request does not exist. */
  | { readonly kind: "gone"; readonly reason: string }
  /**
   * The head of the pull request is not the pushed commit: the forge lags behind, or another user pushed to the branch.
   */
  | { readonly kind: "moved"; readonly reason: string }
  | { readonly kind: "wait"; readonly reason: string };

/**
 * Decides what pull request, checks and reviews mean for the run. A conflict takes precedence: passing checks do not
 * make such a branch mergeable, and some forges do not even start them.
 */
export function decideCi(params: {
  readonly pullRequest: PullRequest | null;
  readonly checks: Checks;
  /** Change requests that the run has not handled yet. */
  readonly requests: readonly PullRequestReview[];
  readonly commit: string;
  readonly rebaseWhenBehind: boolean;
  /** Whether an earlier poll found no checks either. Right after a push the forge may not list them yet. */
  readonly noneBefore: boolean;
}): CiDecision {
  const { pullRequest, checks } = params;
  if (pullRequest === null) return { kind: "gone", reason: "The pull request is not there any more" };
  const name = `Pull request #${pullRequest.number}`;
  if (pullRequest.state === "merged") return { kind: "pass", reason: `${name} is merged` };
  if (pullRequest.state === "closed")
    return { kind: "closed", reason: `${name} was closed without being merged`, number: pullRequest.number };
  if (pullRequest.headCommit !== params.commit)
    return {
      kind: "moved",
      reason: `${name} is at ${short(pullRequest.headCommit)}, not at the pushed ${short(params.commit)}`,
    };
  const { mergeability } = pullRequest;
  // No check outweighs a person's change request, so the run does not wait for checks.
  if (params.requests.length > 0 && mergeability !== "conflicting") return byRequests(params, name);
  switch (mergeability) {
    case "conflicting":
      return { kind: "conflict", reason: `${name} conflicts with ${pullRequest.base}` };
    case "behind":
      if (params.rebaseWhenBehind) return { kind: "conflict", reason: `${name} is behind ${pullRequest.base}` };
      return byChecks(params, name);
    case "unknown":
      // A failed check decides without knowing the mergeability.
      return checks.state === "failed"
        ? byChecks(params, name)
        : { kind: "wait", reason: `The forge does not know yet whether ${name} can be merged` };
    case "mergeable":
    // A blocked pull request waits for people, such as for an approval. The run cannot fix that.
    case "blocked":
      return byChecks(params, name);
  }
}

function byChecks(params: { readonly checks: Checks; readonly noneBefore: boolean }, name: string): CiDecision {
  const { checks } = params;
  switch (checks.state) {
    case "passed":
      return { kind: "pass", reason: `All checks of ${name} passed` };
    case "none":
      if (params.noneBefore) return { kind: "pass", reason: `${name} has no checks` };
      return { kind: "wait", reason: `${name} has no checks yet` };
    case "pending":
      return { kind: "wait", reason: `Checks of ${name} are pending: ${namesOf(checks, "pending")}` };
    case "failed": {
      const reason = `Checks of ${name} failed: ${namesOf(checks, "failed")}`;
      return { kind: "fail", reason, feedback: [`${reason}.`, ...failures(checks)].join("\n\n"), appliedReviews: [] };
    }
  }
}

function byRequests(
  { requests, checks }: { readonly requests: readonly PullRequestReview[]; readonly checks: Checks },
  name: string,
): CiDecision {
  const authors = requests.map(({ author }) => author).join(", ");
  const reason = `Changes of ${name} were asked for by ${authors}`;
  const comments = requests.map(({ author, body }) => `${author}:\n${body.trim() || "(no comment)"}`);
  const failed =
    checks.state === "failed" ? [`Checks failed, too: ${namesOf(checks, "failed")}.`, ...failures(checks)] : [];
  const feedback = [`${reason}.`, ...comments, ...failed].join("\n\n");
  return { kind: "fail", reason, feedback, appliedReviews: requests.map(({ id }) => id) };
}

function failures(checks: Checks): readonly string[] {
  return checks.runs
    .filter((run) => run.state === "failed")
    .map((run) => `${run.name}${run.url === null ? "" : ` (${run.url})`}:\n${run.summary.trim()}`);
}

function namesOf(checks: Checks, state: "pending" | "failed"): string {
  return (
    checks.runs
      .filter((run) => run.state === state)
      .map((run) => run.name)
      .join(", ") || "unnamed"
  );
}

function short(commit: string): string {
  return commit.slice(0, 10);
}

/**
 * Returns people's reviews whose newest decision per author requests changes. Dismissed reviews do not count, and a
 * comment decides nothing. Reviews that the run has already handled are left out: they remain open until their author
 * reviews again, which may never happen.
 */
export function openChangeRequests(
  reviews: readonly PullRequestReview[],
  appliedReviews: readonly string[],
): readonly PullRequestReview[] {
  const newest = new Map<string, PullRequestReview>();
  for (const review of reviews) if (review.state !== "commented") newest.set(review.author, review);
  return [...newest.values()].filter(
    ({ id, state, byPerson }) => state === "changes_requested" && byPerson && !appliedReviews.includes(id),
  );
}
