// Finds the worktree of a run after the repository, the worktree or both were moved, and links the two again as
// `git worktree repair` does. A command that only reads writes no link: in a container the links may be right for the host.

import { lstat, realpath, rename, rm } from "node:fs/promises";
import { basename, dirname, join, sep } from "node:path";
import { errorCode } from "@holdfast/platform/error";
import { syncDirectory, writeDurable } from "@holdfast/platform/files";
import { type Repository, readGitLink, useMovedWorktree, worktreesFolder } from "./repository.ts";
import { type WorktreeEntry, readEntries } from "./worktree-entry.ts";

type FolderEntry = Pick<WorktreeEntry, "name" | "gitDir" | "run"> & { readonly folder: string };

/** Where the worktree of an entry is. `exists` is false if no directory is proven to be this worktree. */
export interface LocatedWorktree {
  readonly path: string;
  readonly exists: boolean;
}

/** Changes nothing: a worktree that was moved is used where it is, also before its link is repaired. */
export async function locateWorktree(
  repository: Pick<Repository, "mainRoot" | "commonDir">,
  entry: FolderEntry,
): Promise<LocatedWorktree> {
  const { folder } = entry;
  if (await leadsTo(folder, entry.gitDir)) return { path: folder, exists: true };
  // A worktree of the user is not ours to look for.
  if (entry.run === null) return { path: folder, exists: false };
  if (await isLeftBehind(folder, entry)) return { path: folder, exists: true };
  const proven: string[] = [];
  for (const path of newPlaces(repository, folder))
    if ((await leadsTo(path, entry.gitDir)) || (await isLeftBehind(path, entry))) proven.push(path);
  const [path] = proven;
  // Of two copies, either may be the one with the user's edits.
  return path !== undefined && proven.length === 1 ? { path, exists: true } : { path: folder, exists: false };
}

/**
 * Writes both links of each moved worktree of a run. A kill between the two leaves a directory that leads to its entry, so the
 * next call completes it.
 */
export async function relinkMovedWorktrees(repository: Repository): Promise<void> {
  for (const { path, folder, gitDir } of await findMovedWorktrees(repository)) {
    const link = join(path, ".git");
    if (!(await leadsTo(path, gitDir))) await replaceLink(link, gitDir);
    if (path !== folder) writeLine(join(gitDir, "gitdir"), link);
  }
}

/** Lets this process use each moved worktree of a run where it is. Writes nothing. */
export async function useMovedWorktrees(repository: Repository): Promise<void> {
  for (const { path, gitDir } of await findMovedWorktrees(repository))
    useMovedWorktree(repository, { root: await realpath(path), gitDir });
}

async function findMovedWorktrees(
  repository: Repository,
): Promise<readonly { readonly path: string; readonly folder: string; readonly gitDir: string }[]> {
  const found: { readonly path: string; readonly folder: string; readonly gitDir: string }[] = [];
  for (const entry of await readEntries(repository)) {
    const { folder, gitDir, run } = entry;
    if (folder === null || run === null || (await leadsTo(folder, gitDir))) continue;
    const { path, exists } = await locateWorktree(repository, { ...entry, folder });
    if (exists) found.push({ path, folder, gitDir });
  }
  return found;
}

/** A kill leaves no temporary file in the worktree, unless it is on another file system than the repository. */
async function replaceLink(link: string, gitDir: string): Promise<void> {
  const line = `gitdir: ${gitDir}`;
  const fresh = join(gitDir, "holdfast-link");
  writeLine(fresh, line);
  await rename(fresh, link).catch(async (error: unknown) => {
    await rm(fresh, { force: true });
    if (errorCode(error) !== "EXDEV") throw error;
    writeLine(link, line);
  });
  syncDirectory(dirname(link));
}

function writeLine(path: string, line: string): void {
  writeDurable({ path, data: Buffer.from(`${line}\n`), mode: "replace", permissions: 0o644 });
}

/** True if the worktree at this path exists and belongs to this git directory. */
export async function leadsTo(path: string, gitDir: string): Promise<boolean> {
  const link = await realpath(await readGitLink(join(path, ".git"))).catch(() => undefined);
  return link !== undefined && link === (await realpath(gitDir));
}

/**
 * True if the directory names an entry of this name in a repository that is no longer there. The worktree of a repository that
 * was copied names the original, which is still there.
 */
async function isLeftBehind(path: string, { name }: FolderEntry): Promise<boolean> {
  const dotGit = join(path, ".git");
  const isFile = await lstat(dotGit).then(
    (found) => found.isFile(),
    () => false,
  );
  if (!isFile) return false;
  const target = await readGitLink(dotGit);
  if (basename(target) !== name || basename(dirname(target)) !== "worktrees") return false;
  return lstat(target).then(
    () => false,
    (error: unknown) => errorCode(error) === "ENOENT" || errorCode(error) === "ENOTDIR",
  );
}

/** Where the directory is if it was moved together with the repository: beside it or in it, under the old name or the default one. */
function newPlaces({ mainRoot, commonDir }: Pick<Repository, "mainRoot" | "commonDir">, folder: string): Set<string> {
  const parts = folder.split(sep);
  const last = (count: number): string => parts.slice(-count).join(sep);
  const root = mainRoot ?? commonDir;
  const own = worktreesFolder({ mainRoot, commonDir });
  const places = [
    ...[1, 2].map((count) => join(own, last(count))),
    ...[dirname(root), root].flatMap((base) => [2, 3].map((count) => join(base, last(count)))),
  ];
  return new Set(places.filter((path) => path !== folder));
}
