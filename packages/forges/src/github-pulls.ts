// GitHub pull requests: creating, finding, merging, mergeability and reviews.

import * as z from "zod/mini";
import type { Mergeability, NewPullRequest, PullRequest, PullRequestReview } from "@holdfast/core/forge";
import { HoldfastError } from "@holdfast/platform/error";
import { type ClassifiedResponse, writeOnce } from "./api.ts";
import { hasMarker, keepMarkers, requireText, reviewText, truncateBody, withMarker } from "./body-text.ts";
import {
  type GithubRepository,
  MAX_BODY_LENGTH,
  confirmAbsent,
  readRepository,
  repositoryName,
  repositoryPath,
  writeDenied,
} from "./github-issues.ts";

export async function findPull(place: GithubRepository, head: string): Promise<PullRequest | null> {
  const all = await listPulls(place, head);
  const found = all.find((pull) => stateOf(pull) === "open") ?? all[0];
  // Only a request for the single pull request reports whether it can be merged.
  return found === undefined ? null : await getPull(place, found.number);
}

export async function getPull(place: GithubRepository, number: number): Promise<PullRequest | null> {
  const found = await place.api.read(pathOf(place, number), PULL);
  return found === null ? await confirmAbsent(place) : viewPull(found);
}

export async function createPull(place: GithubRepository, request: NewPullRequest): Promise<PullRequest> {
  requireText("title", request.title);
  const { title, base, draft, key } = request;
  const body = truncateBody(request.body, MAX_BODY_LENGTH, (text) => withMarker(text, key));
  const made = await findMade(place, request);
  if (made !== null) return made;
  const path = `${repositoryPath(place)}/pulls`;
  const head = headOf(place, request.head);
  return await writeOnce(place.api, {
    request: { method: "POST", path, body: { title, body, base, draft, ...head } },
    done: (answer, what) => viewPull(place.api.parse(answer, PULL, what)),
    find: () => findMade(place, request),
    async hidden() {
      await readRepository(place);
      return writeDenied(place, "create a pull request");
    },
    async refused(judged) {
      const refusal = classifyPullError(judged);
      // Another call with the same key was faster, or this one succeeded a moment ago.
      const there = refusal.why === "exists" ? await findMade(place, request) : null;
      if (there !== null) return there;
      const open = refusal.why === "exists" ? await findPull(place, request.head) : null;
      return new HoldfastError({
        code: "FORGE_REFUSED",
        message: `no pull request of ${request.head} into ${base} can be made in ${repositoryName(place)}: ${judged.message}`,
        hint: refusal.hint,
        data: { why: refusal.why, ...(open === null ? {} : { number: open.number, url: open.url }) },
      });
    },
  });
}

export async function updatePull(
  place: GithubRepository,
  number: number,
  change: { readonly title?: string; readonly body?: string },
): Promise<PullRequest> {
  if (change.title !== undefined) requireText("title", change.title);
  const pull = await requirePull(place, number);
  const title = change.title ?? pull.title;
  const body =
    change.body === undefined
      ? pull.body
      : truncateBody(change.body, MAX_BODY_LENGTH, (text) => keepMarkers(text, pull.body));
  if (title === pull.title && body === pull.body) return pull;
  const path = pathOf(place, number);
  return await writeOnce(place.api, {
    request: { method: "PATCH", path, body: { title, body } },
    done: (answer, what) => viewPull(place.api.parse(answer, PULL, what)),
    async find() {
      const after = await requirePull(place, number);
      return after.title === title && after.body === body ? after : null;
    },
    hidden: () => writeDenied(place, `change pull request ${number}`),
    refused: ({ message }) =>
      new HoldfastError({
        code: "FORGE_REFUSED",
        message: `pull request ${number} in ${repositoryName(place)} cannot be changed: ${message}`,
        hint: "Look at the title and the body that were asked for.",
        data: { why: "change_refused", number },
      }),
  });
}

