import { HoldfastError } from "../core/error.ts";
import { labelOf } from "../engine/save/worktree-label.ts";
import type { Workspace, Workspaces } from "../ports/workspace.ts";

/** The worktree that we are in; undefined where there is none. */
export async function worktreeHere(workspaces: Workspaces | null, cwd: string): Promise<Workspace | undefined> {
  try {
    return await workspaces?.open(cwd);
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "WORKSPACE_MISSING") return undefined;
    throw error;
  }
}

/** The run that the worktree we are in was made for, or the label of the worktree. */
export async function runHere(workspaces: Workspaces | null, cwd: string): Promise<string | undefined> {
  const here = (await worktreeHere(workspaces, cwd))?.root;
  const trees = here === undefined ? [] : ((await workspaces?.list()) ?? []);
  return here === undefined ? undefined : (trees.find((tree) => tree.path === here)?.run ?? labelOf(here, trees));
}

/** What runs that capture the worktree we are in are labelled with. */
export async function labelHere(workspaces: Workspaces | null, cwd: string): Promise<string | undefined> {
  const here = (await worktreeHere(workspaces, cwd))?.root;
  return here === undefined ? undefined : labelOf(here, (await workspaces?.list()) ?? []);
}
