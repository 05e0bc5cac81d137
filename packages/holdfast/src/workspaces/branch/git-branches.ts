import { HoldfastError } from "../../core/error.ts";
import type { Asking, Branch, Branches } from "../../ports/branch.ts";
import { createGit } from "../git/git-command.ts";
import { guardMethods, tellFailures } from "../git/failure-border.ts";
import { ensureHome, ensurePrivateGitDir } from "../indexes/private-git-dir.ts";
import { sweepOperations } from "../indexes/private-index.ts";
import { readHead } from "../worktree/read-head.ts";
import { findRepository } from "../repository.ts";
import { fetchRemote, findDefaultBranch, lookUpRemote, readRemoteBranch, type Present } from "./ask-remote.ts";
import { requireTip, requireTree, type AskingPlace, type BranchPlace } from "./branch-place.ts";
import { changedSince, diffSince } from "./changed-files.ts";
import { findRemote, roleOf } from "./choose-remote.ts";
import { commitFiles } from "./commit-files.ts";
import { isAncestor, mergeBase } from "./history.ts";
import { commitResolved, placeConflict } from "./mend-conflict.ts";
import { inspectPush } from "./inspect-push.ts";
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
        const at = await openFolder(await findRepository(folder));
        return guardMethods(askingOf(at, options.remote ?? null, null), at.place.root);
      }),
  };
}

async function findPlace(worktree: string): Promise<BranchPlace> {
  const found = await findRepository(worktree);
  const { checkout } = found;
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
  return { ...(await openFolder(found)), name: branch.replace(/^refs\/heads\//, ""), ref: branch };
}

async function openFolder({ repository, checkout }: Awaited<ReturnType<typeof findRepository>>): Promise<AskingPlace> {
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
  const { onPush, ...asking } = askingOf(at, remote, at.name);
  return {
    name: at.name,
    root: at.place.root,
    head: () => requireTip(at),
    treeOf: (commit) => requireTree(at, commit),
    commit: (params) => commitFiles(at, params),
    ...asking,
    inspectPush: ({ issue }) => inspectPush(at, { configured: remote, issue }),
    push({ expected }) {
      onPush(at.name);
      return pushBranch(at, { expected, configured: remote });
    },
    rebase: (params) => rebase(at, params),
    placeConflict: (params) => placeConflict(at, params),
    commitResolved: (params) => commitResolved(at, params),
    changedSince: (params) => changedSince(at, params),
    diffSince: (params) => diffSince(at, params),
  };
}

/** `own`: the run's branch, where it is known. */
function askingOf(
  at: AskingPlace,
  remote: string | null,
  own: string | null,
): Asking & {
  /** What is pushed is there, or was never known to be. */
  readonly onPush: (branch: string) => void;
} {
  let present: Present | null = null;
  return {
    onPush: (branch) => void present?.push.add(branch),
    remote: () => findRemote(at, remote, "base"),
    pushRemote: () => findRemote(at, remote, "push"),
    async fetch() {
      const fetched = await fetchRemote(at, remote);
      if (fetched.kind === "failed") return fetched;
      present = fetched.branches;
      return { kind: "fetched" };
    },
    async remoteBranch(branch) {
      const isGone = present?.[roleOf(branch, own)].has(branch) === false;
      return isGone ? null : readRemoteBranch(at, remote, { branch, own });
    },
    lookUpRemote: (branch) => lookUpRemote(at, remote, { branch, own }),
    defaultBranch: () => findDefaultBranch(at, remote),
    isAncestor: (params) => isAncestor(at, params),
    mergeBase: (params) => mergeBase(at, params),
  };
}
