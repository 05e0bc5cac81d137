import type { PullRequestReview } from "../../ports/forge.ts";

/**
 * Reviews of people that ask for changes and stand: nobody took them back, and the same author has not decided otherwise since. Whoever only
 * comments decides nothing. Those that were heeded before are left out: they stand until their author looks again, which may be never.
 */
export function standingRequests(
  reviews: readonly PullRequestReview[],
  heeded: readonly string[],
): readonly PullRequestReview[] {
  const newest = new Map<string, PullRequestReview>();
  for (const review of reviews) if (review.state !== "commented") newest.set(review.author, review);
  return [...newest.values()].filter(
    ({ id, state, byPerson }) => state === "changes_requested" && byPerson && !heeded.includes(id),
  );
}
