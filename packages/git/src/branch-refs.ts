// Refs of a worktree: HEAD, branch tips, compare-and-set of branches, locks, and git operations in progress.

import { access, readFile, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { isObjectId } from "@holdfast/core/journal";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { type Git, gitError } from "@holdfast/platform/git-command";
import type { ProcessResult } from "@holdfast/platform/subprocess";
import type { WorktreeContext } from "./capture.ts";
import { createFacts } from "./facts.ts";
import { findObject, isLooseAndFilled, peelLoose } from "./objects.ts";
import { hasRefFiles, isRefAbsent, listRefFiles, readGitDirHead, readRefFiles, toRawPath } from "./ref-files.ts";
import { type Checkout, type Repository, worktreeGit } from "./repository.ts";

/** A repository that can be queried, through one of its worktrees or, if bare, through its own directory. */
export interface RepositoryContext {
  readonly worktree: WorktreeContext;
  /** Uses the worktree's own git directory and files: conversions apply as for the user, hooks do not run. */
  readonly git: Git;
}

/** A run's worktree with the branch that was checked out when it was opened. */
export interface BranchContext extends RepositoryContext {
  /** Short name, without refs/heads/. */
  readonly name: string;
  /** Full name, with refs/heads/. */
  readonly ref: string;
}

/** Commit of a branch or another ref; null if it does not exist. */
export function readTip(git: Git, ref: string): Promise<string | null> {
  return findObject(git, `${ref}^{commit}`);
}

/**
 * Like `readTip`, for the full name of a branch. Reads the file where refs are files. Git is asked about a commit that
 * is not a loose object: it may be packed or lost.
 */
export async function readBranchTip(repository: Repository, ref: string): Promise<string | null> {
  const place = toRawPath(repository.commonDir);
  const [id = null] = readRefFiles(place, [ref]);
  if (id !== null && isLooseAndFilled(repository, id)) return id;
  return id === null && isRefAbsent(place, ref) ? null : readTip(repository.git, ref);
}

/** All refs below these folders, such as `refs/heads/`, with their ids. Reads the files where refs are files. */
export async function listRefs(
  { commonDir, git }: Pick<Repository, "commonDir" | "git">,
  ...folders: readonly string[]
): Promise<ReadonlyMap<string, string>> {
  const found = listRefFiles(toRawPath(commonDir), folders);
  if (found !== null) return found;
  const listed = await git.line({ args: ["for-each-ref", "--format=%(objectname) %(refname)", ...folders] });
  const lines = listed.split("\n").filter((line) => line !== "");
  return new Map(lines.map((line) => [line.slice(line.indexOf(" ") + 1), line.slice(0, line.indexOf(" "))]));
}

export async function requireTip(at: BranchContext): Promise<string> {
  const tip = await readBranchTip(at.worktree.repository, at.ref);
  if (tip !== null) return tip;
  throw new HoldfastError({
    code: "GIT_FAILED",
    message: `the branch ${at.name} has no commit yet, or is gone`,
    hint: "Make a first commit, or create the branch again from one of the run's checkpoints.",
  });
}

export function requireCommit(at: RepositoryContext, name: string): Promise<string> {
  return resolve(at, name, "commit");
}

export function requireTree(at: RepositoryContext, name: string): Promise<string> {
  return resolve(at, name, "tree");
}

/**
 * An agent can leave the worktree in the middle of a git operation or on another branch. Then nothing may be committed
 * on top of it.
 */
export async function requireIdleWorktree(at: BranchContext): Promise<void> {
  const { worktree, name } = at;
  const [operation, { branch }] = await Promise.all([findOperation(worktree.gitDir), readHead(worktree)]);
  if (operation !== null) {
    throw new HoldfastError({
      code: "WORKSPACE_BUSY",
      message: `a ${operation} is under way in ${worktree.root}`,
      hint: `Finish it or run \`git ${operation} ${operation === "bisect" ? "reset" : "--abort"}\` first.`,
      data: { operation },
    });
  }
  if (branch === at.ref) return;
  throw new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: `${worktree.root} is on ${branch ?? "no branch"}, not on the run's branch ${name}`,
    hint: `Run \`git switch ${name}\` there, or configure the agent not to change branches.`,
    data: { branch, expected: at.ref },
  });
}

