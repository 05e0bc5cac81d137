import { randomBytes } from "node:crypto";
import { lstat, readdir, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Checkout } from "../repository.ts";

/**
 * Gives a worktree its `.git` file back: whoever cleans a folder with `rm` takes it along, and without it git knows nothing of the files
 * that are there. A repository that was made in its place (`git init`) is moved beside what git keeps of the worktree, not deleted. Was it
 * gone?
 */
export async function mendGitLink({ root, gitDir }: Checkout): Promise<boolean> {
  const link = join(root, ".git");
  const [files, there] = await Promise.all([readdir(root).catch(() => []), lstat(link).catch(() => undefined)]);
  // An empty folder holds nothing that would be worth it: it is made anew, whole.
  if (files.length === 0 || gitDir === link) return false;
  if (there !== undefined && !there.isDirectory()) return false;
  if (there !== undefined) await rename(link, join(gitDir, `replaced-${randomBytes(4).toString("hex")}`));
  await writeFile(link, `gitdir: ${gitDir}\n`, { flag: "wx" });
  return true;
}
