// The workspaces of a repository: run worktrees, side worktrees, pins, and the state of the main checkout.

import { hash } from "node:crypto";
import { lstat, readFile, readdir, realpath } from "node:fs/promises";
import { homedir } from "node:os";
import { join, relative } from "node:path";
import type { CheckoutFacts, CheckoutState, DescribedCommit, Workspaces } from "@holdfast/core/workspace";
import { HoldfastError, wrapMethodErrors, wrapSystemErrors } from "@holdfast/platform/error";
import { createGit } from "@holdfast/platform/git-command";
import { createBranch, findOperation, listRefs, readBranchTip, readHead } from "./branch-refs.ts";
import { readCommit, readUser } from "./commits.ts";
import { createFilesRemote } from "./files-remote.ts";
import { applyPatches, readPatches } from "./tree-diff.ts";
import { findUnreached, hasSnapshot, hasTree, syncRepository } from "./objects.ts";
import { relinkMovedWorktrees, useMovedWorktrees } from "./moved-worktree.ts";
import { pathBytes, quotePath, splitRecords } from "./paths.ts";
import { findUnpinned, listPins, pinAgain, pinKept, pinnedBytes, removePins } from "./pins.ts";
import { removeStaleOperations } from "./private-index.ts";
import { inspectRun, removeRun } from "./remove-run.ts";
import { inspectWorktree, removeWorktree } from "./remove-worktree.ts";
import { type Checkout, type Repository, disableFilters, findCheckout, findRepository } from "./repository.ts";
import { packRun, pinRun, readPackedTexts, unpackRun } from "./run-objects.ts";
import { createGitSideWorktrees } from "./side-worktrees.ts";
import { removeRunLocks, removeStaleFiles } from "./stale-files.ts";
import { diffSnapshots, listFiles } from "./tree-diff.ts";
import { openGitWorkspace } from "./workspace.ts";
import { parseSideWorktreeOwner } from "./worktree-entry.ts";
import { checkWorktree, createWorktree, findWorktree, listWorktrees } from "./worktrees.ts";

/**
 * Opens the git repository at this path or above it. Throws NOT_A_REPOSITORY if there is none. `own` matches the files
 * of the main checkout that runs write there themselves. With `readOnly`, the version of git is not
 * checked, and the links of moved worktrees are left as they are.
 */
export function openGitWorkspaces(
  path: string,
  own: RegExp | null = null,
  options: { readonly readOnly?: boolean } = {},
): Promise<Workspaces> {
  return wrapSystemErrors(path, async () => {
    const { repository, checkout } = await findRepository(path, options);
    await removeStaleOperations(repository.home);
    await removeStaleFiles(repository);
    await (options.readOnly === true ? useMovedWorktrees(repository) : relinkMovedWorktrees(repository));
    return wrapMethodErrors(workspacesOf(repository, checkout, own), repository.commonDir);
  });
}

