// GitLab merge requests: creating, finding, merging, mergeability and reviews.

import * as z from "zod/mini";
import type { Mergeability, NewPullRequest, PullRequest, PullRequestReview } from "@holdfast/core/forge";
import { HoldfastError } from "@holdfast/platform/error";
import { writeOnce } from "./api.ts";
import { hasMarker, keepMarkers, requireText, reviewText, truncateBody, withMarker } from "./body-text.ts";
import {
  type GitlabProject,
  MAX_BODY_LENGTH,
  confirmAbsent,
  projectName,
  projectPath,
  readProject,
  requireSubject,
  subjectPaths,
  writeDenied,
} from "./gitlab-issues.ts";

export async function findMergeRequest(place: GitlabProject, head: string): Promise<PullRequest | null> {
  const all = await listRequests(place, head);
  const found = all.find((request) => stateOf(request) === "open") ?? all[0];
  // Only a request for the single merge request computes its status.
  return found === undefined ? null : await getMergeRequest(place, found.iid);
}

export async function getMergeRequest(place: GitlabProject, number: number): Promise<PullRequest | null> {
  const found = await place.api.read(pathOf(place, number), MERGE_REQUEST);
  return found === null ? await confirmAbsent(place) : viewMergeRequest(found);
}

/**
 * Refuses merge requests that GitLab would accept without use: of a branch that does not exist or has no new commits.
 */
export async function createMergeRequest(place: GitlabProject, request: NewPullRequest): Promise<PullRequest> {
  requireText("title", request.title);
  const description = truncateBody(request.body, MAX_BODY_LENGTH, (text) => withMarker(text, request.key));
  const made = await findMade(place, request);
  if (made !== null) return made;
  await requireNews(place, request);
  // A merge request is created in its source project.
  const path = `${projectPath(place.head)}/merge_requests`;
  const body = {
    source_branch: request.head,
    target_branch: request.base,
    title: draftTitle(request.title, request.draft),
    description,
    ...(place.head === place.project ? {} : { target_project_id: (await readProject(place)).id }),
  };
  return await writeOnce(place.api, {
    request: { method: "POST", path, body },
    done: (answer, what) => viewMergeRequest(place.api.parse(answer, MERGE_REQUEST, what)),
    find: () => findMade(place, request),
    async hidden() {
      await readProject(place);
      return writeDenied(place, "create a merge request");
    },
    async refused({ message }) {
      // Another call with the same key was faster, or this one succeeded a moment ago.
      const there = await findMade(place, request);
      if (there !== null) return there;
      const found = await findMergeRequest(place, request.head);
      if (found?.state === "open") return exists(place, found);
      return refused(`no merge request can be made in ${projectName(place)}: ${message}`, {
        hint: "Look at the project's rules for merge requests.",
        data: { why: "refused" },
      });
    },
  });
}

export async function updateMergeRequest(
  place: GitlabProject,
  number: number,
  change: { readonly title?: string; readonly body?: string },
): Promise<PullRequest> {
  if (change.title !== undefined) requireText("title", change.title);
  const before = await requireRequest(place, number);
  const title = change.title ?? before.title;
  const body =
    change.body === undefined
      ? before.body
      : truncateBody(change.body, MAX_BODY_LENGTH, (text) => keepMarkers(text, before.body));
  if (title === before.title && body === before.body) return before;
  const path = pathOf(place, number);
  const wanted = { title: draftTitle(title, before.draft), description: body };
  return await writeOnce(place.api, {
    request: { method: "PUT", path, body: wanted },
    done: (answer, what) => viewMergeRequest(place.api.parse(answer, MERGE_REQUEST, what)),
    async find() {
      const after = await requireRequest(place, number);
      return after.title === title && after.body === body ? after : null;
    },
    hidden: () => writeDenied(place, `change merge request ${number}`),
    refused: ({ message }) =>
      refused(`merge request ${number} in ${projectName(place)} cannot be changed: ${message}`, {
        hint: "Look at the title and the body that were asked for.",
        data: { why: "change_refused", number },
      }),
  });
}

