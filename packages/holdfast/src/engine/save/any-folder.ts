import type { Workspaces } from "../../ports/workspace.ts";

/** A folder from which the repository can be asked: a worktree, wherever it stands, or the repository itself when it is bare. */
export async function anyFolder(workspaces: Workspaces, first: string | null = null): Promise<string | null> {
  if (first !== null) return first;
  const tree = (await workspaces.list()).find(({ exists }) => exists);
  return tree?.path ?? (workspaces.bare ? workspaces.commonDir : null);
}
