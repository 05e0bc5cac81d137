import type { WorkParts } from "../../engine/work-parts.ts";
import { HoldfastError } from "../../core/error.ts";
import type { Forge } from "../../ports/forge.ts";
import type { Workspace } from "../../ports/workspace.ts";
import { findBase } from "./find-base.ts";

/**
 * The worktree of a run, on a branch of its own that begins at the base branch, whatever the user has checked out. Made before the run
 * begins, so that its first checkpoint holds files; the same call again returns the one that is there.
 */
export async function makeImplWorktree(params: {
  readonly parts: Pick<WorkParts, "workspaces" | "branches" | "worktreePath">;
  readonly forge: Forge;
  readonly run: string;
  readonly baseBranch: string | null;
}): Promise<Workspace> {
  const { forge, run } = params;
  const { workspaces, branches, worktreePath } = params.parts;
  if (workspaces === null) {
    throw new HoldfastError({
      code: "NOT_A_REPOSITORY",
      message: "The impl workflow works in a git repository, and there is none here",
      hint: "Run it inside a clone of the repository that the issue is about.",
    });
  }
  const there = await workspaces.find(run);
  if (there !== undefined) return there;
  const other = (await workspaces.list()).find((tree) => tree.exists && tree.head !== null);
  const answer =
    other === undefined
      ? undefined
      : await findBase({ branch: await branches.of(other.path), forge, named: params.baseBranch });
  const path = worktreePath?.(run);
  return await workspaces.create({
    run,
    ...(path === undefined ? {} : { path }),
    ...(answer?.kind === "found" ? { base: answer.base.commit } : {}),
  });
}
