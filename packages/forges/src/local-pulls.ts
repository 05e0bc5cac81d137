// Pull requests of the local forge: files, merges in a bare repository, and reviews.

import { join } from "node:path";
import { pathToFileURL } from "node:url";
import * as z from "zod/mini";
import type { Mergeability, NewPullRequest, PullRequest, PullRequestReview } from "@holdfast/core/forge";
import { HoldfastError } from "@holdfast/platform/error";
import { gitIdentity } from "@holdfast/platform/git-command";
import {
  closedIssues,
  hasMarker,
  keepMarkers,
  requireKey,
  requireNumber,
  requireText,
  withMarker,
} from "./body-text.ts";
import { closeIssue, createWithNextNumber, readIssue } from "./local-issues.ts";
import {
  type BareGit,
  type LocalRepository,
  applyChange,
  isAncestor,
  listNumbers,
  localGitError,
  parseJson,
  readBranch,
  readForgeFile,
  withForgeLock,
} from "./local-repository.ts";

export async function findPull(place: LocalRepository, head: string): Promise<PullRequest | null> {
  const all = listPulls(place).filter(([, pull]) => pull.head === head);
  const views = await Promise.all(all.map(([number, pull]) => viewPull(place, number, pull)));
  return views.find(({ state }) => state === "open") ?? views[0] ?? null;
}

export async function getPull(place: LocalRepository, number: number): Promise<PullRequest | null> {
  const pull = readPull(place, number);
  return pull === null ? null : viewPull(place, number, pull);
}

export function createPull(place: LocalRepository, request: NewPullRequest): Promise<PullRequest> {
  requireText("title", request.title);
  const body = withMarker(request.body, request.key);
  return withForgeLock(place, async () => {
    const made = listPulls(place).find(([, pull]) => hasMarker(pull.body, request.key));
    if (made !== undefined) return viewPull(place, ...made);
    const commits = await requireNews(place, request);
    const there = await findPull(place, request.head);
    if (there?.state === "open") {
      throw refused(`pull request ${there.number} is open already for ${request.head}`, {
        hint: "Use that one, or close it first.",
        data: { why: "exists", number: there.number, url: there.url },
      });
    }
    const { title, head, base, draft, key } = request;
    const createdAt = new Date(place.clock.now()).toISOString();
    const state = { state: "open", draft, head, base, ...commits, mergeCommit: null } as const;
    const pull: StoredPull = { version: 1, title, body, ...state, createdAt, labels: [] };
    const number = createWithNextNumber(place, (next) => ({
      path: pullPath(next),
      text: formatPull(pull),
      mode: "create",
      what: "pull_created",
      number: next,
      key,
    }));
    return viewPull(place, number, pull);
  });
}

export function updatePull(
  place: LocalRepository,
  number: number,
  change: { readonly title?: string; readonly body?: string },
): Promise<PullRequest> {
  if (change.title !== undefined) requireText("title", change.title);
  return withForgeLock(place, async () => {
    const pull = requirePull(place, number);
    const title = change.title ?? pull.title;
    const body = change.body === undefined ? pull.body : keepMarkers(change.body, pull.body);
    if (title === pull.title && body === pull.body) return viewPull(place, number, pull);
    const next = { ...pull, title, body };
    applyChange(place, {
      path: pullPath(number),
      text: formatPull(next),
      mode: "replace",
      what: "pull_updated",
      number,
      key: null,
    });
    return viewPull(place, number, next);
  });
}

export function setPullLabels(place: LocalRepository, number: number, labels: readonly string[]): Promise<void> {
  const wanted = [...new Set(labels)];
  return withForgeLock(place, async () => {
    const pull = requirePull(place, number);
    if (pull.labels.length === wanted.length && wanted.every((label) => pull.labels.includes(label))) return;
    const text = formatPull({ ...pull, labels: wanted });
    applyChange(place, { path: pullPath(number), text, mode: "replace", what: "labels_set", number, key: null });
  });
}

function requirePull(place: LocalRepository, number: number): StoredPull {
  const pull = readPull(place, number);
  if (pull !== null) return pull;
  throw refused(`there is no pull request ${number}`, {
    hint: "Name one that is in the pulls folder.",
    data: { why: "pull_missing", number },
  });
}

function refused(
  message: string,
  more: { readonly hint: string; readonly data: Readonly<Record<string, unknown>> },
): HoldfastError {
  return new HoldfastError({ code: "FORGE_REFUSED", message, ...more });
}

