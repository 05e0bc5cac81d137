import type { Workspaces } from "../../ports/workspace.ts";

/**
 * Where a crunch run's directory and its configuration are: the repository's main worktree, in which people and other tools look for them, and
 * which outlives the worktrees of runs. Of a bare repository the first worktree that is no run's; without one, and without a repository, `cwd`.
 */
export async function crunchRoot(workspaces: Pick<Workspaces, "list"> | null, cwd: string): Promise<string> {
  const worktrees = (await workspaces?.list()) ?? [];
  return worktrees.find(({ exists, run }) => exists && run === null)?.path ?? cwd;
}
