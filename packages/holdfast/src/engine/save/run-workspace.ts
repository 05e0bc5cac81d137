import type { Run } from "../../core/run/run.ts";
import type { Workspace } from "../../ports/workspace.ts";
import type { Parts } from "../parts.ts";
import { findLabelled } from "./worktree-label.ts";

/** The worktree made for this run, or the one it was started in; undefined when neither is there. */
export async function findRunWorkspace(parts: Parts, run: Run): Promise<Workspace | undefined> {
  const { workspaces } = parts;
  if (workspaces === null) return undefined;
  const own = await workspaces.find(run.id);
  if (own !== undefined) return own;
  const tree = findLabelled(await workspaces.list(), run.labels);
  return tree?.exists === true ? await workspaces.open(tree.path) : undefined;
}
