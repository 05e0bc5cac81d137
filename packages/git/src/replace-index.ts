// Replaces a worktree's index under git's own lock.

import { link, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { object, parseJsonAs } from "@holdfast/core/json";
import { HoldfastError, errorCode } from "@holdfast/platform/error";
import type { Git } from "@holdfast/platform/git-command";
import { livenessOf, processIdentity } from "@holdfast/platform/identity";
import type { WorktreeContext } from "./capture.ts";
import type { Respelling } from "./folded-names.ts";
import { joinRecords, splitRecords } from "./paths.ts";
import { PROCESS, openScratch, parseIndexEntry } from "./private-index.ts";
import { type Repository, privateGit, worktreeGit } from "./repository.ts";

/**
 * Sets the worktree's index to the commit or tree, with stat data, so that `git status` is clean for matching files. The index
 * is built in a scratch directory and renamed into place under git's lock. Git never works on the real index here, so a
 * kill can leave only our own lock.
 */
export async function replaceIndex(worktree: WorktreeContext, commit: string): Promise<void> {
  await rewriteIndex(worktree, (git, draft) => build(git, draft, commit));
}

/** Sets the worktree's index to what the index of a snapshot had staged. False: that is not known here, and nothing changes. */
export async function stageIndex(worktree: WorktreeContext, blob: string): Promise<boolean> {
  const tree = await writeStagedTree(worktree.repository, blob);
  if (tree !== null) await replaceIndex(worktree, tree);
  return tree !== null;
}

/**
 * The tree of what an index has staged. Null: an object of it is missing, or it has conflicts. The index may come from another machine, so git
 * reads it as a private file and never as the worktree's own.
 */
export async function writeStagedTree(repository: Repository, blob: string): Promise<string | null> {
  const bytes = await repository.objects.result({ args: ["cat-file", "blob", blob] });
  if (bytes.code !== 0) return null;
  await using scratch = await openScratch(repository.home);
  await writeFile(join(scratch.folder, "index"), bytes.stdout);
  const written = await privateGit(repository, scratch.folder).result({ args: ["write-tree"] });
  return written.code === 0 ? written.stdout.toString("latin1").trim() : null;
}

/** Lets `edit` change a copy of the worktree's index, refreshes the stat data and puts it into place as above. */
async function rewriteIndex(
  worktree: WorktreeContext,
  edit: (git: Git, draft: string) => Promise<unknown>,
): Promise<void> {
  await using scratch = await openScratch(worktree.home);
  await withIndexLock(worktree, scratch.folder, async () => {
    const index = join(worktree.gitDir, "index");
    const draft = join(scratch.folder, "index");
    // A hard link keeps the exact time of the file, by which git judges racily clean files. Git replaces an index and
    // never writes into one.
    await link(index, draft).catch(ignoreAbsent);
    const git = worktreeGit(worktree, draft);
    await edit(git, draft);
    // Exit code 1 means that some files differ, which is not a failure.
    await git.result({ args: [...WHOLE, "update-index", "-q", "--refresh"] });
    await rename(draft, index);
  });
}

/**
 * Gives the entries of the user's index the new names, as `git mv` does. Their staged content stays. Without it, git would
 * keep the old name in every later commit, because on such a file system it takes the name from its index.
 */
export async function respellIndex(worktree: WorktreeContext, respellings: readonly Respelling[]): Promise<void> {
  if (respellings.length === 0) return;
  const listed = await worktreeGit(worktree).output({ args: ["ls-files", "-s", "-v", "-z"] });
  const entries = splitRecords(listed).map((record) => ({
    ...parseIndexEntry(record),
    merged: IS_MERGED.test(record),
  }));
  const byPath = new Map(entries.map((entry) => [entry.path, entry]));
  const lines = respellings.flatMap(({ from, to }) => {
    const entry = byPath.get(from);
    // An unresolved conflict is left to the user.
    if (entry === undefined || !entry.merged) return [];
    const removal = `0 ${worktree.repository.zero}\t${from}`;
    return byPath.has(to) ? [removal] : [removal, `${entry.mode} ${entry.id}\t${to}`];
  });
  if (lines.length === 0) return;
  await rewriteIndex(worktree, (git) =>
    git.output({
      args: [...WHOLE, "update-index", "-z", "--index-info"],
      input: joinRecords(lines),
    }),
  );
}

/** Stage 0 before the tab. */
const IS_MERGED = /^[^\t]* 0\t/;

async function build(git: Git, draft: string, commit: string): Promise<void> {
  const kept = await git.result({ args: [...WHOLE, "read-tree", "--reset", commit] });
  if (kept.code !== 0) {
    // A power cut can leave an index that git cannot read. It is rebuilt.
    await rm(draft, { force: true });
    await git.output({ args: [...WHOLE, "read-tree", commit] });
  }
}

const WHOLE = ["-c", "core.splitIndex=false"];

function ignoreAbsent(error: unknown): void {
  if (errorCode(error) === "ENOENT") return;
  throw error;
}

/**
 * Holds git's lock on the worktree's index. The lock file names its holder, so that the lock of a killed Holdfast
 * process can be removed.
 */
async function withIndexLock(worktree: WorktreeContext, scratch: string, work: () => Promise<void>): Promise<void> {
  const lock = join(worktree.gitDir, "index.lock");
  for (let attempt = 1; !(await takeLock(lock, scratch)); attempt++) {
    if (attempt > ATTEMPTS) throw indexLocked(worktree, lock);
    await setTimeout(PAUSE_MS);
  }
  try {
    await work();
  } finally {
    await rm(lock, { force: true });
  }
}

const ATTEMPTS = 10;
const PAUSE_MS = 100;

/** Creates git's lock file with the name of this process in it, also in place of the lock of a Holdfast process that was killed. */
export async function takeLock(lock: string, scratch: string): Promise<boolean> {
  const draft = join(scratch, "lock");
  await writeFile(draft, JSON.stringify({ holdfast: processIdentity() }));
  if (await take(draft, lock)) return true;
  if ((await holderOf(lock)) !== "dead") return false;
  await rm(lock, { force: true });
  return await take(draft, lock);
}

/** Creates the lock as a hard link, so that it never exists without its text. */
async function take(draft: string, lock: string): Promise<boolean> {
  try {
    await link(draft, lock);
    return true;
  } catch (error) {
    if (errorCode(error) === "EEXIST") return false;
    throw error;
  }
}

/** True for the lock of a Holdfast process that may be alive. */
export async function isLockedByHoldfast(lock: string): Promise<boolean> {
  const holder = await holderOf(lock);
  return holder !== undefined && holder !== "dead";
}

/** Whether the Holdfast process that holds the lock is alive. undefined for git's own locks, which name no holder. */
async function holderOf(lock: string): Promise<ReturnType<typeof livenessOf> | undefined> {
  const found = parseJsonAs(LOCK, await readFile(lock, "utf8").catch(() => ""));
  return found === undefined ? undefined : livenessOf(found.holdfast, processIdentity());
}

/** Git's own lock contains an index or nothing yet. */
const LOCK = object({ holdfast: PROCESS });

function indexLocked(worktree: WorktreeContext, lock: string): HoldfastError {
  return new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: `git is at work in ${worktree.root} (${lock} exists)`,
    hint: "Wait for it; if no git process is running, remove that file.",
    retry: "later",
    data: { lock },
  });
}
