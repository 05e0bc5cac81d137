import * as z from "zod/mini";
import type { Mergeability, PullRequest } from "../../ports/forge.ts";

export const MERGE_REQUEST = z.object({
  iid: z.number(),
  web_url: z.string(),
  title: z.string(),
  description: z.nullish(z.string()),
  // "locked": it is being merged at this moment.
  state: z.enum(["opened", "closed", "merged", "locked"]),
  draft: z.optional(z.boolean()),
  labels: z.array(z.string()),
  source_branch: z.string(),
  target_branch: z.string(),
  // Of a fork that is gone there is none.
  source_project_id: z.nullish(z.number()),
  target_project_id: z.number(),
  sha: z.nullish(z.string()),
  has_conflicts: z.nullish(z.boolean()),
  detailed_merge_status: z.nullish(z.string()),
  merge_status: z.nullish(z.string()),
});

export type MergeRequest = z.infer<typeof MERGE_REQUEST>;

export function viewMergeRequest(request: MergeRequest): PullRequest {
  const state = stateOf(request);
  return {
    number: request.iid,
    url: request.web_url,
    title: withoutDraft(request.title),
    body: request.description ?? "",
    state,
    draft: isDraft(request),
    head: request.source_branch,
    headCommit: request.sha ?? "",
    base: request.target_branch,
    labels: request.labels,
    mergeability: state === "open" ? mergeabilityOf(request) : "unknown",
  };
}

export function stateOf({ state }: Pick<MergeRequest, "state">): PullRequest["state"] {
  switch (state) {
    case "opened":
    case "locked":
      return "open";
    case "closed":
    case "merged":
      return state;
  }
}

/** At GitLab a draft is one by its title. */
export function draftTitle(title: string, draft: boolean): string {
  return draft ? `Draft: ${withoutDraft(title)}` : title;
}

function isDraft({ draft, title }: Pick<MergeRequest, "draft" | "title">): boolean {
  return draft ?? DRAFT.test(title);
}

/**
 * The detailed status names one reason of several; a conflict counts before all others. Where it is not known (before 15.6) the plain
 * one tells conflicts from the rest.
 */
export function mergeabilityOf(
  request: Pick<MergeRequest, "has_conflicts" | "detailed_merge_status" | "merge_status" | "draft" | "title">,
): Mergeability {
  const { detailed_merge_status: detailed, merge_status: plain } = request;
  if (detailed === "conflict" || detailed === "broken_status") return "conflicting";
  const word = detailed ?? plain ?? "unchecked";
  if (UNDECIDED.has(word)) return "unknown";
  if (request.has_conflicts === true || word === "cannot_be_merged") return "conflicting";
  if (word === "need_rebase") return "behind";
  if (isDraft(request)) return "blocked";
  return word === "mergeable" || word === "can_be_merged" ? "mergeable" : "blocked";
}

const UNDECIDED: ReadonlySet<string> = new Set([
  "checking",
  "unchecked",
  "preparing",
  "approvals_syncing",
  "cannot_be_merged_recheck",
  "cannot_be_merged_rechecking",
]);
const DRAFT = /^(?:\[draft\]|\(draft\)|draft:)\s*/i;

function withoutDraft(title: string): string {
  return title.replace(DRAFT, "");
}
