import { HoldfastError } from "../core/error.ts";
import type { Branch } from "../ports/branch.ts";
import type { Place } from "./observe-place.ts";
import type { WorkParts } from "./work-parts.ts";

/**
 * A branch to ask the remote and the history through. Any worktree of the repository will do when the run's own is gone or stands on
 * no branch; null when there is none.
 */
export async function openAskingBranch(parts: WorkParts, place: Place): Promise<Branch | null> {
  const others = (await parts.workspaces?.list()) ?? [];
  const usable = others.filter((tree) => tree.exists && tree.branch !== null).map((tree) => tree.path);
  for (const root of place.root === null ? usable : [place.root, ...usable]) {
    try {
      return await parts.branches.of(root);
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error;
    }
  }
  return null;
}

/** A commit that is not here (it could not be fetched) reaches nothing and is reached by nothing. */
export async function reaches(branch: Branch, ancestor: string, of: string): Promise<boolean> {
  try {
    return await branch.isAncestor({ ancestor, of });
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "GIT_FAILED") return false;
    throw error;
  }
}
