import type { Checks, Forge, PullRequest, PullRequestReview } from "@holdfast/core/forge";
import type { StageResult } from "@holdfast/core/transitions";
import { HoldfastError } from "@holdfast/platform/error";
import { callForge } from "../forge.ts";
import { openWorktree, requireForge } from "../worktree.ts";
import { findWatchedPullRequest, waitForReopening } from "./pull-request.ts";
import { type ImplContext, type ImplDependencies, type ImplState, conclude } from "./state.ts";

const LONGEST_PAUSE_MS = 60_000;

/** Looks until pull request and checks say something. The pauses are durable: a restart waits only for the rest. */
export async function ciStage(work: ImplDependencies, context: ImplContext): Promise<StageResult<ImplState>> {
  const { ci } = work.options;
  const forge = await requireForge(work, context);
  const watched = await findWatchedPullRequest(work, context, forge);
  if (watched.kind === "refused")
    return conclude(context, { event: "fatal", reason: watched.reason, state: context.state });
  const state: ImplState = { ...context.state, pullRequest: watched.request };
  if (state.inBase === true && state.pullRequest === null)
    return conclude(context, { event: "ci_pass", reason: "There is no pull request to watch", state, feedback: null });
  let looks = 0;
  // Pauses of an earlier process are over: they are asked for, as every finished step must be, but nothing is looked at in between.
  for (const done = finishedPauses(context); looks < done; looks += 1)
    await context.sleep(`pause-${looks + 1}`, pause(looks + 1, ci.pollMs));
  for (;;) {
    const decision = await look(work, context, { forge, state, looks });
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
        const failing = { gate: decision.heeded.length === 0 ? "ci" : "review", detail: feedback };
        const heeded = [...(state.heeded ?? []), ...decision.heeded];
        return conclude(context, { event: "ci_fail", reason, state: { ...state, failing, heeded }, feedback });
      }
      case "moved": {
        const foreign = looks === 0 ? null : await foreignTip(work, context, state);
        if (foreign === null) break;
        const reason = `The run's branch on the remote is at ${foreign}, which this run did not push`;
        return conclude(context, { event: "ci_conflict", reason, state });
      }
      case "wait":
        break;
    }
    if (waited(looks, ci.pollMs) >= ci.timeoutMs) return await context.park({ on: "ci", reason: decision.reason });
    looks += 1;
    await context.sleep(`pause-${looks}`, pause(looks, ci.pollMs));
  }
}

async function look(
  work: ImplDependencies,
  context: ImplContext,
  at: { readonly forge: Forge; readonly state: ImplState; readonly looks: number },
): Promise<CiDecision> {
  const { forge, looks } = at;
  const { pullRequest, pushed, heeded = [] } = at.state;
  if (pullRequest === null) return { kind: "gone", reason: "There is no pull request whose checks could be watched" };
  const commit = pushed ?? (await (await openWorktree(work, context)).branch.head());
  return await callForge(context, async () => {
    try {
      // Checks first: they can take long, and the base may move meanwhile. What passes is what could be merged afterwards.
      const checks = await forge.checks(commit);
      const found = await forge.getPullRequest(pullRequest.number);
      const heeds = work.options.heedReviews && found?.state === "open";
      const reviews = heeds ? await forge.reviews(pullRequest.number) : [];
      return decideCi({
        pullRequest: found,
        checks,
        requests: openChangeRequests(reviews, heeded),
        commit,
        rebaseWhenBehind: work.options.ci.rebaseWhenBehind,
        noneBefore: looks > 0,
      });
    } catch (error) {
      // One look that fails is nothing: there will be another. A time that the forge names is waited for.
      if (error instanceof HoldfastError && error.code === "FORGE_FAILED" && typeof error.data["until"] !== "string")
        return { kind: "wait", reason: error.message };
      throw error;
    }
  });
}

