// Pull requests of the local forge: files, merges in a bare repository, and reviews.

import { join } from "node:path";
import { pathToFileURL } from "node:url";
import * as z from "zod/mini";
import type { IssueComment } from "@holdfast/core/checkpoint";
import type { Mergeability, NewPullRequest, PullRequest, PullRequestReview } from "@holdfast/core/forge";
import { type Git, gitError, gitIdentity } from "@holdfast/platform/git-command";
import { forgeRefused } from "./api.ts";
import {
  closedIssues,
  hasAnyMarker,
  hasMarker,
  keepMarkers,
  requireKey,
  requireNumber,
  requireText,
  withMarker,
} from "./body-text.ts";
import { closeIssue, createWithNextNumber, readIssue } from "./local-issues.ts";
import {
  type LocalRepository,
  type Relation,
  applyChange,
  compareCommits,
  listNumbers,
  parseJson,
  readBranches,
  readForgeFile,
  withForgeLock,
} from "./local-repository.ts";

export async function findPull(local: LocalRepository, head: string): Promise<PullRequest | null> {
  const all = listPulls(local).filter(([, pull]) => pull.head === head);
  const views = await Promise.all(all.map(([number, pull]) => toPullRequest(local, number, pull)));
  return views.find(({ state }) => state === "open") ?? views[0] ?? null;
}

export async function getPull(local: LocalRepository, number: number): Promise<PullRequest | null> {
  const pull = readPull(local, number);
  return pull === null ? null : toPullRequest(local, number, pull);
}

export function createPull(local: LocalRepository, request: NewPullRequest): Promise<PullRequest> {
  requireText("title", request.title);
  const body = withMarker(request.body, request.key);
  return withForgeLock(local, async () => {
    const made = listPulls(local).find(([, pull]) => hasMarker(pull.body, request.key));
    if (made !== undefined) return toPullRequest(local, ...made);
    const tips = await requireCommits(local, request);
    const there = await findPull(local, request.head);
    if (there?.state === "open") {
      const { number, url } = there;
      const message = `pull request ${number} for ${request.head} is already open`;
      throw forgeRefused(message, "Use that one, or close it first.", { why: "exists", number, url });
    }
    const { title, head, base, draft, key } = request;
    const createdAt = new Date(local.clock.now()).toISOString();
    const commits = { headCommit: tips.head, baseCommit: tips.base, mergeCommit: null };
    const state = { state: "open", draft, head, base, ...commits } as const;
    const pull: StoredPull = { version: 1, title, body, ...state, createdAt, labels: [] };
    const number = createWithNextNumber(local, (next) => ({
      path: pullPath(next),
      text: formatPull(pull),
      mode: "create",
      what: "pull_created",
      number: next,
      key,
    }));
    return toPullRequest(local, number, pull, tips);
  });
}

export function updatePull(
  local: LocalRepository,
  number: number,
  change: { readonly title?: string; readonly body?: string },
): Promise<PullRequest> {
  if (change.title !== undefined) requireText("title", change.title);
  return withForgeLock(local, async () => {
    const pull = requirePull(local, number);
    const title = change.title ?? pull.title;
    const body = change.body === undefined ? pull.body : keepMarkers(change.body, pull.body);
    if (title === pull.title && body === pull.body) return toPullRequest(local, number, pull);
    const next = { ...pull, title, body };
    applyChange(local, {
      path: pullPath(number),
      text: formatPull(next),
      mode: "replace",
      what: "pull_updated",
      number,
      key: null,
    });
    return toPullRequest(local, number, next);
  });
}

export function closePull(local: LocalRepository, number: number): Promise<PullRequest> {
  return withForgeLock(local, async () => {
    const pull = requirePull(local, number);
    const now = await toPullRequest(local, number, pull);
    if (now.state === "closed") return now;
    if (now.state === "merged") {
      const message = `pull request ${number} cannot be closed: it is merged`;
      throw forgeRefused(message, "Check the pull request; nothing was changed.", { why: "merged", number });
    }
    const next: StoredPull = { ...pull, state: "closed", headCommit: now.headCommit };
    const change = { path: pullPath(number), text: formatPull(next), mode: "replace", what: "pull_closed" } as const;
    applyChange(local, { ...change, number, key: null });
    return await toPullRequest(local, number, next);
  });
}