function workspacesOf(repository: Repository, checkout: Checkout | undefined, own: RegExp | null): Workspaces {
  return {
    commonDir: repository.commonDir,
    bare: repository.bare,
    sideWorktrees: createGitSideWorktrees(repository),
    async open(path) {
      const found = await findCheckout(path).catch((error: unknown) => {
        if (error instanceof HoldfastError && error.code === "NOT_A_REPOSITORY") return undefined;
        throw error;
      });
      if (found !== undefined && found.commonDir === repository.commonDir) {
        await refuseHome(found.root);
        return openGitWorkspace(repository, found);
      }
      throw new HoldfastError({
        code: "WORKSPACE_MISSING",
        message: `${path} is not in a worktree of ${repository.commonDir}`,
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
        const sideWorktree = parseSideWorktreeOwner(run);
        return { path, run: sideWorktree?.run ?? run, sideWorktree: sideWorktree !== null, branch, head, exists };
      });
    },
    remove: (params) => removeWorktree(repository, params),
    inspectWorktree: (run) => inspectWorktree(repository, run),
    inspectRun: (params) => inspectRun(repository, params),
    removeRun: (params) => removeRun(repository, params),
    mainCheckout: (runRoot) => readMainCheckout(repository, runRoot, own),
    describeCheckout: async () => (checkout === undefined ? null : await describeCheckout(repository, checkout, own)),
    has: (files, { treeIsWhole = false } = {}) =>
      treeIsWhole ? hasTree(repository, files) : hasSnapshot(repository, files),
    async pin(params) {
      const ref = await pinAgain(repository, params);
      await syncRepository(repository);
      return ref;
    },
    refs: (run) => listPins(repository, run),
    pinnedBytes: (run) => pinnedBytes(repository, run),
    unpin: (refs) => removePins(repository, refs),
    clearLocks: (params) => removeRunLocks(repository, params),
    unpublished: (commits) => findUnreached(repository, { commits, refs: ["--branches", "--tags", "--remotes"] }),
    unpinned: (commits) => findUnpinned(repository, commits),
    async keep(params) {
      const ref = await pinKept(repository, params);
      await syncRepository(repository);
      return ref;
    },
    branchTip: (branch) => readBranchTip(repository, branch),
    async fileMode({ commit, path }) {
      const { code, stdout } = await repository.git.result({ args: ["ls-tree", "-z", "--full-tree", commit, path] });
      if (code !== 0 || stdout.length === 0) return null;
      // A link may point to a program: only a regular file without the bit is known not to run.
      return stdout.toString("utf8").startsWith("100644 ") ? "plain" : "executable";
    },
    async createBranch(params) {
      await createBranch(repository, params);
      await syncRepository(repository);
    },
    packRun: (params) => packRun(repository, params),
    readPackedTexts: (params) => readPackedTexts(repository, params),
    unpackRun: (params) => unpackRun(repository, params),
    pinRun: (params) => pinRun(repository, params),
    filesRemote: async (remote, store) =>
      wrapMethodErrors(createFilesRemote(repository, remote, store), repository.commonDir),
    describeCommit: (name) => describeCommit(repository, name),
    diff: (params) => diffSnapshots(repository, params),
    patches: (params) => readPatches(repository, params),
    withPatches: (params) => applyPatches(repository, params),
    filesOf: (tree) => listFiles(repository, tree),
    async close() {},
  };
}

async function describeCommit(repository: Repository, name: string): Promise<DescribedCommit | null> {
  const { git } = repository;
  const found = await git.result({
    args: ["rev-parse", "--verify", "--quiet", "--end-of-options", `${name}^{commit}`],
  });
  const commit = found.stdout.toString("utf8").trim();
  if (found.code !== 0 || commit === "") return null;
  const containing = async (...below: readonly string[]): Promise<readonly string[]> => {
    const listed = await git.result({ args: ["for-each-ref", "--contains", commit, "--format=%(refname)", ...below] });
    return listed.stdout
      .toString("utf8")
      .split("\n")
      .filter((ref) => ref !== "");
  };
  const pinned = (await containing("refs/holdfast/")).flatMap((ref) => PINNED_COMMIT.exec(ref)?.[1] ?? []);
  const heldBy: string[] = [];
  for (const run of new Set(pinned)) {
    const [first] = (await listPins(repository, run)).toSorted((a, b) => a.sequence - b.sequence);
    const before = first?.head ?? null;
    const args = ["merge-base", "--is-ancestor", commit, before ?? commit];
    if (before === null || (await git.result({ args })).code === 1) heldBy.push(run);
  }
  const message = Buffer.from((await readCommit(repository, commit)).message, "latin1").toString("utf8");
  return { commit, message, heldBy, branches: await containing("refs/heads/", "refs/remotes/") };
}

const PINNED_COMMIT = /^refs\/holdfast\/([^/]+)\/(?:head|side)\//;

/** Refuses a repository over a whole home directory: each snapshot would capture everything in it. */
async function refuseHome(root: string): Promise<void> {
  const home = await realpath(homedir()).catch(homedir);
  if (root !== home && root !== "/") return;
  throw new HoldfastError({
    code: "UNSUPPORTED",
    message: `${root} is a home directory or the root of the file system, which is not captured as a workspace`,
    hint: "Work in a repository of its own.",
  });
}

/**
 * The state of the user's main checkout, to compare before and after an agent call. It contains HEAD, branches, tags,
 * and every file of git status with size and time. It only reads: no lock, no index refresh, no filter. null if there
 * is no such checkout or it cannot be read.
 */
