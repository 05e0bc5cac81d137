import { realpath } from "node:fs/promises";
import { homedir } from "node:os";
import { HoldfastError } from "../core/error.ts";
import type { Workspaces } from "../ports/workspace.ts";
import { createGitAsides } from "./aside/git-asides.ts";
import { openGitWorkspace } from "./git-workspace.ts";
import { syncRepository } from "./objects/durable.ts";
import { checkWorktree, createWorktree } from "./worktree/create-worktree.ts";
import { diffSnapshots, listFiles } from "./capture/diff-snapshots.ts";
import { createBranch, readBranchTip } from "./worktree/branch-tip.ts";
import { keepCommit } from "./objects/keep-commit.ts";
import { findUnpublished, hasSnapshot } from "./objects/objects.ts";
import { clearLeftovers, clearRunLocks } from "./git/git-leftovers.ts";
import { guardMethods, tellFailures } from "./git/failure-border.ts";
import { listPins, pinCommit, removePins } from "./objects/pin.ts";
import { removeWorktree } from "./worktree/remove-worktree.ts";
import { sweepOperations } from "./indexes/private-index.ts";
import { readMainCheckout } from "./main-checkout.ts";
import { findCheckout, findRepository, type Repository } from "./repository.ts";
import { asideOwner } from "./worktree/worktree-entry.ts";
import { findWorktree, listWorktrees } from "./worktree/worktree-list.ts";

/** The git repository at this path or above it. NOT_A_REPOSITORY when there is none. */
export function openGitWorkspaces(path: string): Promise<Workspaces> {
  return tellFailures(path, async () => {
    const { repository } = await findRepository(path);
    await sweepOperations(repository.home);
    await clearLeftovers(repository);
    return guardMethods(workspacesOf(repository), repository.commonDir);
  });
}

function workspacesOf(repository: Repository): Workspaces {
  return {
    commonDir: repository.commonDir,
    bare: repository.bare,
    asides: createGitAsides(repository),
    async open(place) {
      const checkout = await findCheckout(place).catch((error: unknown) => {
        if (error instanceof HoldfastError && error.code === "NOT_A_REPOSITORY") return undefined;
        throw error;
      });
      if (checkout !== undefined && checkout.commonDir === repository.commonDir) {
        await refuseHome(checkout.root);
        return openGitWorkspace(repository, checkout);
      }
      throw new HoldfastError({
        code: "WORKSPACE_MISSING",
        message: `${place} is not in a worktree of ${repository.commonDir}`,
        hint: "Name a folder inside one of the worktrees that `git worktree list` shows.",
      });
    },
    check: (params) => checkWorktree(repository, params),
    async create(params) {
      return openGitWorkspace(repository, await createWorktree(repository, params));
    },
    async find(run) {
      const record = await findWorktree(repository, run);
      const usable = record !== undefined && record.exists && !record.unfinished;
      return usable ? openGitWorkspace(repository, { root: record.path, gitDir: record.gitDir }) : undefined;
    },
    async list() {
      const records = await listWorktrees(repository);
      return records.map(({ path, run, branch, head, exists }) => {
        const aside = asideOwner(run);
        return { path, run: aside?.run ?? run, aside: aside !== null, branch, head, exists };
      });
    },
    remove: (params) => removeWorktree(repository, params),
    mainCheckout: (runRoot) => readMainCheckout(repository, runRoot),
    has: (files) => hasSnapshot(repository, files),
    async pin(params) {
      const ref = await pinCommit(repository, params);
      await syncRepository(repository);
      return ref;
    },
    refs: (run) => listPins(repository, run),
    unpin: (refs) => removePins(repository, refs),
    clearLocks: (params) => clearRunLocks(repository, params),
    unpublished: (commits) => findUnpublished(repository, commits),
    async keep(params) {
      const ref = await keepCommit(repository, params);
      await syncRepository(repository);
      return ref;
    },
    branchTip: (branch) => readBranchTip(repository, branch),
    async createBranch(params) {
      await createBranch(repository, params);
      await syncRepository(repository);
    },
    diff: (params) => diffSnapshots(repository, params),
    filesOf: (tree) => listFiles(repository, tree),
    async close() {},
  };
}

/** A repository over somebody's whole home: each snapshot would take along all that lies there. */
async function refuseHome(root: string): Promise<void> {
  const home = await realpath(homedir()).catch(homedir);
  if (root !== home && root !== "/") return;
  throw new HoldfastError({
    code: "UNSUPPORTED",
    message: `${root} is a home directory or the root of the file system, which is not captured as a workspace`,
    hint: "Work in a repository of its own.",
  });
}