export function setPullLabels(local: LocalRepository, number: number, labels: readonly string[]): Promise<void> {
  const wanted = [...new Set(labels)];
  return withForgeLock(local, async () => {
    const pull = requirePull(local, number);
    if (pull.labels.length === wanted.length && wanted.every((label) => pull.labels.includes(label))) return;
    const text = formatPull({ ...pull, labels: wanted });
    applyChange(local, { path: pullPath(number), text, mode: "replace", what: "labels_set", number, key: null });
  });
}

function requirePull(local: LocalRepository, number: number): StoredPull {
  const pull = readPull(local, number);
  if (pull !== null) return pull;
  const hint = "Give one that is in the pulls folder.";
  throw forgeRefused(`pull request ${number} does not exist`, hint, { why: "pull_missing", number });
}

/** The commits of two branches, and how the head stands to the base; null if a branch does not exist. */
interface Tips {
  readonly head: string | null;
  readonly base: string | null;
  readonly relation: Relation | null;
}

async function readTips(local: LocalRepository, branches: Pick<StoredPull, "head" | "base">): Promise<Tips> {
  const [head = null, base = null] = await readBranches(local.git, [branches.head, branches.base]);
  const relation = head === null || base === null ? null : await compareCommits(local.git, head, base);
  return { head, base, relation };
}

async function requireCommits(
  local: LocalRepository,
  { head, base }: NewPullRequest,
): Promise<Tips & { readonly head: string; readonly base: string }> {
  const tips = await readTips(local, { head, base });
  if (tips.head === null) {
    const hint = "Push it first, then create the pull request.";
    throw forgeRefused(`branch ${head} was never pushed`, hint, { why: "head_missing", head });
  }
  if (tips.base === null) {
    const hint = "Give a branch that exists in the repository.";
    throw forgeRefused(`base branch ${base} does not exist`, hint, { why: "base_missing", base });
  }
  if (tips.relation === "unrelated") {
    const hint = `Rebase it onto ${base} and push it again.`;
    throw forgeRefused(`${head} has no history in common with ${base}`, hint, { why: "unrelated", head, base });
  }
  if (tips.relation !== "contained") return { ...tips, head: tips.head, base: tips.base };
  const hint = "Commit and push something first.";
  throw forgeRefused(`${head} has no commit that ${base} lacks`, hint, { why: "nothing_new", head, base });
}

const COMMIT = z.string().check(z.regex(/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/, "expected a whole commit id"));

const PULL = z.object({
  version: z.literal(1),
  title: z.string().check(z.minLength(1)),
  body: z.string(),
  state: z.enum(["open", "closed", "merged"]),
  draft: z.boolean(),
  head: z.string().check(z.minLength(1)),
  base: z.string().check(z.minLength(1)),
  /** The head commit at the last write, because the head branch may be deleted by now. */
  headCommit: COMMIT,
  /** The base commit at creation. A head at this commit was reset, not merged. */
  baseCommit: COMMIT,
  mergeCommit: z.nullable(COMMIT),
  createdAt: z.string(),
  labels: z._default(z.array(z.string()), []),
});

/** The content of a pull request's file. */
type StoredPull = z.infer<typeof PULL>;

function readPull(local: LocalRepository, number: number): StoredPull | null {
  requireNumber(number);
  const path = pullPath(number);
  const file = readForgeFile(local, path);
  return file === undefined ? null : parseJson({ local, path, text: file.text, schema: PULL });
}

/** Newest first. */
function listPulls(local: LocalRepository): readonly (readonly [number: number, pull: StoredPull])[] {
  return listNumbers(local, "pulls", ".json")
    .toReversed()
    .flatMap((number) => {
      const pull = readPull(local, number);
      return pull === null ? [] : [[number, pull] as const];
    });
}

function formatPull(pull: StoredPull): string {
  return `${JSON.stringify(pull, null, 2)}\n`;
}

function pullPath(number: number): string {
  return `pulls/${number}.json`;
}

/** The current pull request: its file combined with the current commits of its branches. */
async function toPullRequest(
  local: LocalRepository,
  number: number,
  pull: StoredPull,
  known?: Tips,
): Promise<PullRequest> {
  const tips = known ?? (await readTips(local, pull));
  const isOpen = pull.state === "open";
  const headCommit = isOpen ? (tips.head ?? pull.headCommit) : pull.headCommit;
  // The head is in the base: merged by hand and pushed, or by a call that was killed before it wrote the file.
  const isIn = isOpen && (await isMerged(local.git, tips, pull));
  return {
    number,
    url: pathToFileURL(join(local.directory, pullPath(number))).href,
    title: pull.title,
    body: pull.body,
    state: isIn ? "merged" : pull.state,
    draft: pull.draft,
    head: pull.head,
    headCommit,
    base: pull.base,
    labels: pull.labels,
    mergeability: isOpen && !isIn ? await mergeabilityOf(local.git, tips, pull.draft) : "unknown",
  };
}