async function requirePull(place: GithubRepository, number: number): Promise<PullRequest> {
  const pull = await getPull(place, number);
  if (pull !== null) return pull;
  throw new HoldfastError({
    code: "FORGE_REFUSED",
    message: `there is no pull request ${number} in ${repositoryName(place)}`,
    hint: "Name another number.",
    data: { why: "pull_missing", number },
  });
}

async function findMade(place: GithubRepository, request: NewPullRequest): Promise<PullRequest | null> {
  const all = await listPulls(place, request.head);
  const made = all.find((pull) => hasMarker(pull.body ?? "", request.key));
  return made === undefined ? null : await getPull(place, made.number);
}

/**
 * Newest first. Filters by the exact head again, because GitHub ignores a filter it does not understand and returns
 * everything.
 */
async function listPulls(place: GithubRepository, head: string): Promise<readonly GithubPull[]> {
  const label = `${place.head.owner}:${head}`;
  const path = `${repositoryPath(place)}/pulls?state=all&sort=created&direction=desc&head=${encodeURIComponent(label)}`;
  const all = (await place.api.list(path, PULL)) ?? (await confirmAbsent(place)) ?? [];
  return all.filter(({ head: { ref, label: its } }) => ref === head && isOwner(its, place.head.owner));
}

function isOwner(label: string | null | undefined, owner: string): boolean {
  return label === null || label === undefined || label.split(":")[0]?.toLowerCase() === owner.toLowerCase();
}

/**
 * The branch name within one repository. For a fork also its owner, and its name if one owner has both repositories.
 */
function headOf(place: GithubRepository, branch: string): { readonly head: string; readonly head_repo?: string } {
  const { owner, name } = place.head;
  if (owner.toLowerCase() !== place.owner.toLowerCase()) return { head: `${owner}:${branch}` };
  if (name.toLowerCase() === place.name.toLowerCase()) return { head: branch };
  return { head: `${owner}:${branch}`, head_repo: name };
}

function pathOf(place: GithubRepository, number: number): string {
  return `${repositoryPath(place)}/pulls/${number}`;
}

interface PullRefusal {
  readonly why: "exists" | "head_missing" | "base_missing" | "nothing_new" | "drafts_off" | "refused";
  readonly hint: string;
}

/** GitHub names the invalid field where it can, and otherwise gives only a message. */
export function classifyPullError({
  message,
  body,
}: Pick<Extract<ClassifiedResponse, { kind: "refused" }>, "message" | "body">): PullRefusal {
  const parsed = z.safeParse(BODY, body);
  const errors = parsed.success ? (parsed.data.errors ?? []) : [];
  const isInvalid = (field: string): boolean =>
    errors.some((error) => typeof error === "object" && error.field === field && error.code === "invalid");
  if (/pull request already exists/i.test(message)) return { why: "exists", hint: "Use that one, or close it first." };
  if (/no commits between/i.test(message)) return { why: "nothing_new", hint: "Commit and push something first." };
  if (isInvalid("head")) return { why: "head_missing", hint: "Push it first, then create the pull request." };
  if (isInvalid("base")) return { why: "base_missing", hint: "Name a branch that the repository has." };
  if (/draft pull requests are not supported/i.test(message))
    return { why: "drafts_off", hint: "Set impl.draft to false: this repository has no drafts." };
  return { why: "refused", hint: "Look at the repository's rules for pull requests." };
}

const BODY = z.object({
  errors: z.optional(
    z.array(z.union([z.string(), z.object({ field: z.optional(z.string()), code: z.optional(z.string()) })])),
  ),
});

/** A pull request in GitHub's format. Lists omit the computed fields merged and mergeable. */
const PULL = z.object({
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
  // A deleted fork leaves its repository empty but keeps the label.
  head: z.object({ ref: z.string(), sha: z.string(), label: z.nullish(z.string()) }),
  base: z.object({ ref: z.string() }),
});

type GithubPull = z.infer<typeof PULL>;

