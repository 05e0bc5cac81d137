import * as z from "zod/mini";
import type { Mergeability, PullRequest } from "../../ports/forge.ts";

/** A pull request as GitHub has it. Lists leave out what has to be reckoned: merged, mergeable. */
export const PULL = z.object({
  number: z.number(),
  html_url: z.string(),
  title: z.string(),
  body: z.nullish(z.string()),
  state: z.enum(["open", "closed"]),
  draft: z.optional(z.boolean()),
  labels: z.array(z.object({ name: z.string() })),
  merged_at: z.nullish(z.string()),
  mergeable: z.nullish(z.boolean()),
  mergeable_state: z.nullish(z.string()),
  // A fork that is gone leaves its repository empty, and the label behind.
  head: z.object({ ref: z.string(), sha: z.string(), label: z.nullish(z.string()) }),
  base: z.object({ ref: z.string() }),
});

export type GithubPull = z.infer<typeof PULL>;

export function viewPull(pull: GithubPull): PullRequest {
  const { number, title, body, head, base, draft = false } = pull;
  const state = stateOf(pull);
  return {
    number,
    url: pull.html_url,
    title,
    body: body ?? "",
    state,
    draft,
    head: head.ref,
    headCommit: head.sha,
    base: base.ref,
    labels: pull.labels.map((label) => label.name),
    mergeability: state === "open" ? mergeabilityOf(pull) : "unknown",
  };
}

export function stateOf(pull: Pick<GithubPull, "state" | "merged_at">): PullRequest["state"] {
  return pull.merged_at !== null && pull.merged_at !== undefined ? "merged" : pull.state;
}

/**
 * GitHub says "dirty" for a conflict and "draft" before anything but a conflict. "unstable" and "has_hooks" can be merged: what is
 * red there is not required. While `mergeable` is null it is still reckoning, whatever the other word was the last time.
 */
export function mergeabilityOf(pull: Pick<GithubPull, "mergeable" | "mergeable_state" | "draft">): Mergeability {
  const { mergeable, mergeable_state: word } = pull;
  if (mergeable === false || word === "dirty") return "conflicting";
  if (mergeable === null || mergeable === undefined) return "unknown";
  if (pull.draft === true) return "blocked";
  switch (word) {
    case "clean":
    case "unstable":
    case "has_hooks":
      return "mergeable";
    case "behind":
      return "behind";
    case "blocked":
    case "draft":
      return "blocked";
    default:
      return "unknown";
  }
}
