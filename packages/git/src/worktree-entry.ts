// The files that git and Holdfast keep about linked worktrees, and the repair of a worktree's link to git.

import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { lstat, readFile, readdir, rename, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import type { Checkout, Repository } from "./repository.ts";

/** One linked worktree under `worktrees/` of the common directory. */
export interface WorktreeEntry {
  readonly name: string;
  readonly gitDir: string;
  /** The content of the gitdir file, including its line end; "" if absent. */
  readonly link: string;
  /** The directory of the worktree; null while the gitdir file is incomplete. */
  readonly folder: string | null;
  /** The content of its HEAD; "" if absent. */
  readonly head: string;
  /**
   * The run it was created for, or `<run>/<key>` for a side worktree. null for a worktree of the user, or if its
   * creator was killed before it recorded the owner.
   */
  readonly run: string | null;
  /** True until all files are written. It remains true if the creator was killed. */
  readonly making: boolean;
  /** True while git creates the entry. It remains true if git was killed. */
  readonly initializing: boolean;
  /** True if something was checked out or staged in it before. */
  readonly used: boolean;
  /** True if git can use it: its repository, directory and HEAD are complete. */
  readonly whole: boolean;
}

export const OWNER_FILE = "holdfast-run";
export const UNFINISHED_FILE = "holdfast-making";

/** A run id contains no slash, so `<run>/<key>` is a side worktree of the run. */
export function parseSideWorktreeOwner(owner: string | null): { readonly run: string; readonly key: string } | null {
  const [, run, key] = /^([^/]+)\/([^/]+)$/.exec(owner ?? "") ?? [];
  return run === undefined || key === undefined ? null : { run, key };
}

/**
 * Reads the entries without git: one entry that a killed git left can make `git worktree list` fail for all of them.
 */
export async function readEntries(repository: Pick<Repository, "commonDir">): Promise<readonly WorktreeEntry[]> {
  const folder = join(repository.commonDir, "worktrees");
  const names = await readdir(folder).catch(() => []);
  return Promise.all(names.map((name) => readEntry(folder, name)));
}

async function readEntry(parent: string, name: string): Promise<WorktreeEntry> {
  const gitDir = join(parent, name);
  const text = (file: string): Promise<string | null> => readFile(join(gitDir, file), "utf8").catch(() => null);
  const [link, common, head, lock, owner, making] = await Promise.all(
    ["gitdir", "commondir", "HEAD", "locked", OWNER_FILE, UNFINISHED_FILE].map(text),
  );
  const folder = isLine(link) ? dirname(resolve(gitDir, link.slice(0, -1))) : null;
  return {
    name,
    gitDir,
    link: link ?? "",
    folder,
    head: head ?? "",
    run: isLine(owner) ? owner.trim() : null,
    making: making !== null,
    used: existsSync(join(gitDir, "index")),
    initializing: lock?.trim() === "initializing",
    whole: folder !== null && isLine(common) && HEAD.test(head ?? ""),
  };
}

/** Git and Holdfast end each of these files with a newline, so a file without one is truncated. */
function isLine(text: string | null | undefined): text is string {
  return text !== null && text !== undefined && /^[^\0]+\n$/.test(text);
}

/** Until a new worktree is on its branch, its HEAD is an all-zero id, on which git's gc and reset fail. */
const HEAD = /^(?:ref: refs\/[^\0]+|(?!0+\n)[0-9a-f]{40,64})\n$/;

/**
 * Restores a worktree's `.git` file; returns whether it was missing. A user or agent that empties a directory with `rm`
 * deletes it, and then git does not recognise the files. A repository in its place (`git init`) is moved into the
 * worktree's git directory, not deleted.
 */
export async function repairGitLink({ root, gitDir }: Checkout): Promise<boolean> {
  const link = join(root, ".git");
  const [files, there] = await Promise.all([readdir(root).catch(() => []), lstat(link).catch(() => undefined)]);
  // An empty directory contains nothing to save. The worktree is created again instead.
  if (files.length === 0 || gitDir === link) return false;
  if (there !== undefined && !there.isDirectory()) return false;
  if (there !== undefined) await rename(link, join(gitDir, `replaced-${randomBytes(4).toString("hex")}`));
  await writeFile(link, `gitdir: ${gitDir}\n`, { flag: "wx" });
  return true;
}
