import { access } from "node:fs/promises";
import { join } from "node:path";

/** The git operation that is under way in a worktree, by its name; null when there is none. */
export async function findOperation(gitDir: string): Promise<string | null> {
  const present = await Promise.all(MARKS.map(([file]) => exists(join(gitDir, file))));
  return MARKS.find((_, place) => present[place] === true)?.[1] ?? null;
}

/** Somebody holds the user's index at this moment, or was killed while doing so. */
export async function findIndexLock(gitDir: string): Promise<string | null> {
  const path = join(gitDir, "index.lock");
  return (await exists(path)) ? path : null;
}

const MARKS: readonly (readonly [file: string, operation: string])[] = [
  ["rebase-merge", "rebase"],
  ["rebase-apply/applying", "am"],
  ["rebase-apply", "rebase"],
  ["MERGE_HEAD", "merge"],
  ["CHERRY_PICK_HEAD", "cherry-pick"],
  ["REVERT_HEAD", "revert"],
  ["BISECT_LOG", "bisect"],
];

function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
