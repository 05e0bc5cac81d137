// Replaces a worktree's index under git's own lock.

import { link, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { HoldfastError } from "@holdfast/platform/error";
import { type Git, createGit } from "@holdfast/platform/git-command";
import { type ProcessIdentity, livenessOf, processIdentity } from "@holdfast/platform/identity";
import type { WorktreeContext } from "./capture.ts";
import { openScratch } from "./private-index.ts";

/**
 * Sets the worktree's index to the commit, with stat data, so that `git status` is clean for matching files. The index
 * is built in a scratch directory and renamed into place under git's lock. Git never works on the real index here, so a
 * kill can leave only our own lock.
 */
export async function replaceIndex(worktree: WorktreeContext, commit: string): Promise<void> {
  const scratch = await openScratch(worktree.home);
  try {
    await withIndexLock(worktree, scratch.folder, async () => {
      const index = join(worktree.gitDir, "index");
      const draft = join(scratch.folder, "index");
      // A hard link keeps the exact time of the file, by which git judges racily clean files. Git replaces an index and
      // never writes into one.
      await link(index, draft).catch(ignoreAbsent);
      const git = createGit({ cwd: worktree.root, gitDir: worktree.gitDir, workTree: worktree.root, indexFile: draft });
      await build(git, draft, commit);
      await rename(draft, index);
    });
  } finally {
    await scratch.release();
  }
}

async function build(git: Git, draft: string, commit: string): Promise<void> {
  const kept = await git.result({ args: [...WHOLE, "read-tree", "--reset", commit] });
  if (kept.code !== 0) {
    // A power cut can leave an index that git cannot read. It is rebuilt.
    await rm(draft, { force: true });
    await git.output({ args: [...WHOLE, "read-tree", commit] });
  }
  // Exit code 1 means that some files differ, which is not a failure.
  await git.result({ args: [...WHOLE, "update-index", "-q", "--refresh"] });
}

const WHOLE = ["-c", "core.splitIndex=false"];

function ignoreAbsent(error: unknown): void {
  if (error instanceof Error && "code" in error && error.code === "ENOENT") return;
  throw error;
}

/**
 * Holds git's lock on the worktree's index. The lock file names its holder, so that the lock of a killed Holdfast
 * process can be removed.
 */
async function withIndexLock(worktree: WorktreeContext, scratch: string, work: () => Promise<void>): Promise<void> {
  const lock = join(worktree.gitDir, "index.lock");
  const draft = join(scratch, "index-lock");
  await writeFile(draft, JSON.stringify({ holdfast: processIdentity() }));
  for (let attempt = 1; !(await take(draft, lock)); attempt++) {
    if (attempt > ATTEMPTS) throw indexLocked(worktree, lock);
    if (await isLeftByUs(lock)) await rm(lock, { force: true });
    else await setTimeout(PAUSE_MS);
  }
  try {
    await work();
  } finally {
    await rm(lock, { force: true });
  }
}

const ATTEMPTS = 10;
const PAUSE_MS = 100;

/** Creates the lock as a hard link, so that it never exists without its text. */
async function take(draft: string, lock: string): Promise<boolean> {
  try {
    await link(draft, lock);
    return true;
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "EEXIST") return false;
    throw error;
  }
}

/** True for the lock of a Holdfast process that may be alive. Git's own locks name no holder. */
export async function isLockedByHoldfast(lock: string): Promise<boolean> {
  const owner = parseOwner(await readFile(lock, "utf8").catch(() => ""));
  return owner !== undefined && livenessOf(owner, processIdentity()) !== "dead";
}

async function isLeftByUs(lock: string): Promise<boolean> {
  const owner = parseOwner(await readFile(lock, "utf8").catch(() => ""));
  return owner !== undefined && livenessOf(owner, processIdentity()) === "dead";
}

/** undefined for git's own lock, which contains an index or nothing yet. */
function parseOwner(text: string): ProcessIdentity | undefined {
  if (!text.startsWith('{"holdfast":')) return undefined;
  try {
    const { holdfast }: { holdfast?: Partial<Record<string, unknown>> } = JSON.parse(text);
    const { host, pid, started, boot } = holdfast ?? {};
    if (typeof host !== "string" || typeof pid !== "number") return undefined;
    return {
      host,
      pid,
      started: typeof started === "string" ? started : null,
      boot: typeof boot === "string" ? boot : null,
    };
  } catch {
    return undefined;
  }
}

function indexLocked(worktree: WorktreeContext, lock: string): HoldfastError {
  return new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: `git is at work in ${worktree.root} (${lock} exists)`,
    hint: "Wait for it; if no git process is running, remove that file.",
    retry: "later",
    data: { lock },
  });
}
