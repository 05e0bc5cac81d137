// Removes what a run has in a repository: its worktrees, its branch and its refs.

import { rm, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { RUN_ID } from "@holdfast/core/run";
import type { RunRemains } from "@holdfast/core/workspace";
import { HoldfastError } from "@holdfast/platform/error";
import { readBranchTip } from "./branch-refs.ts";
import { syncRepository } from "./objects.ts";
import { deleteRefs, listRunRefs } from "./pins.ts";
import { deleteWorktree, findLosses } from "./remove-worktree.ts";
import type { Repository } from "./repository.ts";
import { OWN_BRANCH } from "./stale-files.ts";
import { parseSideWorktreeOwner } from "./worktree-entry.ts";
import { findWorktree, listWorktrees } from "./worktrees.ts";

/** Finds what the run has here, and which of it exists nowhere else. Changes nothing. */
export async function inspectRun(
  repository: Repository,
  params: { readonly run: string; readonly branch: string | null },
): Promise<RunRemains> {
  requireRunId(params.run);
  const record = await findWorktree(repository, params.run);
  const name = record?.branch ?? params.branch;
  const tip = name === null ? null : await readBranchTip(repository, name);
  const losses = record?.exists === true ? await findLosses(repository, record) : null;
  const sides = await findSides(repository, params.run);
  return {
    worktree: record?.exists === true ? record.path : null,
    sideWorktrees: sides.map(({ path }) => path),
    branch: name === null || tip === null ? null : { name, tip, own: OWN_BRANCH.test(name) },
    refs: await listRunRefs(repository, params.run),
    losses: {
      files: losses === null ? [] : [...losses.changed, ...losses.untracked, ...losses.nested],
      commits: name === null || tip === null ? [] : await findUnmerged(repository, name, tip),
      operation: losses?.operation ?? null,
    },
    locked: record?.locked === true,
  };
}

/**
 * Removes all of it, losses included. Each part is removed on its own, and a missing part is not an error, so the same
 * call completes what a kill interrupted. A branch that moved since `tip` was read stays, with CONFLICT.
 */
export async function removeRun(
  repository: Repository,
  params: { readonly run: string; readonly branch: { readonly name: string; readonly tip: string } | null },
): Promise<void> {
  const { run, branch } = params;
  requireRunId(run);
  const record = await findWorktree(repository, run);
  for (const side of await findSides(repository, run)) await deleteWorktree(repository, side);
  if (record !== undefined) await deleteWorktree(repository, record);
  if (branch !== null && OWN_BRANCH.test(branch.name)) await removeBranch(repository, branch);
  await deleteRefs(repository, await listRunRefs(repository, run));
  await syncRepository(repository);
  // Empty after the last run. Any other directory stays.
  if (record !== undefined) await rmdir(dirname(record.path)).catch(() => undefined);
}

async function removeBranch(
  repository: Repository,
  { name, tip }: { readonly name: string; readonly tip: string },
): Promise<void> {
  const now = await readBranchTip(repository, name);
  if (now !== null && now !== tip) {
    throw new HoldfastError({
      code: "CONFLICT",
      message: `${name} moved to ${now} while the run was removed`,
      hint: "Check its new commits, then run the command again.",
      data: { branch: name, tip: now, expected: tip },
    });
  }
  const short = name.replace(/^refs\/heads\//, "");
  // A copy of what the remote has, or had. It would still show the run's commits in `git log --all`.
  const copies = await repository.git.line({
    args: ["for-each-ref", "--format=%(refname)", `refs/remotes/*/${short}`],
  });
  const refs = [...(now === null ? [] : [name]), ...copies.split("\n").filter((ref) => ref !== "")];
  await deleteRefs(repository, refs);
  for (const ref of [name, ...refs]) await rm(join(repository.commonDir, "logs", ref), { force: true });
}

async function findSides(repository: Repository, run: string) {
  return (await listWorktrees(repository)).filter((record) => parseSideWorktreeOwner(record.run)?.run === run);
}

const MAX_NAMED = 100;

/** Commits that no other branch has, here or on a remote. The run's own branch on a remote is a copy, not a merge. */
async function findUnmerged(repository: Repository, branch: string, tip: string): Promise<readonly string[]> {
  const short = branch.replace(/^refs\/heads\//, "");
  const others = [`--exclude=${short}`, "--branches", `--exclude=*/${short}`, "--remotes"];
  const args = ["rev-list", `--max-count=${MAX_NAMED}`, tip, "--not", ...others];
  return (await repository.git.line({ args })).split("\n").filter((line) => line !== "");
}

function requireRunId(run: string): void {
  if (!RUN_ID.test(run)) throw new HoldfastError({ code: "USAGE", message: `${run} is not a run id` });
}
