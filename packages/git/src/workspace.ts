// One worktree as a workspace: snapshots, restores, and switching to a branch.

import { join } from "node:path";
import type { BranchTarget, Workspace } from "@holdfast/core/workspace";
import { wrapMethodErrors } from "@holdfast/platform/error";
import { type Git, gitError } from "@holdfast/platform/git-command";
import { applyRestore } from "./apply-restore.ts";
import { createBranch, findOperation, moveBranch, readBranchTip, readHead, retryWhileLocked } from "./branch-refs.ts";
import {
  type CaptureOptions,
  DEFAULT_CAPTURE,
  type WorktreeContext,
  captureTree,
  findNotIgnored,
  keepOut,
} from "./capture.ts";
import { withObjectRepair } from "./damaged-objects.ts";
import { foldsNames, probeWorktreeNames } from "./folded-names.ts";
import { planRestore } from "./plan-restore.ts";
import { removeStaleOperations } from "./private-index.ts";
import { replaceIndex } from "./replace-index.ts";
import {
  type Checkout,
  type Repository,
  ensurePrivateDirectory,
  ensurePrivateGitDir,
  worktreeGit,
} from "./repository.ts";
import { readFileModes } from "./settings.ts";
import { previewSnapshot, takeSnapshot, toCurrentFiles } from "./snapshot.ts";
import { repairGitLink } from "./worktree-entry.ts";

export async function openGitWorkspace(repository: Repository, checkout: Checkout): Promise<Workspace> {
  const worktree = await openWorktreeContext(repository, checkout);
  const workspace: Workspace = {
    root: checkout.root,
    privateDirectory: worktree.home,
    notIgnored: (paths) => findNotIgnored(checkout, paths),
    keepOut: async (paths) => keepOut(worktree, paths),
    snapshot: (params) => withObjectRepair(worktree, () => takeSnapshot(worktree, params, optionsOf(params))),
    look: (params) =>
      withObjectRepair(worktree, () =>
        previewSnapshot(worktree, { ...params, message: "look\n\n" }, optionsOf(params)),
      ),
    currentFiles: (params) =>
      withObjectRepair(worktree, async () => toCurrentFiles(await captureTree(worktree, optionsOf(params)))),
    planRestore: (params) => withObjectRepair(worktree, () => planRestore(worktree, params)),
    applyRestore: (plan) => applyRestore(worktree, plan),
    switchTo: (params) => switchTo(worktree, params),
  };
  return wrapMethodErrors(workspace, checkout.root);
}

export async function openWorktreeContext(repository: Repository, checkout: Checkout): Promise<WorktreeContext> {
  const home = await ensurePrivateDirectory(checkout.gitDir);
  await removeStaleOperations(home);
  const { objectFormat } = repository;
  const isMain = checkout.gitDir === repository.commonDir;
  const names = isMain ? repository.names : await probeWorktreeNames(checkout.root, home);
  const privateGitDir = await ensurePrivateGitDir({ home, objectFormat, names });
  const fileModes = await readFileModes(repository, checkout.gitDir);
  const { root, gitDir } = checkout;
  return { repository, home, privateGitDir, folds: foldsNames(names), fileModes, root, gitDir };
}

function optionsOf(
  params: { readonly maxUntrackedBytes?: number; readonly includeIgnored?: boolean } = {},
): CaptureOptions {
  return {
    maxUntrackedBytes: params.maxUntrackedBytes ?? DEFAULT_CAPTURE.maxUntrackedBytes,
    includeIgnored: params.includeIgnored ?? DEFAULT_CAPTURE.includeIgnored,
  };
}

/** Changes refs and index only, so that no file is lost. After a kill, the same call completes it. */
async function switchTo(worktree: WorktreeContext, { branch, head, commits }: BranchTarget): Promise<boolean> {
  const { repository, root, gitDir } = worktree;
  const git = worktreeGit({ root, gitDir });
  const linked = await repairGitLink(worktree);
  const underWay = (await findOperation(gitDir)) !== null;
  const [now, tip] = await Promise.all([readHead(worktree), readBranchTip(repository, branch)]);
  const moved = tip !== null && tip !== head && commits === "drop";
  const isOnBranch = now.branch === branch && tip !== null && !moved;
  if (isOnBranch && !underWay) return linked;
  if (tip === null) await createBranch(repository, { branch, commit: head });
  if (moved) await moveBranch({ worktree, name: branch, ref: branch }, { from: tip, to: head });
  if (!isOnBranch) {
    const args = ["symbolic-ref", "HEAD", branch];
    const done = await retryWhileLocked(join(gitDir, "HEAD.lock"), () => git.result({ args }));
    if (done.code !== 0) throw gitError(args, done);
  }
  // Otherwise staged changes of the dropped commits would return with the next manual commit, and a conflict would
  // remain one.
  if (commits === "drop" || underWay) await replaceIndex(worktree, tip === null || moved ? head : tip);
  // This is the last step, because after a kill the operation shows that the rest is still to be done.
  if (underWay) await quitOperations(git, gitDir);
  return true;
}

/**
 * Ends abandoned git operations: their state is removed, files and commits remain. One operation may be nested in
 * another.
 */
async function quitOperations(git: Git, gitDir: string): Promise<void> {
  for (let last: string | null = null; ;) {
    const operation = await findOperation(gitDir);
    if (operation === null || operation === last) return;
    // "HEAD" is the current commit of the bisect, so that nothing is checked out.
    await git.result({ args: operation === "bisect" ? ["bisect", "reset", "HEAD"] : [operation, "--quit"] });
    last = operation;
  }
}
