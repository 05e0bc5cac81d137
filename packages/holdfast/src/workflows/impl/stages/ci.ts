import { HoldfastError } from "../../../core/error.ts";
import type { StageResult } from "../../../core/position/workflow.ts";
import type { Forge } from "../../../ports/forge.ts";
import { decideCi } from "../ci-decision.ts";
import type { CiDecision } from "../ci-decision.ts";
import { askForge } from "../../publish/forge-answer.ts";
import { conclude } from "../history.ts";
import { parkClosed, watchedRequest } from "../replace-request.ts";
import { standingRequests } from "../standing-requests.ts";
import type { ImplState } from "../state.ts";
import { openWorktree, requireForge } from "../../worktree.ts";
import type { ImplContext, ImplWork } from "../work.ts";

const LONGEST_PAUSE_MS = 60_000;

/** Looks until pull request and checks say something. The pauses are durable: a restart waits only for the rest. */
export async function ciStage(work: ImplWork, context: ImplContext): Promise<StageResult<ImplState>> {
  const { ci } = work.options;
  const forge = await requireForge(work, context);
  const watched = await watchedRequest(work, context, forge);
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
        return await parkClosed(context, decision.number);
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
  work: ImplWork,
  context: ImplContext,
  at: { readonly forge: Forge; readonly state: ImplState; readonly looks: number },
): Promise<CiDecision> {
  const { forge, looks } = at;
  const { pullRequest, pushed, heeded = [] } = at.state;
  if (pullRequest === null) return { kind: "gone", reason: "There is no pull request whose checks could be watched" };
  const commit = pushed ?? (await (await openWorktree(work, context)).branch.head());
  return await askForge(context, async () => {
    try {
      // Checks first: they can take long, and the base may move meanwhile. What passes is what could be merged afterwards.
      const checks = await forge.checks(commit);
      const found = await forge.getPullRequest(pullRequest.number);
      const heeds = work.options.heedReviews && found?.state === "open";
      const reviews = heeds ? await forge.reviews(pullRequest.number) : [];
      return decideCi({
        pullRequest: found,
        checks,
        requests: standingRequests(reviews, heeded),
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
async function foreignTip(work: ImplWork, context: ImplContext, { pushed }: ImplState): Promise<string | null> {
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