function viewPull(pull: GithubPull): PullRequest {
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

function stateOf(pull: Pick<GithubPull, "state" | "merged_at">): PullRequest["state"] {
  return pull.merged_at !== null && pull.merged_at !== undefined ? "merged" : pull.state;
}

/**
 * GitHub reports "dirty" for a conflict, and "draft" takes precedence over anything but a conflict. "unstable" and
 * "has_hooks" can be merged, because only optional checks fail. While `mergeable` is null, GitHub is still computing
 * it, and `mergeable_state` is outdated.
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

/** GitHub merges only while the head is the given commit. A pull request that is already merged counts as success. */
export async function mergePull(
  place: GithubRepository,
  number: number,
  params: { readonly head: string },
): Promise<PullRequest> {
  const pull = await requirePull(place, number);
  if (pull.state === "merged") return pull;
  if (pull.state === "closed") throw cannot(place, number, "closed", "it is closed");
  if (pull.headCommit !== params.head)
    throw cannot(place, number, "head_moved", `${pull.head} is at ${pull.headCommit}, not at ${params.head}`);
  if (pull.draft) throw cannot(place, number, "draft", "it is a draft");
  const path = `${repositoryPath(place)}/pulls/${number}/merge`;
  const method = await methodOf(place);
  return await writeOnce(place.api, {
    request: { method: "PUT", path, body: { sha: params.head, merge_method: method } },
    done: () => requirePull(place, number),
    async find() {
      const after = await getPull(place, number);
      return after?.state === "merged" ? after : null;
    },
    hidden: () => writeDenied(place, `merge pull request ${number}`),
    async refused({ status, message }) {
      const after = await requirePull(place, number);
      // Another merge was faster.
      return after.state === "merged"
        ? after
        : cannot(place, number, status === 409 ? "head_moved" : whyOf(after), message);
    },
  });
}

/** Prefers a merge commit, because only that keeps the reviewed commits. */
async function methodOf(place: GithubRepository): Promise<"merge" | "squash" | "rebase"> {
  const repository = await readRepository(place);
  if (repository.allow_merge_commit !== false) return "merge";
  return repository.allow_squash_merge === false ? "rebase" : "squash";
}

function whyOf({ mergeability }: PullRequest): string {
  return mergeability === "mergeable" || mergeability === "unknown" ? "refused" : mergeability;
}

function cannot(place: GithubRepository, number: number, why: string, message: string): HoldfastError {
  return new HoldfastError({
    code: "FORGE_REFUSED",
    message: `pull request ${number} in ${repositoryName(place)} cannot be merged: ${message}`,
    hint: "Look at the pull request again; nothing was merged.",
    data: { why, number },
  });
}

/** Includes the line comments, which GitHub stores separately. Reviews that are not submitted yet are omitted. */
export async function readReviews(place: GithubRepository, number: number): Promise<readonly PullRequestReview[]> {
  const path = `${repositoryPath(place)}/pulls/${number}`;
  const reviews = await place.api.list(`${path}/reviews`, REVIEW);
  const remarks = reviews === null || reviews.length === 0 ? [] : await place.api.list(`${path}/comments`, REMARK);
  if (reviews === null || remarks === null) {
    await requirePull(place, number);
    throw writeDenied(place, `read the reviews of pull request ${number}`);
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

/** PENDING is omitted: its author is still writing, and only the author sees it. */
const STATES: ReadonlyMap<string, PullRequestReview["state"]> = new Map([
  ["APPROVED", "approved"],
  ["CHANGES_REQUESTED", "changes_requested"],
  ["COMMENTED", "commented"],
  ["DISMISSED", "dismissed"],
]);

const REVIEW = z.object({
  id: z.number(),
  // null for a deleted account.
  user: z.nullish(z.object({ login: z.string(), type: z.optional(z.string()) })),
  body: z.nullish(z.string()),
  state: z.string(),
  commit_id: z.nullish(z.string()),
  submitted_at: z.nullish(z.string()),
});
const REMARK = z.object({
  pull_request_review_id: z.nullish(z.number()),
  path: z.string(),
  // null if the line is no longer in the diff.
  line: z.nullish(z.number()),
  original_line: z.nullish(z.number()),
  body: z.string(),
});
