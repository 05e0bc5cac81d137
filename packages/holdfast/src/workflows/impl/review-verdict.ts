import { DIMENSIONS } from "./options.ts";
import type { Dimension, ImplOptions } from "./options.ts";
import type { ReviewReply } from "./review-reply.ts";
import type { Review, Scores } from "./state.ts";

/** Every dimension must reach its threshold; the overall score decides nothing here. */
export function judgeReview(params: {
  readonly reply: ReviewReply;
  readonly thresholds: ImplOptions["thresholds"];
  readonly iteration: number;
}): Review {
  const { reply, iteration, thresholds } = params;
  if (reply.kind === "unreadable") {
    const finding = `The reviewer's reply could not be read: ${reply.why}`;
    return { iteration, pass: false, score: null, scores: null, findings: [finding], suggestions: [] };
  }
  const short = shortOf(reply.scores, thresholds);
  const suggestions =
    short.length > 0 && reply.suggestions.length === 0
      ? [`Raise the review scores to their thresholds: ${shortText(reply.scores, thresholds)}`]
      : reply.suggestions;
  const { score, scores, findings } = reply;
  return { iteration, pass: short.length === 0, score, scores, findings, suggestions };
}

export function reviewReason(review: Review, thresholds: ImplOptions["thresholds"]): string {
  if (review.scores === null) return review.findings[0] ?? "The reviewer's reply could not be read";
  if (review.pass) return `The review passed with ${review.score ?? 0}`;
  return `The review failed with ${review.score ?? 0}: ${shortText(review.scores, thresholds)}`;
}

/** What the next implementation prompt is told. */
export function reviewFeedback(review: Review, thresholds: ImplOptions["thresholds"]): string {
  const list = (title: string, items: readonly string[]): readonly string[] =>
    items.length === 0 ? [] : [title, ...items.map((item) => `- ${item}`)];
  return [
    `${reviewReason(review, thresholds)}.`,
    ...list("Suggestions:", review.suggestions),
    ...list("Findings:", review.findings),
  ].join("\n");
}

export function thresholdsText(thresholds: ImplOptions["thresholds"]): string {
  return DIMENSIONS.map((dimension) => `${spelled(dimension)} ${thresholds[dimension]}`).join(", ");
}

/** As the report file and the reviewer's JSON spell it. */
export function spelled(dimension: Dimension): string {
  return dimension === "cornerCases" ? "corner_cases" : dimension;
}

function shortOf(scores: Scores, thresholds: ImplOptions["thresholds"]): readonly Dimension[] {
  return DIMENSIONS.filter((dimension) => scores[dimension] < thresholds[dimension]);
}

function shortText(scores: Scores, thresholds: ImplOptions["thresholds"]): string {
  return shortOf(scores, thresholds)
    .map((dimension) => `${spelled(dimension)}=${scores[dimension]}<${thresholds[dimension]}`)
    .join(", ");
}
