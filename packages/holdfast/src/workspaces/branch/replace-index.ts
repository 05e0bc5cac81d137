import { link, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import type { CapturePlace } from "../capture/capture.ts";
import { createGit, type Git } from "../git/git-command.ts";
import { openScratch } from "../indexes/private-index.ts";
import { withIndexLock } from "./index-lock.ts";

/**
 * Makes the worktree's index say what the commit has, with stat data, so that `git status` is clean where the files are. Built aside and
 * put in place under git's own lock: git itself never works on the real index here, so a kill leaves no lock but ours.
 */
export async function replaceIndex(place: CapturePlace, commit: string): Promise<void> {
  const scratch = await openScratch(place.home);
  try {
    await withIndexLock(place, scratch.folder, async () => {
      const index = join(place.gitDir, "index");
      const draft = join(scratch.folder, "index");
      // A second name for the same file keeps its exact time, by which git judges racily clean files; git replaces, never writes into it.
      await link(index, draft).catch(ignoreAbsent);
      const git = createGit({ cwd: place.root, gitDir: place.gitDir, workTree: place.root, indexFile: draft });
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
    // A power cut can leave an index that git cannot read: it is made anew.
    await rm(draft, { force: true });
    await git.output({ args: [...WHOLE, "read-tree", commit] });
  }
  // Exit 1 says that some files differ, which is for the user to see and no failure.
  await git.result({ args: [...WHOLE, "update-index", "-q", "--refresh"] });
}

const WHOLE = ["-c", "core.splitIndex=false"];

function ignoreAbsent(error: unknown): void {
  if (error instanceof Error && "code" in error && error.code === "ENOENT") return;
  throw error;
}
