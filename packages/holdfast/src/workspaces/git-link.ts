import { lstat, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Checkout } from "./repository.ts";

/**
 * Gives a worktree its `.git` file back: whoever cleans a folder with `rm` takes it along, and without it git knows nothing of the files
 * that are there. Only where nothing stands in its place. Was it gone?
 */
export async function mendGitLink({ root, gitDir }: Checkout): Promise<boolean> {
  const link = join(root, ".git");
  const [files, there] = await Promise.all([readdir(root).catch(() => []), lstat(link).catch(() => undefined)]);
  // An empty folder holds nothing that would be worth it: it is made anew, whole.
  if (files.length === 0 || there !== undefined || gitDir === link) return false;
  await writeFile(link, `gitdir: ${gitDir}\n`, { flag: "wx" });
  return true;
}