async function readMainCheckout(
  repository: Repository,
  runRoot: string,
  own: RegExp | null,
): Promise<CheckoutState | null> {
  const { mainRoot } = repository;
  if (mainRoot === null || mainRoot === runRoot) return null;
  const git = createGit({ cwd: mainRoot });
  const env = await disableFilters(repository);
  const [refs, status] = await Promise.all([
    listRefs(repository, "refs/heads/", "refs/tags/").catch(() => null),
    git.result({ args: ["--no-optional-locks", ...STATUS], env }).catch(() => null),
  ]);
  if (refs === null || status?.code !== 0) return null;
  const state = new Map([...refs].filter(([ref]) => !RUN_BRANCH.test(ref)));
  const records = splitRecords(status.stdout);
  const heads = records.flatMap((record) => /^# branch\.(?:oid|head) (.*)$/s.exec(record)?.[1] ?? []);
  state.set("HEAD", heads.toReversed().join(" "));
  for (const record of records) {
    const path = PATH.exec(record)?.[1];
    if (path === undefined || own?.test(path) === true) continue;
    state.set(`file ${quotePath(path)}`, `${record} ${await stampOf(mainRoot, path)}`);
  }
  for (const [path, stamp] of await readGitSetup(repository.commonDir))
    state.set(`file ${relative(mainRoot, path)}`, stamp);
  return { root: mainRoot, state };
}

async function describeCheckout(
  repository: Repository,
  checkout: Checkout,
  own: RegExp | null,
): Promise<CheckoutFacts> {
  const git = createGit({ cwd: checkout.root });
  const env = await disableFilters(repository);
  const [{ head, branch }, operation, user, status] = await Promise.all([
    readHead(checkout),
    findOperation(checkout.gitDir),
    readUser(repository, checkout.gitDir),
    git.result({ args: ["--no-optional-locks", ...STATUS], env }),
  ]);
  const changed = splitRecords(status.code === 0 ? status.stdout : Buffer.alloc(0))
    .flatMap((record) => PATH.exec(record)?.[1] ?? [])
    .filter((path) => own?.test(path) !== true)
    .map(quotePath);
  return { root: checkout.root, head, branch, operation, changed, hasIdentity: user !== null };
}

/**
 * Reads what starts programs in the user's git and in our push: the hooks and the config. The sections of branches are
 * left out: git writes them when it creates a branch, and they start nothing.
 */
async function readGitSetup(commonDir: string): Promise<ReadonlyMap<string, string>> {
  const setup = new Map<string, string>();
  const hooks = join(commonDir, "hooks");
  const names = await readdir(hooks).catch(() => []);
  const digest = async (path: string): Promise<string> =>
    hash("sha256", (await readFile(path, "latin1").catch(() => "")).replaceAll(BRANCH_SECTION, ""));
  for (const name of names.filter((each) => !each.endsWith(".sample")))
    setup.set(join(hooks, name), `${await stampOf(hooks, name)} ${await digest(join(hooks, name))}`);
  for (const name of ["config", "config.worktree"])
    setup.set(join(commonDir, name), await digest(join(commonDir, name)));
  return setup;
}

/** Exactly as git writes it. Anything else may hide another section, because git reads several on one line, and indented ones. */
const BRANCH_SECTION = /^\[branch "[^"\\\n]*"\]\n(?:\t[\w-]+ = [^\n]*\n)*/gm;

const STATUS =
  "status --porcelain=v2 --branch --no-ahead-behind -z --no-renames --untracked-files=all --ignore-submodules=all".split(
    " ",
  );

/** Branches of other runs, which change at the same time. */
const RUN_BRANCH = /^refs\/heads\/holdfast\//;

/** Matches the path after the fields of a changed, an unmerged or an untracked entry. */
const PATH = /^(?:1(?: \S+){7}|u(?: \S+){9}|\?) (.+)$/s;

/**
 * A directory that git does not enter (another repository) gets a constant stamp, because its time changes with every
 * file in it.
 */
async function stampOf(root: string, path: string): Promise<string> {
  if (path.endsWith("/")) return "";
  const found = await lstat(Buffer.concat([Buffer.from(join(root, "/")), pathBytes(path)])).catch(() => null);
  return found === null ? "absent" : `${found.mode} ${found.size} ${found.mtimeMs} ${found.ino}`;
}
