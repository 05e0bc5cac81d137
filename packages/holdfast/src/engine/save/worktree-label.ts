import type { JsonObject } from "../../core/json.ts";
import type { WorktreeInfo } from "../../ports/workspace.ts";

/** Label of a run that captures a worktree of the user's: which one. */
export const WORKTREE = "worktree";

/** Of a fork that was asked to have no worktree: its saves hold no files. */
export const NO_WORKTREE = "none";

/** The main worktree moves with its repository, so it is not remembered by its path. */
const MAIN = "main";

export function labelOf(path: string, worktrees: readonly WorktreeInfo[]): string {
  return worktrees[0]?.path === path ? MAIN : path;
}

export function findLabelled(worktrees: readonly WorktreeInfo[], labels: JsonObject): WorktreeInfo | undefined {
  const label = labels[WORKTREE];
  return label === MAIN ? worktrees[0] : worktrees.find((tree) => tree.path === label);
}