async function isMerged(git: Git, { head, relation }: Tips, pull: StoredPull): Promise<boolean> {
  if (head === null || relation !== "contained") return false;
  return (await compareCommits(git, head, pull.baseCommit)) !== "contained";
}

async function mergeabilityOf(git: Git, { head, base, relation }: Tips, draft: boolean): Promise<Mergeability> {
  if (head === null || base === null || relation === "contained") return "blocked";
  const isCurrent = relation === "ahead";
  if (!isCurrent && (await mergeTree(git, base, head)).kind === "conflict") return "conflicting";
  if (draft) return "blocked";
  return isCurrent ? "mergeable" : "behind";
}

/**
 * Writes a merge commit on the base branch, then the file, then the closed issues. After a kill the same call
 * continues.
 */
export function mergePull(
  local: LocalRepository,
  number: number,
  params: { readonly head: string },
): Promise<PullRequest> {
  return withForgeLock(local, async () => {
    const pull = requirePull(local, number);
    const merged = pull.state === "merged" ? pull : await mergeOpen(local, number, pull, params.head);
    for (const issue of closedIssues(merged.body)) closeIssue(local, issue);
    return toPullRequest(local, number, merged);
  });
}

async function mergeOpen(
  local: LocalRepository,
  number: number,
  pull: StoredPull,
  expected: string,
): Promise<StoredPull> {
  const { head: tip, base, relation } = await readTips(local, pull);
  if (pull.state === "closed") throw cannot(number, "closed", `pull request ${number} is closed`);
  if (tip === null) throw cannot(number, "head_missing", `the branch ${pull.head} is gone`);
  if (base === null) throw cannot(number, "base_missing", `the branch ${pull.base} is gone`);
  if (tip !== expected) throw cannot(number, "head_moved", `${pull.head} is at ${tip}, not at ${expected}`);
  if (pull.draft) throw cannot(number, "draft", `pull request ${number} is a draft`);
  const mergeCommit = relation === "contained" ? base : await makeMerge(local, { number, pull, tip, base });
  const next: StoredPull = { ...pull, state: "merged", headCommit: tip, mergeCommit };
  applyChange(local, {
    path: pullPath(number),
    text: formatPull(next),
    mode: "replace",
    what: "pull_merged",
    number,
    key: null,
  });
  return next;
}

async function makeMerge(
  local: LocalRepository,
  at: { readonly number: number; readonly pull: StoredPull; readonly tip: string; readonly base: string },
): Promise<string> {
  const { number, pull, tip, base } = at;
  const merged = await mergeTree(local.git, base, tip);
  if (merged.kind === "conflict")
    throw cannot(number, "conflicting", `${pull.head} conflicts with ${pull.base} in ${merged.files.join(", ")}`);
  const message = `Merge pull request #${number} from ${pull.head}\n\n${pull.title}\n`;
  const args = ["commit-tree", merged.tree, "-p", base, "-p", tip, "-F", "-"];
  const commit = await local.git.line({ args, input: Buffer.from(message), env: identity(local) });
  const moved = await local.git.result({ args: ["update-ref", `refs/heads/${pull.base}`, commit, base] });
  if (moved.code !== 0) throw cannot(number, "base_moved", `${pull.base} moved while the merge was made`);
  return commit;
}

function identity(local: LocalRepository): Readonly<Record<string, string>> {
  const epochSeconds = Math.floor(local.clock.now() / 1000);
  return gitIdentity({ name: "Local forge", mail: "forge@localhost", epochSeconds });
}

function cannot(number: number, why: string, message: string): Error {
  const hint = "Check the pull request; nothing was merged.";
  return forgeRefused(`pull request ${number} cannot be merged: ${message}`, hint, { why, number });
}

type MergedTree =
  | { readonly kind: "clean"; readonly tree: string }
  | { readonly kind: "conflict"; readonly files: readonly string[] };

