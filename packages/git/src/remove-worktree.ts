// Removes a run's worktree, after checking that nothing in it would be lost.

import { existsSync } from "node:fs";
import { readdir, rename, rm, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { WorktreeContent } from "@holdfast/core/workspace";
import { HoldfastError } from "@holdfast/platform/error";
import type { Git } from "@holdfast/platform/git-command";
import { fileKind } from "@holdfast/platform/files";
import { findOperation } from "./branch-refs.ts";
import { createPathInspector } from "./capture-plan.ts";
import { createKeptOutCheck, findLinksToIgnored } from "./capture.ts";
import { foldsNames } from "./folded-names.ts";
import { syncFileSystem } from "./objects.ts";
import { type RawPath, quotePath, splitRecords } from "./paths.ts";
import { matchesEntry } from "./plan-restore.ts";
import { LINK_MODE, openScratch, parseIndexEntry } from "./private-index.ts";
import { type Checkout, PRIVATE_DIRECTORY, type Repository, disableFilters, worktreeGit } from "./repository.ts";
import { type WorktreeRecord, defaultWorktreePath, findWorktree } from "./worktrees.ts";

/** Content of a worktree that exists nowhere else. */
export interface WorktreeLosses {
  readonly changed: readonly string[];
  readonly untracked: readonly string[];
  readonly ignored: readonly string[];
  /** Submodules and other nested repositories. */
  readonly nested: readonly string[];
  /** Commits that no other branch and no remote-tracking branch contains, newest first. */
  readonly commits: readonly string[];
  readonly operation: string | null;
  readonly locked: boolean;
}

export async function removeWorktree(repository: Repository, params: { run: string; force?: boolean }): Promise<void> {
  const record = await findWorktree(repository, params.run);
  if (record === undefined) return;
  if (record.exists || record.locked) {
    const losses = await findLosses(repository, record);
    const forced = params.force === true && !record.locked;
    if (!forced && Object.values(losses).some(isLoss)) throw refusal(record, losses);
  }
  await deleteWorktree(repository, record);
  // Ours, and empty after the last worktree. A directory that the user configured stays.
  if (record.path === defaultWorktreePath(repository, params.run))
    await rmdir(dirname(record.path)).catch(() => undefined);
}

/** What a worktree holds besides files that a checkpoint can hold; null: the run has none. Changes nothing. */
export async function inspectWorktree(repository: Repository, run: string): Promise<WorktreeContent | null> {
  const record = await findWorktree(repository, run);
  if (record === undefined) return null;
  const { path, exists, unfinished } = record;
  const { ignored, nested, operation, locked } = await findLosses(repository, record);
  // Without its parent directory, the disk with the worktree may only be unplugged.
  const isGone = !exists && existsSync(dirname(path)) && !existsSync(path);
  const isForeign = !exists && fileKind(join(path, ".git")) === "file";
  return { path, exists, isGone, isForeign, unfinished, ignored, nested, operation, locked };
}

/**
 * Does not use `git worktree remove`. A killed one leaves a partial directory that looks like user files, or a partial
 * entry on which git fails. Directory and entry are each renamed into our scratch directory and deleted there, now or
 * by a later sweep.
 */
export async function deleteWorktree(repository: Repository, record: WorktreeRecord): Promise<void> {
  await using scratch = await openScratch(repository.home);
  if (record.exists) {
    const moved = await rename(record.path, join(scratch.folder, "tree")).then(
      () => true,
      () => false,
    );
    if (!moved) await deleteFolder(record.path);
    await syncFileSystem(repository.commonDir);
  }
  await rename(record.gitDir, join(scratch.folder, "entry"));
  await syncFileSystem(repository.commonDir);
}

/**
 * For a directory on another disk or mount. Its link to git is removed last: until then the owner of the directory is
 * known.
 */
async function deleteFolder(path: string): Promise<void> {
  for (const name of await readdir(path)) {
    if (name !== ".git") await rm(join(path, name), { recursive: true, force: true });
  }
  await rm(path, { recursive: true, force: true });
}

const MAX_NAMED = 100;

export async function findLosses(repository: Repository, record: WorktreeRecord): Promise<WorktreeLosses> {
  const { locked } = record;
  if (!record.exists)
    return { changed: [], untracked: [], ignored: [], nested: [], commits: [], operation: null, locked };
  const git = worktreeGit({ root: record.path, gitDir: record.gitDir });
  const [status, flagged, commits, operation] = await Promise.all([
    readStatus(repository, { root: record.path, gitDir: record.gitDir }, git),
    findHidden(repository, record, git),
    findLoneCommits(git, record),
    findOperation(record.gitDir),
  ]);
  const nested = [...flagged.nested, ...status.untracked.filter((path) => path.endsWith("/"))];
  return { ...status, changed: [...status.changed, ...flagged.changed], nested, commits, operation, locked };
}

async function readStatus(
  repository: Repository,
  checkout: Checkout,
  git: Git,
): Promise<Pick<WorktreeLosses, "changed" | "untracked" | "ignored">> {
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
  };
}

/** Finds what `git status` omits: edits under assume-unchanged or skip-worktree, and the content of submodules. */
async function findHidden(
  repository: Repository,
  record: WorktreeRecord,
  git: Git,
): Promise<{ readonly changed: string[]; readonly nested: string[] }> {
  const found = createPathInspector(record.path);
  const changed: string[] = [];
  const nested: string[] = [];
  for (const line of splitRecords(await git.output({ args: ["ls-files", "-s", "-v", "-z"] }))) {
    const entry = parseIndexEntry(line);
    const isFlagged = entry.skip || /^[a-z]/.test(line);
    if (entry.mode === LINK_MODE) {
      if (found(`${entry.path}/.git`).kind !== "absent") nested.push(quotePath(entry.path));
    } else if (isFlagged && found(entry.path).kind !== "absent") {
      if (!matchesEntry(record.path, entry.path, entry, repository.objectFormat)) changed.push(quotePath(entry.path));
    }
  }
  return { changed, nested };
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
  const counts = (["changed", "untracked", "ignored", "nested", "commits"] as const)
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
