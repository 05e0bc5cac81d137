import { HoldfastError } from "../../core/error.ts";
import type { Asking, Branch, Branches } from "../../ports/branch.ts";
import { createGit } from "../git-command.ts";
import { guardMethods, tellFailures } from "../failure-border.ts";
import { ensureHome, ensurePrivateGitDir } from "../private-git-dir.ts";
import { sweepOperations } from "../private-index.ts";
import { readHead } from "../read-head.ts";
import { findCheckout, findRepository } from "../repository.ts";
import { fetchRemote, findDefaultBranch, lookUpRemote, readRemoteBranch } from "./ask-remote.ts";
import { requireTip, requireTree, type AskingPlace, type BranchPlace } from "./branch-place.ts";
import { changedSince, diffSince } from "./changed-files.ts";
import { findRemote } from "./choose-remote.ts";
import { commitFiles } from "./commit-files.ts";
import { isAncestor, mergeBase } from "./history.ts";
import { commitResolved, placeConflict } from "./mend-conflict.ts";
import { pushBranch } from "./push.ts";
import { rebase } from "./rebase.ts";

/** Branches on the git binary. `remote`: the name of the one to use, where upstream before origin is not right. */
export function createGitBranches(options: { readonly remote?: string } = {}): Branches {
  return {
    of: (worktree) =>
      tellFailures(worktree, async () => {
        const at = await findPlace(worktree);
        return guardMethods(branchOf(at, options.remote ?? null), at.place.root);
      }),
    asking: (folder) =>
      tellFailures(folder, async () => {
        const at = await openFolder(folder);
        return guardMethods(askingOf(at, options.remote ?? null, null), at.place.root);
      }),
  };
}

async function findPlace(worktree: string): Promise<BranchPlace> {
  const checkout = await findCheckout(worktree);
  if (checkout === undefined) {
    throw new HoldfastError({
      code: "WORKSPACE_MISSING",
      message: `${worktree} is not in a worktree`,
      hint: "Name the folder of a run's worktree.",
    });
  }
  const { root } = checkout;
  const { branch } = await readHead(checkout);
  if (branch === null) {
    throw new HoldfastError({
      code: "WORKSPACE_BUSY",
      message: `${root} stands on no branch`,
      hint: "Run `git switch <branch>` there; if a rebase is under way, finish or abort it first.",
    });
  }
  return { ...(await openFolder(worktree)), name: branch.replace(/^refs\/heads\//, ""), ref: branch };
}

async function openFolder(folder: string): Promise<AskingPlace> {
  const [repository, checkout] = await Promise.all([findRepository(folder), findCheckout(folder)]);
  const { root, gitDir } = checkout ?? { root: repository.commonDir, gitDir: repository.commonDir };
  const home = await ensureHome(gitDir);
  await sweepOperations(home);
  const privateGitDir = await ensurePrivateGitDir({ home, objectFormat: repository.objectFormat });
  return {
    place: { repository, home, privateGitDir, root, gitDir },
    git: createGit({ cwd: root, gitDir, ...(checkout === undefined ? {} : { workTree: root }) }),
  };
}

function branchOf(at: BranchPlace, remote: string | null): Branch {
  return {
    name: at.name,
    root: at.place.root,
    head: () => requireTip(at),
    treeOf: (commit) => requireTree(at, commit),
    commit: (params) => commitFiles(at, params),
    ...askingOf(at, remote, at.name),
    push: ({ expected }) => pushBranch(at, { expected, configured: remote }),
    rebase: (params) => rebase(at, params),
    placeConflict: (params) => placeConflict(at, params),
    commitResolved: (params) => commitResolved(at, params),
    changedSince: (params) => changedSince(at, params),
    diffSince: (params) => diffSince(at, params),
  };
}

/** `own`: the run's branch, where it is known. */
function askingOf(at: AskingPlace, remote: string | null, own: string | null): Asking {
  return {
    remote: () => findRemote(at, remote, "base"),
    pushRemote: () => findRemote(at, remote, "push"),
    fetch: () => fetchRemote(at, remote),
    remoteBranch: (branch) => readRemoteBranch(at, remote, { branch, own }),
    lookUpRemote: (branch) => lookUpRemote(at, remote, { branch, own }),
    defaultBranch: () => findDefaultBranch(at, remote),
    isAncestor: (params) => isAncestor(at, params),
    mergeBase: (params) => mergeBase(at, params),
  };
}
