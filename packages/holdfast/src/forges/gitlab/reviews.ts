import * as z from "zod/mini";
import type { PullRequestReview } from "../../ports/forge.ts";
import { reviewText } from "../review-text.ts";
import { hiddenWrite, type GitlabPlace } from "./project.ts";
import { requireSubject, subjectOf } from "./subject.ts";

/**
 * GitLab has no list of reviews. That somebody approved or asked for changes is a note of the system's own, with a number and a time; what
 * they had to say are notes of theirs before it, those on lines of files included. Whether an approval still counts, only the list of approvals tells.
 */
export async function readReviews(place: GitlabPlace, number: number): Promise<readonly PullRequestReview[]> {
  const { name, path } = subjectOf(place, { pullRequest: number });
  const notes = await place.api.list(`${path}/notes?sort=asc&order_by=created_at`, NOTE);
  const approvals = await place.api.read(`${path}/approvals`, APPROVALS);
  if (notes === null || approvals === null) {
    await requireSubject(place, { pullRequest: number });
    throw hiddenWrite(place, `read the reviews of ${name}`);
  }
  return viewReviews(notes, new Set(approvals.approved_by.map(({ user }) => user.username)));
}

/** `notes`: oldest first. `approvers`: whose approval counts. Threads that were resolved are settled, and not told again. */
export function viewReviews(notes: readonly Note[], approvers: ReadonlySet<string>): readonly PullRequestReview[] {
  const said = new Map<string, Note[]>();
  const reviews: PullRequestReview[] = [];
  const tell = (note: Note, state: PullRequestReview["state"], words: readonly Note[]): void => {
    const { id, author, created_at: at } = note;
    const remarks = words.flatMap(({ position, body }) =>
      position === null || position === undefined
        ? []
        : [
            {
              file: position.new_path ?? position.old_path ?? "?",
              line: position.new_line ?? position.old_line ?? null,
              body,
            },
          ],
    );
    const own = words.flatMap(({ position, body }) =>
      position === null || position === undefined ? [body.trim()] : [],
    );
    const body = reviewText(own.join("\n\n"), remarks);
    const commit = words.find(({ position }) => position?.head_sha !== undefined)?.position?.head_sha ?? null;
    reviews.push({
      id: String(id),
      author: author.username,
      byPerson: !BOT.test(author.username),
      state,
      body,
      commit,
      at,
    });
  };
  for (const note of notes) {
    const { username } = note.author;
    const decided = note.system ? DECISIONS.get(note.body.trim()) : undefined;
    if (decided !== undefined) {
      tell(note, decided === "approved" && !approvers.has(username) ? "dismissed" : decided, said.get(username) ?? []);
      said.delete(username);
    } else if (!note.system && note.resolved !== true) said.set(username, [...(said.get(username) ?? []), note]);
  }
  for (const words of said.values()) for (const note of words) tell(note, "commented", [note]);
  return reviews;
}

/** GitLab's own words, the same in every language. */
const DECISIONS: ReadonlyMap<string, PullRequestReview["state"]> = new Map([
  ["approved this merge request", "approved"],
  ["unapproved this merge request", "dismissed"],
  ["requested changes", "changes_requested"],
]);

/** Accounts of projects and groups, for their tokens, and those of GitLab itself. */
const BOT = /^(?:project|group)_\d+_bot|^(?:ghost|support-bot|alert-bot|GitLabDuo)$/;

const POSITION = z.object({
  head_sha: z.optional(z.string()),
  new_path: z.nullish(z.string()),
  old_path: z.nullish(z.string()),
  new_line: z.nullish(z.number()),
  old_line: z.nullish(z.number()),
});
const NOTE = z.object({
  id: z.number(),
  body: z.string(),
  system: z.boolean(),
  author: z.object({ username: z.string() }),
  created_at: z.string(),
  resolved: z.nullish(z.boolean()),
  position: z.nullish(POSITION),
});
type Note = z.infer<typeof NOTE>;
const APPROVALS = z.object({ approved_by: z.array(z.object({ user: z.object({ username: z.string() }) })) });