/** Asked of the remote itself: a forge may be late. The rebase stage then asks the user about it. null: nothing that this run did not push. */
async function foreignTip(work: ImplDependencies, context: ImplContext, { pushed }: ImplState): Promise<string | null> {
  const { branch } = await openWorktree(work, context);
  const found = await branch.lookUpRemote(branch.name);
  return found.kind === "known" && found.commit !== pushed ? found.commit : null;
}

/** What this visit has already waited, in this process or one before. */
function finishedPauses({ position }: ImplContext): number {
  return Object.keys(position.visit.steps).filter((name) => name.startsWith("pause-")).length;
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
  /** `heeded`: the reviews that the feedback tells of. */
  | { readonly kind: "fail"; readonly reason: string; readonly feedback: string; readonly heeded: readonly string[] }
  | { readonly kind: "conflict"; readonly reason: string }
  | { readonly kind: "closed"; readonly reason: string; readonly number: number }
  /** There is no such pull request. */
  | { readonly kind: "gone"; readonly reason: string }
  /** Its head is not the commit that was pushed: the forge is late, or others pushed to the branch. */
  | { readonly kind: "moved"; readonly reason: string }
  | { readonly kind: "wait"; readonly reason: string };

/**
 * What a look at pull request and checks means. A conflict comes first: a branch that cannot be merged gains nothing from green checks, and some
 * forges do not even start them.
 */
export function decideCi(params: {
  readonly pullRequest: PullRequest | null;
  readonly checks: Checks;
  /** That ask for changes and were not heeded yet. */
  readonly requests: readonly PullRequestReview[];
  readonly commit: string;
  readonly rebaseWhenBehind: boolean;
  /** Has an earlier look found no checks, either? Right after a push they may not be listed yet. */
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
      reason: `${name} stands at ${short(pullRequest.headCommit)}, not at the pushed ${short(params.commit)}`,
    };
  const { mergeability } = pullRequest;
  // No check makes up for what a person asked for, and none is waited for.
  if (params.requests.length > 0 && mergeability !== "conflicting") return byRequests(params, name);
  switch (mergeability) {
    case "conflicting":
      return { kind: "conflict", reason: `${name} conflicts with ${pullRequest.base}` };
    case "behind":
      if (params.rebaseWhenBehind) return { kind: "conflict", reason: `${name} is behind ${pullRequest.base}` };
      return byChecks(params, name);
    case "unknown":
      // A failure needs no answer to that question.
      return checks.state === "failed"
        ? byChecks(params, name)
        : { kind: "wait", reason: `The forge does not know yet whether ${name} can be merged` };
    case "mergeable":
    // Blocked waits for people (an approval), which is not ours to mend.
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
      return { kind: "fail", reason, feedback: [`${reason}.`, ...failures(checks)].join("\n\n"), heeded: [] };
    }
  }
}

function byRequests(
  { requests, checks }: { readonly requests: readonly PullRequestReview[]; readonly checks: Checks },
  name: string,
): CiDecision {
  const authors = requests.map(({ author }) => author).join(", ");
  const reason = `Changes of ${name} were asked for by ${authors}`;
  const said = requests.map(({ author, body }) => `${author}:\n${body.trim() || "(without a word)"}`);
  const failed =
    checks.state === "failed" ? [`Checks failed, too: ${namesOf(checks, "failed")}.`, ...failures(checks)] : [];
  const feedback = [`${reason}.`, ...said, ...failed].join("\n\n");
  return { kind: "fail", reason, feedback, heeded: requests.map(({ id }) => id) };
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
 * Reviews of people that ask for changes and stand: nobody took them back, and the same author has not decided otherwise since. Whoever only
 * comments decides nothing. Those that were heeded before are left out: they stand until their author looks again, which may be never.
 */
export function openChangeRequests(
  reviews: readonly PullRequestReview[],
  heeded: readonly string[],
): readonly PullRequestReview[] {
  const newest = new Map<string, PullRequestReview>();
  for (const review of reviews) if (review.state !== "commented") newest.set(review.author, review);
  return [...newest.values()].filter(
    ({ id, state, byPerson }) => state === "changes_requested" && byPerson && !heeded.includes(id),
  );
}