/** The commit or the tree of an object. An object that is absent (null) is asked for again. */
const recallPeeled = createFacts<string | null>(1000);

async function resolve({ git, worktree }: RepositoryContext, name: string, kind: "commit" | "tree"): Promise<string> {
  const { repository } = worktree;
  const ask = async (): Promise<string | null> => (name === "" ? null : findObject(git, `${name}^{${kind}}`));
  const found = await (isObjectId(name)
    ? recallPeeled(
        `${repository.objectDirectory} ${name} ${kind}`,
        async () => peelLoose(repository, name)?.[kind] ?? (await ask()),
      )
    : ask());
  if (found !== null) return found;
  throw usageError(
    `${JSON.stringify(name)} is not a ${kind} in this repository`,
    "Fetch it first, or name another one.",
  );
}

/** Compare-and-set of the run's own branch. Succeeds if the branch is already at `to`. */
export async function moveBranch(
  at: Pick<BranchContext, "name" | "ref"> & { readonly worktree: Pick<BranchContext["worktree"], "repository"> },
  params: { readonly from: string | null; readonly to: string },
): Promise<void> {
  const { repository } = at.worktree;
  if (params.from === params.to) return;
  const args = ["update-ref", "--no-deref", at.ref, params.to, params.from ?? repository.zero];
  const lock = join(repository.commonDir, `${at.ref}.lock`);
  const moved = await retryWhileLocked(lock, () => repository.git.result({ args }));
  if (moved.kind === "exited" && moved.code === 0) return;
  const tip = await readTip(repository.git, at.ref);
  if (tip === params.to) return;
  if (tip !== params.from) throw movedMeanwhile(at, params, tip);
  throw isLocked(moved) ? locked(at, lock) : gitError(args, moved);
}

function movedMeanwhile(
  at: Pick<BranchContext, "name">,
  params: { readonly from: string | null; readonly to: string },
  tip: string | null,
): HoldfastError {
  return new HoldfastError({
    code: "CONFLICT",
    message: `the branch ${at.name} is at ${tip ?? "nothing"} and not at ${params.from ?? "nothing"} any more`,
    hint: "Another program commits to this branch. Check its commits, then run the command again.",
    data: { branch: at.name, tip, expected: params.from, wanted: params.to },
  });
}

function locked(at: Pick<BranchContext, "name">, lock: string): HoldfastError {
  return new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: `the branch ${at.name} is locked (${lock} exists)`,
    hint: "Wait for the git that works there; if none is running, remove that file.",
    retry: "later",
    data: { lock },
  });
}

/** Creates the branch only if it does not exist. An existing branch belongs to the user, whatever its commit. */
export async function createBranch(
  repository: Repository,
  params: { readonly branch: string; readonly commit: string },
): Promise<void> {
  const { branch, commit } = params;
  const valid = await repository.git.result({ args: ["check-ref-format", branch] });
  if (valid.code !== 0 || !branch.startsWith("refs/heads/")) {
    throw usageError(`${branch} is not the full name of a branch`);
  }
  const args = ["update-ref", branch, commit, repository.zero];
  const lock = join(repository.commonDir, `${branch}.lock`);
  const made = await retryWhileLocked(lock, () => repository.git.result({ args }));
  if (made.code === 0) return;
  const tip = await readTip(repository.git, branch);
  if (tip === commit) return;
  if (tip === null) throw gitError(args, made);
  throw new HoldfastError({
    code: "CONFLICT",
    message: `Branch ${branch} already exists at ${tip}, not at ${commit}`,
    hint: "Check where it comes from, then resume again.",
    data: { branch, tip, wanted: commit },
  });
}