/** Merges two commits in the object database only. Without a common ancestor, which git refuses to merge, they conflict. */
async function mergeTree(git: Git, base: string, head: string): Promise<MergedTree> {
  if ((await compareCommits(git, base, head)) === "unrelated") return { kind: "conflict", files: ["all files"] };
  const args = ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", base, head];
  const done = await git.result({ args });
  if (done.kind !== "exited" || done.code === null || done.code > 1) throw gitError(args, done);
  const [tree = "", ...files] = done.stdout
    .toString("utf8")
    .split("\0")
    .filter((field) => field !== "");
  return done.code === 0 ? { kind: "clean", tree } : { kind: "conflict", files };
}

/** Reviews written by users, in order. A review without an id gets its position as id, so new ones must be appended. */
export function readReviews(local: LocalRepository, number: number): readonly PullRequestReview[] {
  requirePull(local, number);
  const path = `pulls/${number}.reviews.json`;
  const file = readForgeFile(local, path);
  if (file === undefined) return [];
  const written = parseJson({ local, path, text: file.text, schema: REVIEWS });
  return written.map(({ id, ...review }, at) => ({ id: id ?? String(at + 1), byPerson: true, ...review }));
}

const REVIEWS = z.array(
  z.object({
    id: z.optional(z.string().check(z.minLength(1))),
    author: z.string().check(z.minLength(1)),
    state: z.enum(["approved", "changes_requested", "commented", "dismissed"]),
    body: z._default(z.string(), ""),
    commit: z._default(z.nullable(z.string()), null),
    at: z._default(z.nullable(z.string()), null),
  }),
);

export function findComment(local: LocalRepository, number: number, key: string): { readonly url: string } | null {
  requireKey(key);
  requireSubject(local, number);
  const at = readComments(local, number).findIndex(({ body }) => hasMarker(body, key));
  return at === -1 ? null : { url: urlOf(local, number, at) };
}

/** Comments written by users. A deleted comment of a run has left an empty entry. */
export function readIssueComments(local: LocalRepository, number: number): readonly IssueComment[] {
  requireSubject(local, number);
  return readComments(local, number)
    .filter(({ body }) => body !== "" && !hasAnyMarker(body))
    .map(({ author, body, at }) => ({ author: author ?? "unknown", body, at }));
}

export function addComment(
  local: LocalRepository,
  number: number,
  comment: { readonly body: string; readonly key: string },
): Promise<{ readonly url: string }> {
  const body = withMarker(comment.body, comment.key);
  return withForgeLock(local, async () => {
    const there = findComment(local, number, comment.key);
    if (there !== null) return there;
    const comments = [...readComments(local, number), { at: new Date(local.clock.now()).toISOString(), body }];
    const text = `${JSON.stringify(comments, null, 2)}\n`;
    applyChange(local, {
      path: pathOf(number),
      text,
      mode: "replace",
      what: "comment_created",
      number,
      key: comment.key,
    });
    return { url: urlOf(local, number, comments.length - 1) };
  });
}

/** Leaves an empty entry, because the addresses of the others contain their position. */
export function deleteComment(local: LocalRepository, number: number, key: string): Promise<void> {
  return withForgeLock(local, async () => {
    if (findComment(local, number, key) === null) return;
    const comments = readComments(local, number);
    const at = comments.findIndex(({ body }) => hasMarker(body, key));
    const kept = comments.map((comment, index) => (index === at ? { ...comment, body: "" } : comment));
    const text = `${JSON.stringify(kept, null, 2)}\n`;
    applyChange(local, { path: pathOf(number), text, mode: "replace", what: "comment_deleted", number, key });
  });
}

const COMMENTS = z.array(z.object({ at: z.string(), body: z.string(), author: z.optional(z.string()) }));

function readComments(local: LocalRepository, number: number): z.infer<typeof COMMENTS> {
  const file = readForgeFile(local, pathOf(number));
  return file === undefined ? [] : parseJson({ local, path: pathOf(number), text: file.text, schema: COMMENTS });
}

function requireSubject(local: LocalRepository, number: number): void {
  if (readIssue(local, number) !== null || readPull(local, number) !== null) return;
  const message = `issue or pull request ${number} does not exist in ${local.directory}`;
  const hint = `Write issues/${number}.md there, or give another number.`;
  throw forgeRefused(message, hint, { why: "issue_missing", number });
}

function pathOf(number: number): string {
  return `issues/${number}.comments.json`;
}

function urlOf(local: LocalRepository, number: number, at: number): string {
  return `${pathToFileURL(join(local.directory, pathOf(number))).href}#${at + 1}`;
}
