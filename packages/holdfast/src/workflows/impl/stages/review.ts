import { counterOf } from "../../../core/position/counters.ts";
import type { StageResult } from "../../../core/position/workflow.ts";
import { conclude } from "../history.ts";
import { outputFiles } from "../output-files.ts";
import { parseReviewReply } from "../review-reply.ts";
import type { ReviewReply } from "../review-reply.ts";
import { reviewPrompt } from "../review-prompt.ts";
import { reviewReport } from "../review-report.ts";
import { judgeReview, reviewFeedback, reviewReason } from "../review-verdict.ts";
import { requireSetup } from "../state.ts";
import type { ImplState } from "../state.ts";
import { OUTPUT_DIRECTORY, openWorktree, prettyJson } from "../../worktree.ts";
import type { ImplContext, ImplWork } from "../work.ts";
import type { Worktree } from "../../worktree.ts";

const DIFF_BYTES = 200_000;

/** Scores the whole change since the base. What fails goes back into the next implementation prompt. */
export async function reviewStage(work: ImplWork, context: ImplContext): Promise<StageResult<ImplState>> {
  const { position, state } = context;
  const { maxReviews, onMaxReviews, thresholds } = work.options;
  if (counterOf(position.attempts, "review") >= maxReviews) {
    const event = onMaxReviews === "proceed" ? "review_pass" : "fatal";
    const reason = `${maxReviews} reviews have failed, which is the limit${event === "fatal" ? "" : "; going on without a review that passed"}`;
    return conclude(context, { event, reason, state, ...(event === "fatal" ? {} : { feedback: null }) });
  }
  const worktree = await openWorktree(work, context);
  const { iteration } = position;
  const { reply, text } = await askReviewer(work, context, worktree);
  const review = judgeReview({ reply, thresholds, iteration });
  await worktree.outputs.write(outputFiles.reviewOutput(iteration), text);
  await worktree.outputs.write(outputFiles.review(iteration), prettyJson(reviewReport(review)));
  const failing = { gate: "review", detail: reviewFeedback(review, thresholds) };
  return conclude(context, {
    event: review.pass ? "review_pass" : "review_fail",
    reason: reviewReason(review, thresholds),
    state: { ...state, reviews: [...state.reviews, review], failing: review.pass ? null : failing },
    feedback: review.pass ? null : failing.detail,
    score: review.score,
  });
}

/** A reply that cannot be read is asked for once more; a second one counts as a failed review, with that reason and no score. */
async function askReviewer(
  work: ImplWork,
  context: ImplContext,
  worktree: Worktree,
): Promise<{ readonly reply: ReviewReply; readonly text: string }> {
  const first = await ask(work, context, worktree, { name: "reviewer", unreadable: null });
  if (first.reply.kind === "read") return first;
  const unreadable = { reply: first.text, why: first.reply.why };
  return await ask(work, context, worktree, { name: "reviewer-again", unreadable });
}

async function ask(
  { options }: ImplWork,
  context: ImplContext,
  { branch }: Worktree,
  params: { readonly name: string; readonly unreadable: { readonly reply: string; readonly why: string } | null },
): Promise<{ readonly reply: ReviewReply; readonly text: string }> {
  const { issue, base, templates } = requireSetup(context.state);
  const diff = await branch.diffSince({ from: base.commit, exclude: [OUTPUT_DIRECTORY], maxBytes: DIFF_BYTES });
  const report = await context.agent({
    name: params.name,
    role: "review",
    prompt: reviewPrompt({
      template: templates.review,
      issue,
      thresholds: options.thresholds,
      diff,
      base: base.commit,
      unreadable: params.unreadable,
      fence: context.fence(params.name),
    }),
    model: options.reviewModel ?? options.implModel,
    yolo: options.yolo,
    ...(options.agentTimeoutMs === null ? {} : { timeoutMs: options.agentTimeoutMs }),
    changesFiles: false,
    // A reviewer that failed has judged nothing: the implementer has no reason to work again.
    mustAnswer: true,
  });
  if (report.outcome === "completed") return { reply: parseReviewReply(report.text), text: report.text };
  const why = `the reviewer failed (${report.cause ?? "unknown cause"}): ${report.message ?? "it said nothing"}`;
  return { reply: { kind: "unreadable", why }, text: report.text };
}