interface Head {
  /** null in a repository without commits. */
  readonly head: string | null;
  /** Full name; null when detached. */
  readonly branch: string | null;
}

/** Reads the files where refs are files, which saves two processes. All other cases ask git. */
export async function readHead(checkout: Checkout): Promise<Head> {
  const text = (await readFile(join(checkout.gitDir, "HEAD"), "utf8").catch(() => "")).trim();
  const named = /^ref: (refs\/heads\/.+)$/.exec(text)?.[1];
  const plain = named === undefined ? /^[0-9a-f]{40,64}$/.test(text) : hasRefFiles(text);
  const head = plain ? readGitDirHead(toRawPath(checkout.gitDir)) : null;
  if (head !== null) return { head, branch: named ?? null };
  const git = worktreeGit(checkout);
  const [commit, branch] = await Promise.all([
    readTip(git, "HEAD"),
    git.find({ args: ["symbolic-ref", "--quiet", "HEAD"] }),
  ]);
  return { head: commit, branch };
}

/** The name of the git operation in progress in a worktree; null if there is none. */
export async function findOperation(gitDir: string): Promise<string | null> {
  const present = await Promise.all(MARKS.map(([file]) => exists(join(gitDir, file))));
  return MARKS.find((_, worktree) => present[worktree] === true)?.[1] ?? null;
}

/**
 * The path of the lock on the user's index; null if there is none. Another process holds it now, or was killed while it
 * did.
 */
export async function findIndexLock(gitDir: string): Promise<string | null> {
  const path = join(gitDir, "index.lock");
  return (await exists(path)) ? path : null;
}

const MARKS: readonly (readonly [file: string, operation: string])[] = [
  ["rebase-merge", "rebase"],
  ["rebase-apply/applying", "am"],
  ["rebase-apply", "rebase"],
  ["MERGE_HEAD", "merge"],
  ["CHERRY_PICK_HEAD", "cherry-pick"],
  ["REVERT_HEAD", "revert"],
  ["BISECT_LOG", "bisect"],
];

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

/**
 * Retries while git meets this lock, which another git holds for milliseconds. A killed git leaves its lock behind, so
 * a stale one is removed. The last result may still report the lock.
 */
export async function retryWhileLocked(lock: string, act: () => Promise<ProcessResult>): Promise<ProcessResult> {
  for (let attempt = 1; ; attempt++) {
    const done = await act();
    if (done.code === 0 || !isLocked(done) || attempt > ATTEMPTS) return done;
    const found = await stat(lock).catch(() => undefined);
    if (found !== undefined && Date.now() - found.mtimeMs > STALE_MS) await rm(lock, { force: true });
    await setTimeout(PAUSE_MS);
  }
}

function isLocked(done: ProcessResult): boolean {
  return done.stderr.includes(".lock");
}

const ATTEMPTS = 10;
const PAUSE_MS = 100;
const STALE_MS = 60_000;

export async function isAncestor(
  at: RepositoryContext,
  params: { readonly ancestor: string; readonly of: string },
): Promise<boolean> {
  const ancestor = await requireCommit(at, params.ancestor);
  const of = params.of === params.ancestor ? ancestor : await requireCommit(at, params.of);
  if (ancestor === of) return true;
  const args = ["merge-base", "--is-ancestor", ancestor, of];
  const result = await at.git.result({ args });
  if (result.kind === "exited" && (result.code === 0 || result.code === 1)) return result.code === 0;
  throw gitError(args, result);
}

/** null if the two commits have no common ancestor. */
export async function mergeBase(
  at: RepositoryContext,
  params: { readonly a: string; readonly b: string },
): Promise<string | null> {
  const [a, b] = await Promise.all([requireCommit(at, params.a), requireCommit(at, params.b)]);
  const args = ["merge-base", a, b];
  const result = await at.git.result({ args });
  if (result.kind === "exited" && result.code === 0)
    return result.stdout.toString("utf8").trim().split("\n")[0] ?? null;
  if (result.kind === "exited" && result.code === 1) return null;
  throw gitError(args, result);
}