async function requireRequest(place: GitlabProject, number: number): Promise<PullRequest> {
  const request = await getMergeRequest(place, number);
  if (request !== null) return request;
  throw refused(`there is no merge request ${number} in ${projectName(place)}`, {
    hint: "Name another number.",
    data: { why: "pull_missing", number },
  });
}

async function findMade(place: GitlabProject, request: NewPullRequest): Promise<PullRequest | null> {
  const all = await listRequests(place, request.head);
  const made = all.find(({ description }) => hasMarker(description ?? "", request.key));
  return made === undefined ? null : await getMergeRequest(place, made.iid);
}

/**
 * Newest first, and only from the project that receives our branches: other projects may have a branch of the same
 * name.
 */
async function listRequests(place: GitlabProject, head: string): Promise<readonly MergeRequest[]> {
  const query = `state=all&order_by=created_at&sort=desc&source_branch=${encodeURIComponent(head)}`;
  const path = `${projectPath(place.project)}/merge_requests?${query}`;
  const all = (await place.api.list(path, MERGE_REQUEST)) ?? (await confirmAbsent(place)) ?? [];
  const named = all.filter((request) => request.source_branch === head);
  if (named.length === 0) return [];
  const id = place.head === place.project ? null : (await readProject(place, place.head)).id;
  return named.filter(({ source_project_id: source, target_project_id: target }) => source === (id ?? target));
}

async function requireNews(place: GitlabProject, { head, base }: NewPullRequest): Promise<void> {
  const commit = await place.api.read(branchPath(place.head, head), BRANCH);
  if (commit === null) {
    await readProject(place, place.head);
    throw refused(`the branch ${head} was never pushed`, {
      hint: "Push it first, then create the merge request.",
      data: { why: "head_missing", head },
    });
  }
  if ((await place.api.read(branchPath(place.project, base), BRANCH)) === null) {
    await readProject(place);
    throw refused(`there is no branch ${base} to merge into`, {
      hint: "Name a branch that the project has.",
      data: { why: "base_missing", base },
    });
  }
  const open = (await listRequests(place, head)).find((one) => stateOf(one) === "open" && one.target_branch === base);
  if (open !== undefined) throw exists(place, viewMergeRequest(open));
  // GitLab cannot compare two projects. A merge request without new commits is harmless there.
  if (place.head !== place.project) return;
  const range = `from=${encodeURIComponent(base)}&to=${encodeURIComponent(head)}`;
  const compared = await place.api.read(`${projectPath(place.project)}/repository/compare?${range}`, COMPARED);
  if (compared === null || compared.commits.length > 0) return;
  throw refused(`${head} has nothing that ${base} lacks`, {
    hint: "Commit and push something first.",
    data: { why: "nothing_new", head, base },
  });
}

const BRANCH = z.object({ name: z.string() });
const COMPARED = z.object({ commits: z.array(z.unknown()) });

function exists(place: GitlabProject, { number, url, head }: PullRequest): HoldfastError {
  return refused(`merge request ${number} is open already for ${head} in ${projectName(place)}`, {
    hint: "Use that one, or close it first.",
    data: { why: "exists", number, url },
  });
}

function refused(
  message: string,
  more: { readonly hint: string; readonly data: Readonly<Record<string, unknown>> },
): HoldfastError {
  return new HoldfastError({ code: "FORGE_REFUSED", message, ...more });
}

function branchPath(project: string, branch: string): string {
  return `${projectPath(project)}/repository/branches/${encodeURIComponent(branch)}`;
}

function pathOf(place: GitlabProject, number: number): string {
  return `${projectPath(place.project)}/merge_requests/${number}`;
}

const MERGE_REQUEST = z.object({
  iid: z.number(),
  web_url: z.string(),
  title: z.string(),
  description: z.nullish(z.string()),
  // "locked" means that it is being merged right now.
  state: z.enum(["opened", "closed", "merged", "locked"]),
  draft: z.optional(z.boolean()),
  labels: z.array(z.string()),
  source_branch: z.string(),
  target_branch: z.string(),
  // Absent if the fork was deleted.
  source_project_id: z.nullish(z.number()),
  target_project_id: z.number(),
  sha: z.nullish(z.string()),
  has_conflicts: z.nullish(z.boolean()),
  detailed_merge_status: z.nullish(z.string()),
  merge_status: z.nullish(z.string()),
});

