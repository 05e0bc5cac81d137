// Removes a run's worktree, after checking that nothing in it would be lost.

import { existsSync, readdirSync } from "node:fs";
import { rename, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { WorktreeCheck, WorktreeContent } from "@holdfast/core/workspace";
import { HoldfastError } from "@holdfast/platform/error";
import type { Git } from "@holdfast/platform/git-command";
import { fileKind } from "@holdfast/platform/files";
import { findOperation } from "./branch-refs.ts";
import { absolutePath, createPathInspector } from "./capture-plan.ts";
import { createKeptOutCheck, findLinksToIgnored } from "./capture.ts";
import { foldsNames } from "./folded-names.ts";
import { leadsTo } from "./moved-worktree.ts";
import { syncFileSystem } from "./objects.ts";
import { type RawPath, quotePath, splitRecords } from "./paths.ts";
import { matchesEntry } from "./plan-restore.ts";
import { LINK_MODE, openScratch, parseIndexEntry } from "./private-index.ts";
import {
  type Checkout,
  PRIVATE_DIRECTORY,
  type Repository,
  disableFilters,
  worktreeGit,
  worktreesFolder,
} from "./repository.ts";
import { readFileModes } from "./settings.ts";
import { deleteFolder, removalPaths, withStaleFileCleanup } from "./stale-files.ts";
import { openGitWorkspace } from "./workspace.ts";
import { type WorktreeRecord, findWorktree } from "./worktrees.ts";

/** Content of a worktree that exists nowhere else. */
export interface WorktreeLosses {
  readonly changed: readonly string[];
  readonly untracked: readonly string[];
  readonly ignored: readonly string[];
  /** Submodules and other nested repositories, each with a slash at its end. */
  readonly nested: readonly string[];
  /** Files whose staged content is neither in HEAD nor in the file. */
  readonly staged: readonly string[];
  /** Refs that only this worktree has (refs/worktree/). */
  readonly refs: readonly string[];
  /** Commits that no other branch and no remote-tracking branch contains, newest first. */
  readonly commits: readonly string[];
  readonly operation: string | null;
  readonly locked: boolean;
}

/** Removes the worktree of a run. `check` sees it after the last moment in which a process could find it in its place. */
export async function removeWorktree(
  repository: Repository,
  params: { readonly run: string; readonly force?: boolean; readonly check?: WorktreeCheck },
): Promise<void> {
  const { run, force = false, check } = params;
  const record = await findWorktree(repository, run);
  if (record === undefined) return;
  const refuseLosses = async (now: WorktreeRecord): Promise<WorktreeLosses> => {
    const losses = await findLosses(repository, now);
    const forced = force && !record.locked;
    if (!forced && Object.values(losses).some(isLoss)) throw refusal(record, losses);
    return losses;
  };
  if (record.locked || (record.exists && check === undefined)) await refuseLosses(record);
  await deleteWorktree(repository, record, async (now) => {
    const content = describeContent(now, await refuseLosses(now));
    await check?.(await openGitWorkspace(repository, { root: now.path, gitDir: now.gitDir }), content);
  });
  // Ours, and empty after the last worktree. A directory that the user configured stays.
  const folder = worktreesFolder(repository);
  if (record.path === join(folder, run)) await rmdir(folder).catch(() => undefined);
}

/** What a worktree holds besides files that a checkpoint can hold; null: the run has none. Changes nothing. */
export async function inspectWorktree(repository: Repository, run: string): Promise<WorktreeContent | null> {
  const record = await findWorktree(repository, run);
  return record === undefined ? null : describeContent(record, await findLosses(repository, record));
}

export function describeContent(record: WorktreeRecord, losses: WorktreeLosses): WorktreeContent {
  const { path, exists, unfinished, branch, head } = record;
  const { ignored, nested, staged, refs, operation, locked } = losses;
  // Without its parent directory, the disk with the worktree may only be unplugged.
  const isGone = !exists && existsSync(dirname(path)) && !existsSync(path);
  const isForeign = !exists && fileKind(join(path, ".git")) === "file";
  // Also of a worktree that is gone, or that was moved to where it is not found: its entry has the only copy of the commit.
  const detached = branch === null ? head : null;
  return { path, exists, isGone, isForeign, unfinished, ignored, nested, staged, refs, detached, operation, locked };
}

/**
 * Deletes a worktree. `git worktree remove` is not used: killed, it leaves a partial directory that looks like user files, or a partial
 * entry on which git fails. Here a kill leaves the worktree in one of these states, and the next command completes it:
 *
 * 1. whole, beside its place. `check` looks at it once more, where no process finds it by its path. If `check` throws, or after a kill,
 *    it goes back to its place.
 * 2. condemned: in our scratch directory, or on another disk under the second name beside its place. Its content is deleted.
 * 3. gone, and its entry as well.
 */
export async function deleteWorktree(
  repository: Repository,
  record: WorktreeRecord,
  check: (moved: WorktreeRecord) => Promise<void> = async () => undefined,
): Promise<void> {
  const { path, run } = record;
  await withStaleFileCleanup(repository, { kind: "removing", run: run ?? "", path }, async () => {
    await using scratch = await openScratch(repository.home);
    if (record.exists) await deleteTree(repository, record, { scratch: scratch.folder, check });
    else await deleteRest(record);
    await rename(record.gitDir, join(scratch.folder, "entry"));
    await syncFileSystem(repository.commonDir);
  });
}

async function deleteTree(
  repository: Repository,
  record: WorktreeRecord,
  params: { readonly scratch: string; readonly check: (moved: WorktreeRecord) => Promise<void> },
): Promise<void> {
  const { path } = record;
  const { whole, deleted } = removalPaths(path);
  await rename(path, whole);
  try {
    await params.check({ ...record, path: whole });
  } catch (error) {
    await putBack(whole, path, error);
    throw error;
  }
  const isNear = await rename(whole, join(params.scratch, "tree")).then(
    () => true,
    () => false,
  );
  if (!isNear) {
    // On another disk or mount. The new name is durable before the first file goes.
    await rename(whole, deleted);
    await syncFileSystem(deleted, { scratch: record.gitDir });
    await deleteFolder(deleted);
  }
  await syncFileSystem(repository.commonDir);
}

/** What an earlier removal left beside the place of a worktree that is gone. */
async function deleteRest({ path, gitDir }: WorktreeRecord): Promise<void> {
  const { whole, deleted } = removalPaths(path);
  if (await leadsTo(deleted, gitDir)) await deleteFolder(deleted);
  if (await leadsTo(whole, gitDir)) throw placeTaken(path, whole);
}

async function putBack(from: string, path: string, cause: unknown): Promise<void> {
  try {
    await rename(from, path);
  } catch {
    throw placeTaken(path, from, cause);
  }
}

function placeTaken(path: string, from: string, cause?: unknown): HoldfastError {
  return new HoldfastError({
    code: "CONFLICT",
    message: `the worktree is whole in ${from}, because its place was taken while it was to be removed`,
    hint: `Move what is at ${path} away, then move ${from} there.`,
    cause,
  });
}

const MAX_NAMED = 100;

const NO_LOSSES = {
  changed: [],
  untracked: [],
  ignored: [],
  nested: [],
  staged: [],
  refs: [],
  commits: [],
  operation: null,
} satisfies Partial<WorktreeLosses>;

export async function findLosses(repository: Repository, record: WorktreeRecord): Promise<WorktreeLosses> {
  const { locked } = record;
  if (!record.exists) return { ...NO_LOSSES, locked };
  const git = worktreeGit({ root: record.path, gitDir: record.gitDir });
  const [status, flagged, commits, refs, operation] = await Promise.all([
    readStatus(repository, { root: record.path, gitDir: record.gitDir }, git),
    findHidden(repository, record, git),
    findLoneCommits(git, record),
    git.line({ args: ["for-each-ref", "--format=%(refname)", "refs/worktree/"] }),
    findOperation(record.gitDir),
  ]);
  const untracked = status.untracked.filter((path) => path.endsWith("/"));
  const nested = [...new Set([...flagged.nested, ...untracked, ...findModules(record.gitDir)])];
  const changed = [...status.changed, ...flagged.changed];
  return { ...status, changed, nested, commits, refs: refs === "" ? [] : refs.split("\n"), operation, locked };
}

async function readStatus(
  repository: Repository,
  checkout: Checkout,
  git: Git,
): Promise<Pick<WorktreeLosses, "changed" | "untracked" | "ignored" | "staged">> {
  const args = ["status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all", "--ignored=matching"];
  const env = await disableFilters(repository);
  const lines = splitRecords(await git.output({ args: [...args, "--ignore-submodules=all"], env }));
  const found = createPathInspector(checkout.root);
  const named = (test: (code: string) => boolean): RawPath[] =>
    lines.filter((line) => test(line.slice(0, 2))).map((line) => line.slice(3));
  const others = named((code) => code === "??");
  const links = others.filter((path) => found(path).kind === "symlink");
  const isKeptOut = createKeptOutCheck({
    home: join(checkout.gitDir, PRIVATE_DIRECTORY),
    folds: foldsNames(repository.names),
  });
  const toIgnored = new Set([
    ...(await findLinksToIgnored(repository, checkout, links)),
    // The set-up made these.
    ...links.filter(isKeptOut),
  ]);
  return {
    changed: named((code) => code !== "??" && code !== "!!").map(quotePath),
    untracked: others.filter((path) => !toIgnored.has(path)).map(quotePath),
    ignored: [...named((code) => code === "!!"), ...toIgnored].map(quotePath),
    staged: named((code) => /^[^ ?!][^ ]$/.test(code)).map(quotePath),
  };
}

/** Finds what `git status` omits: edits under assume-unchanged or skip-worktree, and the content of submodules. */
async function findHidden(
  repository: Repository,
  record: WorktreeRecord,
  git: Git,
): Promise<{ readonly changed: string[]; readonly nested: string[] }> {
  const found = createPathInspector(record.path);
  const fileModes = await readFileModes(repository, record.gitDir);
  const worktree = { repository, root: record.path, fileModes };
  const changed: string[] = [];
  const nested: string[] = [];
  for (const line of splitRecords(await git.output({ args: ["ls-files", "-s", "-v", "-z"] }))) {
    const entry = parseIndexEntry(line);
    const isFlagged = entry.skip || /^[a-z]/.test(line);
    if (entry.mode === LINK_MODE) {
      if (found(entry.path).kind === "directory" && !isEmpty(absolutePath(record.path, entry.path)))
        nested.push(`${quotePath(entry.path)}/`);
    } else if (isFlagged && found(entry.path).kind !== "absent") {
      if (!matchesEntry(worktree, entry.path, entry)) changed.push(quotePath(entry.path));
    }
  }
  return { changed, nested };
}

function isEmpty(directory: Buffer): boolean {
  return readdirSync(directory).length === 0;
}

/** The repositories of submodules that this worktree has, also of those that are not checked out any more. Each may have commits. */
function findModules(gitDir: string): readonly string[] {
  const found: string[] = [];
  const queue = [""];
  for (let path = queue.pop(); path !== undefined; path = queue.pop()) {
    const folder = join(gitDir, "modules", path);
    const entries = existsSync(folder) ? readdirSync(folder, { withFileTypes: true }) : [];
    if (entries.some(({ name }) => name === "HEAD")) found.push(path);
    else for (const entry of entries) if (entry.isDirectory()) queue.push(`${path}${entry.name}/`);
  }
  return found;
}

async function findLoneCommits(git: Git, record: WorktreeRecord): Promise<string[]> {
  if (record.head === null) return [];
  const own = record.branch === null ? [] : [`--exclude=${record.branch.replace(/^refs\/heads\//, "")}`];
  const args = ["rev-list", `--max-count=${MAX_NAMED}`, record.head, "--not", ...own, "--branches", "--remotes"];
  return (await git.line({ args })).split("\n").filter((line) => line !== "");
}

function isLoss(value: WorktreeLosses[keyof WorktreeLosses]): boolean {
  return Array.isArray(value) ? value.length > 0 : value !== null && value !== false;
}

function refusal(record: WorktreeRecord, losses: WorktreeLosses): HoldfastError {
  const counts = (["changed", "untracked", "ignored", "nested", "refs", "commits"] as const)
    .filter((kind) => losses[kind].length > 0)
    .map((kind) => `${losses[kind].length} ${kind}`);
  const parts = [...counts, ...(losses.operation === null ? [] : [`a ${losses.operation} under way`])];
  const cut = (list: readonly string[]): readonly string[] => list.slice(0, MAX_NAMED);
  return new HoldfastError({
    code: "RESTORE_REFUSED",
    message: `removing ${record.path} would lose work: ${losses.locked ? "it is locked" : parts.join(", ")}`,
    hint: losses.locked
      ? `Run \`git worktree unlock ${record.path}\` first.`
      : "Save a checkpoint, push or merge its branch, or remove it by force.",
    retry: "ask",
    data: {
      ...losses,
      path: record.path,
      gitDir: join(record.gitDir),
      changed: cut(losses.changed),
      untracked: cut(losses.untracked),
      ignored: cut(losses.ignored),
    },
  });
}
