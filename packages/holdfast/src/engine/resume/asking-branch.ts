import { HoldfastError } from "../../core/error.ts";
import type { Asking } from "../../ports/branch.ts";
import { anyFolder } from "../save/any-folder.ts";
import type { Place } from "./observe-place.ts";
import type { WorkParts } from "../work-parts.ts";

/** The repository, to ask the remote and the history: through any of its worktrees when the run's own is gone; null when there is none. */
export async function openAskingBranch(parts: WorkParts, place: Place): Promise<Asking | null> {
  const { workspaces, branches } = parts;
  const folder = workspaces === null ? null : await anyFolder(workspaces, place.root);
  return folder === null ? null : await branches.asking(folder);
}

/** A commit that is not here (it could not be fetched) reaches nothing and is reached by nothing. */
export async function reaches(branch: Asking, ancestor: string, of: string): Promise<boolean> {
  try {
    return await branch.isAncestor({ ancestor, of });
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "GIT_FAILED") return false;
    throw error;
  }
}
