import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { lstat, readFile, readdir, rename, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import type { Checkout, Repository } from "./repository.ts";

/** What git and Holdfast keep about one linked worktree, under `worktrees/` of the common directory. */
export interface WorktreeEntry {
  readonly name: string;
  readonly gitDir: string;
  /** As written, with its end of line; "" when absent. */
  readonly link: string;
  /** The folder that it stands for; null while that is not written whole. */
  readonly folder: string | null;
  /** The contents of its HEAD; "" when absent. */
  readonly head: string;
  /** The run it was made for, with a key behind it for an aside of the run; null for a worktree of the user's, or when its maker was killed while writing it down. */
  readonly run: string | null;
  /** Its files were not all written yet when its maker was killed. */
  readonly making: boolean;
  /** git is, or was when it was killed, still making the entry. */
  readonly initializing: boolean;
  /** Something was checked out or staged in it once. */
  readonly used: boolean;
  /** git can use it: it knows its repository, its folder and where it stands. */
  readonly whole: boolean;
}

export const OWNER_FILE = "holdfast-run";
export const UNFINISHED_FILE = "holdfast-making";

/** No run's id holds a slash: `<run>/<key>` is an aside of it. */
export function parseSideWorktreeOwner(owner: string | null): { readonly run: string; readonly key: string } | null {
  const [, run, key] = /^([^/]+)\/([^/]+)$/.exec(owner ?? "") ?? [];
  return run === undefined || key === undefined ? null : { run, key };
}

/** Read by hand: one entry that git was killed in can stop `git worktree list` for all of them. */
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

/** git and we end each of these files with its line, so what has no end was torn. */
function isLine(text: string | null | undefined): text is string {
  return text !== null && text !== undefined && /^[^\0]+\n$/.test(text);
}

/** Until a new worktree is put on its branch its HEAD is an id of zeros, on which git's own gc and reset stumble. */
const HEAD = /^(?:ref: refs\/[^\0]+|(?!0+\n)[0-9a-f]{40,64})\n$/;

/**
 * Gives a worktree its `.git` file back: whoever cleans a folder with `rm` takes it along, and without it git knows nothing of the files
 * that are there. A repository that was made in its place (`git init`) is moved beside what git keeps of the worktree, not deleted. Was it
 * gone?
 */
export async function repairGitLink({ root, gitDir }: Checkout): Promise<boolean> {
  const link = join(root, ".git");
  const [files, there] = await Promise.all([readdir(root).catch(() => []), lstat(link).catch(() => undefined)]);
  // An empty folder holds nothing that would be worth it: it is made anew, whole.
  if (files.length === 0 || gitDir === link) return false;
  if (there !== undefined && !there.isDirectory()) return false;
  if (there !== undefined) await rename(link, join(gitDir, `replaced-${randomBytes(4).toString("hex")}`));
  await writeFile(link, `gitdir: ${gitDir}\n`, { flag: "wx" });
  return true;
}