async function requireNews(
  place: LocalRepository,
  { head, base }: NewPullRequest,
): Promise<Pick<StoredPull, "headCommit" | "baseCommit">> {
  const [headCommit, baseCommit] = await Promise.all([readBranch(place.git, head), readBranch(place.git, base)]);
  if (headCommit === null) {
    throw refused(`the branch ${head} was never pushed`, {
      hint: "Push it first, then create the pull request.",
      data: { why: "head_missing", head },
    });
  }
  if (baseCommit === null) {
    throw refused(`there is no branch ${base} to merge into`, {
      hint: "Name a branch that the forge has.",
      data: { why: "base_missing", base },
    });
  }
  if (!(await isAncestor(place.git, headCommit, baseCommit))) return { headCommit, baseCommit };
  throw refused(`${head} has nothing that ${base} lacks`, {
    hint: "Commit and push something first.",
    data: { why: "nothing_new", head, base },
  });
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

function readPull(place: LocalRepository, number: number): StoredPull | null {
  requireNumber(number);
  const path = pullPath(number);
  const file = readForgeFile(place, path);
  return file === undefined ? null : parseJson({ place, path, text: file.text, schema: PULL });
}

/** Newest first. */
function listPulls(place: LocalRepository): readonly (readonly [number: number, pull: StoredPull])[] {
  return listNumbers(place, "pulls", ".json")
    .toReversed()
    .flatMap((number) => {
      const pull = readPull(place, number);
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
async function viewPull(place: LocalRepository, number: number, pull: StoredPull): Promise<PullRequest> {
  const [tip, base] = await Promise.all([readBranch(place.git, pull.head), readBranch(place.git, pull.base)]);
  const isOpen = pull.state === "open";
  const headCommit = isOpen ? (tip ?? pull.headCommit) : pull.headCommit;
  // The head is in the base: merged by hand and pushed, or by a call that was killed before it wrote the file.
  const isIn = isOpen && tip !== null && base !== null && (await isMerged(place.git, { tip, base, pull }));
  return {
    number,
    url: pathToFileURL(join(place.directory, pullPath(number))).href,
    title: pull.title,
    body: pull.body,
    state: isIn ? "merged" : pull.state,
    draft: pull.draft,
    head: pull.head,
    headCommit,
    base: pull.base,
    labels: pull.labels,
    mergeability: isOpen && !isIn ? await mergeabilityOf(place.git, { draft: pull.draft, tip, base }) : "unknown",
  };
}

async function isMerged(
  git: BareGit,
  at: { readonly tip: string; readonly base: string; readonly pull: StoredPull },
): Promise<boolean> {
  return (await isAncestor(git, at.tip, at.base)) && !(await isAncestor(git, at.tip, at.pull.baseCommit));
}

async function mergeabilityOf(
  git: BareGit,
  at: { readonly draft: boolean; readonly tip: string | null; readonly base: string | null },
): Promise<Mergeability> {
  if (at.tip === null || at.base === null) return "blocked";
  if (await isAncestor(git, at.tip, at.base)) return "blocked";
  const isCurrent = await isAncestor(git, at.base, at.tip);
  if (!isCurrent && (await mergeTree(git, at.base, at.tip)).kind === "conflict") return "conflicting";
  if (at.draft) return "blocked";
  return isCurrent ? "mergeable" : "behind";
}

/**
 * Writes a merge commit on the base branch, then the file, then the closed issues. After a kill the same call
 * continues.
 */
export function mergePull(
  place: LocalRepository,
  number: number,
  params: { readonly head: string },
): Promise<PullRequest> {
  return withForgeLock(place, async () => {
    const pull = requirePull(place, number);
    const merged = pull.state === "merged" ? pull : await mergeOpen(place, number, pull, params.head);
    for (const issue of closedIssues(merged.body)) closeIssue(place, issue);
    return viewPull(place, number, merged);
  });
}

async function mergeOpen(
  place: LocalRepository,
  number: number,
  pull: StoredPull,
  expected: string,
): Promise<StoredPull> {
  const [tip, base] = await Promise.all([readBranch(place.git, pull.head), readBranch(place.git, pull.base)]);
  if (pull.state === "closed") throw cannot(number, "closed", `pull request ${number} is closed`);
  if (tip === null) throw cannot(number, "head_missing", `the branch ${pull.head} is gone`);
  if (base === null) throw cannot(number, "base_missing", `the branch ${pull.base} is gone`);
  if (tip !== expected) throw cannot(number, "head_moved", `${pull.head} is at ${tip}, not at ${expected}`);
  if (pull.draft) throw cannot(number, "draft", `pull request ${number} is a draft`);
  const isIn = await isAncestor(place.git, tip, base);
  const mergeCommit = isIn ? base : await makeMerge(place, { number, pull, tip, base });
  const next: StoredPull = { ...pull, state: "merged", headCommit: tip, mergeCommit };
  applyChange(place, {
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
  place: LocalRepository,
  at: { readonly number: number; readonly pull: StoredPull; readonly tip: string; readonly base: string },
): Promise<string> {
  const { number, pull, tip, base } = at;
  const merged = await mergeTree(place.git, base, tip);
  if (merged.kind === "conflict")
    throw cannot(number, "conflicting", `${pull.head} conflicts with ${pull.base} in ${merged.files.join(", ")}`);
  const message = `Merge pull request #${number} from ${pull.head}\n\n${pull.title}\n`;
  const args = ["commit-tree", merged.tree, "-p", base, "-p", tip, "-F", "-"];
  const commit = await place.git.line(args, { input: Buffer.from(message), env: identity(place) });
  const moved = await place.git.result(["update-ref", `refs/heads/${pull.base}`, commit, base]);
  if (moved.code !== 0) throw cannot(number, "base_moved", `${pull.base} moved while the merge was made`);
  return commit;
}

function identity(place: LocalRepository): Readonly<Record<string, string>> {
  const epochSeconds = Math.floor(place.clock.now() / 1000);
  return gitIdentity({ name: "Local forge", mail: "forge@localhost", epochSeconds });
}

function cannot(number: number, why: string, message: string): Error {
  return refused(`pull request ${number} cannot be merged: ${message}`, {
    hint: "Look at the pull request again; nothing was merged.",
    data: { why, number },
  });
}

type MergedTree =
  | { readonly kind: "clean"; readonly tree: string }
  | { readonly kind: "conflict"; readonly files: readonly string[] };

/** Merges two commits in the object database only. */
async function mergeTree(git: BareGit, base: string, head: string): Promise<MergedTree> {
  const args = ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", base, head];
  const done = await git.result(args);
  if (done.kind !== "exited" || done.code === null || done.code > 1) throw localGitError(git.gitDir, args, done);
  const [tree = "", ...files] = done.stdout
    .toString("utf8")
    .split("\0")
    .filter((part) => part !== "");
  return done.code === 0 ? { kind: "clean", tree } : { kind: "conflict", files };
}

/** Reviews written by users, in order. A review without an id gets its position as id, so new ones must be appended. */
export function readReviews(place: LocalRepository, number: number): readonly PullRequestReview[] {
  requirePull(place, number);
  const path = `pulls/${number}.reviews.json`;
  const file = readForgeFile(place, path);
  if (file === undefined) return [];
  const written = parseJson({ place, path, text: file.text, schema: REVIEWS });
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

export function findComment(place: LocalRepository, number: number, key: string): { readonly url: string } | null {
  requireKey(key);
  requireSubject(place, number);
  const at = readComments(place, number).findIndex(({ body }) => hasMarker(body, key));
  return at === -1 ? null : { url: urlOf(place, number, at) };
}

export function addComment(
  place: LocalRepository,
  number: number,
  comment: { readonly body: string; readonly key: string },
): Promise<{ readonly url: string }> {
  const body = withMarker(comment.body, comment.key);
  return withForgeLock(place, async () => {
    const there = findComment(place, number, comment.key);
    if (there !== null) return there;
    const comments = [...readComments(place, number), { at: new Date(place.clock.now()).toISOString(), body }];
    const text = `${JSON.stringify(comments, null, 2)}\n`;
    applyChange(place, {
      path: pathOf(number),
      text,
      mode: "replace",
      what: "comment_created",
      number,
      key: comment.key,
    });
    return { url: urlOf(place, number, comments.length - 1) };
  });
}

const COMMENTS = z.array(z.object({ at: z.string(), body: z.string() }));

function readComments(place: LocalRepository, number: number): z.infer<typeof COMMENTS> {
  const file = readForgeFile(place, pathOf(number));
  return file === undefined ? [] : parseJson({ place, path: pathOf(number), text: file.text, schema: COMMENTS });
}

function requireSubject(place: LocalRepository, number: number): void {
  if (readIssue(place, number) !== null || readPull(place, number) !== null) return;
  throw new HoldfastError({
    code: "FORGE_REFUSED",
    message: `there is no issue or pull request ${number} in ${place.directory}`,
    hint: `Write issues/${number}.md there, or name another number.`,
    data: { why: "issue_missing", number },
  });
}

function pathOf(number: number): string {
  return `issues/${number}.comments.json`;
}

function urlOf(place: LocalRepository, number: number, at: number): string {
  return `${pathToFileURL(join(place.directory, pathOf(number))).href}#${at + 1}`;
}
