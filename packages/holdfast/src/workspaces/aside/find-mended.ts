import { mendGitLink } from "../worktree/git-link.ts";
import type { Repository } from "../repository.ts";
import { findWorktree } from "../worktree/worktree-list.ts";
import type { WorktreeRecord } from "../worktree/worktree-list.ts";

/** The worktree of an owner; an agent may have cleaned its own link to git away, or put a repository in its place. */
export async function findMended(repository: Repository, owner: string): Promise<WorktreeRecord | undefined> {
  const found = await findWorktree(repository, owner);
  const isMended = found?.exists === false && (await mendGitLink({ root: found.path, gitDir: found.gitDir }));
  return isMended ? await findWorktree(repository, owner) : found;
}
