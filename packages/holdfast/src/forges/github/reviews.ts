import * as z from "zod/mini";
import type { PullRequestReview } from "../../ports/forge.ts";
import { reviewText } from "../review-text.ts";
import { hiddenWrite } from "./issues.ts";
import { requirePull } from "./pulls.ts";
import { repositoryPath, type GithubPlace } from "./repository.ts";

/** With what they say on lines of files, which GitHub keeps apart. What nobody has handed in yet is no review. */
export async function readReviews(place: GithubPlace, number: number): Promise<readonly PullRequestReview[]> {
  const path = `${repositoryPath(place)}/pulls/${number}`;
  const reviews = await place.api.list(`${path}/reviews`, REVIEW);
  const remarks = reviews === null || reviews.length === 0 ? [] : await place.api.list(`${path}/comments`, REMARK);
  if (reviews === null || remarks === null) {
    await requirePull(place, number);
    throw hiddenWrite(place, `read the reviews of pull request ${number}`);
  }
  return reviews.flatMap((review) => {
    const state = STATES.get(review.state);
    if (state === undefined) return [];
    const own = remarks.filter(({ pull_request_review_id: of }) => of === review.id);
    const lines = own.map(({ path: file, line, original_line: was, body }) => ({
      file,
      line: line ?? was ?? null,
      body,
    }));
    return [
      {
        id: String(review.id),
        author: review.user?.login ?? "ghost",
        byPerson: review.user?.type !== "Bot",
        state,
        body: reviewText(review.body ?? "", lines),
        commit: review.commit_id ?? null,
        at: review.submitted_at ?? null,
      },
    ];
  });
}

/** Left out is PENDING: its author is still writing, and only the author sees it. */
const STATES: ReadonlyMap<string, PullRequestReview["state"]> = new Map([
  ["APPROVED", "approved"],
  ["CHANGES_REQUESTED", "changes_requested"],
  ["COMMENTED", "commented"],
  ["DISMISSED", "dismissed"],
]);

const REVIEW = z.object({
  id: z.number(),
  // null: an account that is gone.
  user: z.nullish(z.object({ login: z.string(), type: z.optional(z.string()) })),
  body: z.nullish(z.string()),
  state: z.string(),
  commit_id: z.nullish(z.string()),
  submitted_at: z.nullish(z.string()),
});
const REMARK = z.object({
  pull_request_review_id: z.nullish(z.number()),
  path: z.string(),
  // null: the line is not in the diff any more.
  line: z.nullish(z.number()),
  original_line: z.nullish(z.number()),
  body: z.string(),
});