type MergeRequest = z.infer<typeof MERGE_REQUEST>;

function viewMergeRequest(request: MergeRequest): PullRequest {
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

function stateOf({ state }: Pick<MergeRequest, "state">): PullRequest["state"] {
  switch (state) {
    case "opened":
    case "locked":
      return "open";
    case "closed":
    case "merged":
      return state;
  }
}

/** GitLab marks a draft by its title. */
function draftTitle(title: string, draft: boolean): string {
  return draft ? `Draft: ${withoutDraft(title)}` : title;
}

function isDraft({ draft, title }: Pick<MergeRequest, "draft" | "title">): boolean {
  return draft ?? DRAFT.test(title);
}

/**
 * The detailed status names one of several reasons; a conflict takes precedence. Versions before 15.6 have only the
 * plain status, which distinguishes conflicts from everything else.
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

/** GitLab merges only while the head is the given commit. A merge request that is already merged counts as success. */
export async function mergeMergeRequest(
  place: GitlabProject,
  number: number,
  params: { readonly head: string },
): Promise<PullRequest> {
  const request = await requireRequest(place, number);
  if (request.state === "merged") return request;
  if (request.state === "closed") throw cannot(place, number, "closed", "it is closed");
  if (request.headCommit !== params.head)
    throw cannot(place, number, "head_moved", `${request.head} is at ${request.headCommit}, not at ${params.head}`);
  if (request.draft) throw cannot(place, number, "draft", "it is a draft");
  const path = `${projectPath(place.project)}/merge_requests/${number}/merge`;
  return await writeOnce(place.api, {
    request: { method: "PUT", path, body: { sha: params.head } },
    done: () => requireRequest(place, number),
    async find() {
      const after = await getMergeRequest(place, number);
      return after?.state === "merged" ? after : null;
    },
    hidden: () => writeDenied(place, `merge ${number}`),
    async refused({ status, message }) {
      const after = await requireRequest(place, number);
      // Another merge was faster.
      return after.state === "merged"
        ? after
        : cannot(place, number, status === 409 ? "head_moved" : whyOf(after), message);
    },
  });
}

function whyOf({ mergeability }: PullRequest): string {
  return mergeability === "mergeable" || mergeability === "unknown" ? "refused" : mergeability;
}

function cannot(place: GitlabProject, number: number, why: string, message: string): HoldfastError {
  return new HoldfastError({
    code: "FORGE_REFUSED",
    message: `merge request ${number} in ${projectName(place)} cannot be merged: ${message}`,
    hint: "Look at the merge request again; nothing was merged.",
    data: { why, number },
  });
}

/**
 * GitLab has no list of reviews. An approval or a request for changes is a system note with an id and a time. The
 * reviewer's comments are the notes before it, including those on lines of files. Only the list of approvals shows
 * whether an approval still counts.
 */
export async function readReviews(place: GitlabProject, number: number): Promise<readonly PullRequestReview[]> {
  const { name, path } = subjectPaths(place, { pullRequest: number });
  const notes = await place.api.list(`${path}/notes?sort=asc&order_by=created_at`, NOTE);
  const approvals = await place.api.read(`${path}/approvals`, APPROVALS);
  if (notes === null || approvals === null) {
    await requireSubject(place, { pullRequest: number });
    throw writeDenied(place, `read the reviews of ${name}`);
  }
  return toReviews(notes, new Set(approvals.approved_by.map(({ user }) => user.username)));
}

/** `notes` are oldest first. `approvers` are the users whose approval counts. Resolved threads are omitted. */
export function toReviews(notes: readonly Note[], approvers: ReadonlySet<string>): readonly PullRequestReview[] {
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

/** The texts of GitLab's system notes, which are the same in every language. */
const DECISIONS: ReadonlyMap<string, PullRequestReview["state"]> = new Map([
  ["approved this merge request", "approved"],
  ["unapproved this merge request", "dismissed"],
  ["requested changes", "changes_requested"],
]);

/** Accounts of project and group tokens, and those of GitLab itself. */
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
