// Side worktrees of a run: creating, finding, merging and removing them.

import { existsSync } from "node:fs";
import { mkdir, rm, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { GitPath } from "@holdfast/core/checkpoint";
import { RUN_ID } from "@holdfast/core/run";
import {
  type SideWorktreeInfo,
  type SideWorktreeMerge,
  type SideWorktreeName,
  type SideWorktrees,
  type PreviewSnapshot,
  type Workspace,
  sideWorktreeKey,
} from "@holdfast/core/workspace";
import { wrapMethodErrors, usageError } from "@holdfast/platform/error";
import type { Git } from "@holdfast/platform/git-command";
import { absolutePath } from "./capture-plan.ts";
import { mergeTrees, snapshotIdentity } from "./commits.ts";
import { findObject, syncFileSystem, treeOfCommit } from "./objects.ts";
import { isSafePath, parsePath, pathBytes } from "./paths.ts";
import { listSideWorktreePins, pinSideWorktree } from "./pins.ts";
import { LINK_MODE } from "./private-index.ts";
import { deleteWorktree } from "./remove-worktree.ts";
import { replaceIndex } from "./replace-index.ts";
import { type Checkout, type Repository, worktreesFolder } from "./repository.ts";
import { captureLine, readCaptureOptions, writeSnapshotObject } from "./snapshot-object.ts";
import { clearWorktreePath, removeEntryLocks, withStaleFileCleanup } from "./stale-files.ts";
import { listEntries } from "./tree-diff.ts";
import { openGitWorkspace, openWorktreeContext } from "./workspace.ts";
import { UNFINISHED_FILE, parseSideWorktreeOwner, readEntries, repairGitLink } from "./worktree-entry.ts";
import {
  type WorktreeRecord,
  addWorktree,
  claimWorktree,
  findWorktree,
  requireFree,
  resolvePath,
} from "./worktrees.ts";

export function createGitSideWorktrees(repository: Repository): SideWorktrees {
  const { rootOf, ...methods }: SideWorktrees = {
    commit: (params) => commitFiles(repository, params),
    pin: (params) => pinSideWorktree(repository, params),
    rootOf: (params) => sideWorktreeRoot(repository, params),
    place: (params) => placeSideWorktree(repository, params),
    find: (params) => findSideWorktree(repository, params),
    list: (run) => listSideWorktrees(repository, run),
    remove: (params) => removeSideWorktree(repository, params),
    refs: () => listSideWorktreePins(repository),
    merge: (params) => mergeSideWorktree(repository, params),
    treeOf: (commit) => treeOfCommit(repository, commit),
  };
  return { ...wrapMethodErrors(methods, repository.commonDir), rootOf };
}

/**
 * Registers the worktree without files, records its owner, then fills it, as for a run's own worktree. Holdfast places
 * the files itself, so that they have exactly the bytes of the snapshot.
 */
async function placeSideWorktree(
  repository: Repository,
  params: SideWorktreeName & { readonly commit: string; readonly base: string },
): Promise<Workspace> {
  const target = await findTarget(repository, params);
  const there = await findSideWorktree(repository, params);
  if (there !== undefined) {
    if (await isAt(repository, there, target)) return there;
    await removeSideWorktree(repository, { run: params.run, key: sideWorktreeKey(params.name) });
  }
  return openGitWorkspace(repository, await make(repository, params, target));
}

/** An unfinished side worktree was never returned to a caller and counts as absent. */
async function findSideWorktree(
  repository: Repository,
  name: Pick<SideWorktreeName, "run" | "name">,
): Promise<Workspace | undefined> {
  const owner = ownerOf({ run: name.run, key: sideWorktreeKey(name.name) });
  const record = await findRepaired(repository, owner);
  if (record === undefined || !record.exists || record.unfinished) return undefined;
  return openGitWorkspace(repository, { root: record.path, gitDir: record.gitDir });
}

interface Target {
  readonly commit: string;
  readonly tree: string;
  readonly head: string;
}

/** The first parent of a side worktree's commit is the HEAD it was made on. It is used only if it descends from the base. */
async function findTarget(
  repository: Repository,
  { commit, base }: { readonly commit: string; readonly base: string },
): Promise<Target> {
  const tree = await treeOfCommit(repository, commit);
  if (commit === base) return { commit, tree, head: base };
  const head = (await findObject(repository.objects, `${commit}^1`)) ?? base;
  const comes = await comesFrom(repository, { ancestor: base, of: head });
  return { commit, tree, head: comes ? head : base };
}

async function isAt(repository: Repository, sideWorktree: Workspace, target: Target): Promise<boolean> {
  const options = await readCaptureOptions(repository, target.commit);
  const { tree, head, operation } = await sideWorktree.look({ at: EPOCH, ...options });
  return tree === target.tree && head === target.head && operation === null;
}

const EPOCH = new Date(0).toISOString();

async function make(repository: Repository, params: SideWorktreeName, target: Target): Promise<Checkout> {
  const owner = ownerOf({ run: params.run, key: sideWorktreeKey(params.name) });
  const path = await resolvePath(sideWorktreeRoot(repository, params));
  const work = { kind: "making", run: owner, path, branch: "", detached: target.head } as const;
  return withStaleFileCleanup(repository, work, async (env) => {
    await clearWorktreePath(repository, work, { starts: [`${target.head}\n`], wasAtIt: false });
    const owned = await findWorktree(repository, owner);
    const register = async (): Promise<WorktreeRecord> => {
      await requireFree(path, "Move it away: Holdfast needs this path for a side worktree. Nothing was changed.");
      const made = await addWorktree(repository, { path, start: ["--detach", path, target.head], owned, env });
      await claimWorktree(repository, made, { owner, owned });
      return made;
    };
    const record = owned?.exists === true ? owned : await register();
    await removeEntryLocks(record.gitDir);
    await fill(repository, record, target);
    return { root: record.path, gitDir: record.gitDir };
  });
}

async function fill(repository: Repository, record: WorktreeRecord, target: Target): Promise<void> {
  const checkout = { root: record.path, gitDir: record.gitDir };
  const worktree = await openWorktreeContext(repository, checkout);
  const workspace = await openGitWorkspace(repository, checkout);
  const from = await workspace.look({ at: EPOCH, ...(await readCaptureOptions(repository, target.commit)) });
  const to: PreviewSnapshot = {
    ...from,
    tree: target.tree,
    snapshot: target.commit,
    skipped: [],
    nested: [],
    index: null,
  };
  await workspace.applyRestore(await workspace.planRestore({ from, to }));
  await makeLinkFolders(repository, record.path, target.tree);
  await replaceIndex(worktree, target.head);
  await syncFileSystem(record.path, { scratch: worktree.home });
  await rm(join(record.gitDir, UNFINISHED_FILE));
}

/**
 * Creates empty directories for submodules and nested repositories, as git does. Without its directory one would look
 * removed.
 */
async function makeLinkFolders(repository: Repository, root: string, tree: string): Promise<void> {
  for (const { mode, path } of await listEntries(repository, tree)) {
    if (mode !== LINK_MODE || !isSafePath(path)) continue;
    await mkdir(absolutePath(root, path), { recursive: true });
  }
}

/**
 * Removes a side worktree. Its files are pinned first unless a commit already holds them; ignored files are deleted.
 */
async function removeSideWorktree(
  repository: Repository,
  params: { readonly run: string; readonly key: string; readonly holding?: string },
): Promise<void> {
  const { run, holding } = params;
  const owner = ownerOf(params);
  // A repeated stage asks again to remove all of them. That must not start a git process for each.
  if (!(await readEntries(repository)).some((entry) => entry.run === owner)) return;
  const record = await findRepaired(repository, owner);
  if (record === undefined) return;
  if (record.exists && !record.unfinished) {
    const workspace = await openGitWorkspace(repository, { root: record.path, gitDir: record.gitDir });
    const options = holding === undefined ? {} : await readCaptureOptions(repository, holding);
    const at = new Date().toISOString();
    const files = await workspace.look({ at, ...options });
    if (holding === undefined || !(await holds(repository, holding, files)))
      await commitFiles(repository, { run, files, at });
  }
  await deleteWorktree(repository, record);
  // Removes the directory of all side worktrees of the run once it is empty.
  await rmdir(dirname(record.path)).catch(() => undefined);
}

/** True if the commit holds these files and descends from their HEAD. */
async function holds(repository: Repository, commit: string, { tree, head }: PreviewSnapshot): Promise<boolean> {
  if ((await findObject(repository.objects, `${commit}^{tree}`)) !== tree) return false;
  return head === null || head === commit || (await comesFrom(repository, { ancestor: head, of: commit }));
}

/**
 * Runs in our private git directory, without the user's configuration, so that the same three trees merge the same way
 * everywhere.
 */
async function mergeSideWorktree(
  repository: Repository,
  params: Parameters<SideWorktrees["merge"]>[0],
): Promise<SideWorktreeMerge> {
  const { ours } = params;
  const [base, theirs] = await Promise.all([
    treeOfCommit(repository, params.base),
    treeOfCommit(repository, params.theirs),
  ]);
  const { objects } = repository;
  const trees = { base, ours: ours.tree, theirs, message: "side worktree" };
  const merged = await mergeTrees({ git: plainly(objects), objects }, trees);
  const [left, right] = merged.sides;
  if (merged.conflicts.length > 0) {
    const { tree, conflicts: files } = merged;
    const sections = [merged.detail, await conflictExcerpt(repository, { tree, files })].filter(
      (section) => section !== "",
    );
    const detail = sections.join("\n\n").replaceAll(left, "the run's files").replaceAll(right, "the side worktree");
    return { kind: "conflict", files, detail };
  }
  const { tree } = merged;
  const capture = await readCaptureOptions(repository, ours.snapshot);
  const object = { tree, head: ours.head, index: null, capture };
  const snapshot = await writeSnapshotObject(repository, object, { message: "merge\n\n", epochSeconds: 0 });
  return { kind: "merged", to: { ...ours, tree, snapshot } };
}

/** Disables directory rename detection: new files remain at their path even if the other side moved the directory. */
function plainly(git: Git): Git {
  const call: Git["result"] = ({ args, ...rest }) =>
    git.result({ args: ["-c", "merge.directoryRenames=false", ...args], ...rest });
  return { ...git, result: call };
}

/**
 * The lines that both sides changed, with git's markers and a size limit. It shows the conflict without reading the
 * trees.
 */
async function conflictExcerpt(
  repository: Repository,
  params: { readonly tree: string; readonly files: readonly GitPath[] },
): Promise<string> {
  const shown: string[] = [];
  let left = MAX_CHARACTERS;
  for (const file of params.files.slice(0, MAX_FILES)) {
    const marked = (await marksIn(repository, params.tree, file)).slice(0, left);
    if (marked === "") continue;
    left -= marked.length;
    shown.push(`${file}:\n${marked}`);
  }
  return shown.join("\n");
}

const MAX_FILES = 20;
const MAX_CHARACTERS = 6000;
const MAX_BYTES = 4 * 1024 * 1024;
const MARKS = /^<{7} [^\n]*\n[\s\S]*?^>{7} [^\n]*$/gm;

/**
 * The name is passed on standard input, because it need not be UTF-8. A name with a line break cannot be passed this
 * way.
 */
async function marksIn(repository: Repository, tree: string, file: GitPath): Promise<string> {
  const path = parsePath(file);
  if (path === undefined || path.includes("\n")) return "";
  const input = Buffer.concat([Buffer.from(`${tree}:`), pathBytes(path), Buffer.from("\n")]);
  const read = await repository.objects.result({ args: ["cat-file", "--batch"], input, maxOutputBytes: MAX_BYTES });
  if (read.code !== 0 || read.stdout.includes(0)) return "";
  return (read.stdout.toString("utf8").match(MARKS) ?? []).join("\n");
}

/**
 * Commits the files of a preview on its HEAD and pins the commit. It is not a snapshot, because agents read it with
 * `git log` and `git diff`. The message records the capture options, so that a restore to it leaves out the same files.
 */
async function commitFiles(
  repository: Repository,
  params: { readonly run: string; readonly files: PreviewSnapshot; readonly at: string },
): Promise<string> {
  const { run, files, at } = params;
  const capture = captureLine(await readCaptureOptions(repository, files.snapshot));
  const parents = files.head === null ? [] : ["-p", files.head];
  const commit = await repository.objects.line({
    args: ["commit-tree", files.tree, ...parents, "-F", "-"],
    input: Buffer.from(`The files of ${run}\n\n${capture}\n`),
    env: snapshotIdentity(Math.floor(Date.parse(at) / 1000)),
  });
  await pinSideWorktree(repository, { run, commit });
  return commit;
}

/** Reads the entries without git, because an entry that a killed git left can hide all others. */
async function listSideWorktrees(repository: Repository, run?: string): Promise<readonly SideWorktreeInfo[]> {
  const sideWorktrees = (await readEntries(repository)).flatMap(({ run: owner, folder }) => {
    const sideWorktree = parseSideWorktreeOwner(owner);
    if (sideWorktree === null || folder === null) return [];
    return [{ ...sideWorktree, path: folder, exists: existsSync(join(folder, ".git")) }];
  });
  return run === undefined ? sideWorktrees : sideWorktrees.filter((sideWorktree) => sideWorktree.run === run);
}

/** The owner in a side worktree's entry: `<run>/<key>`. */
function ownerOf({ run, key }: { readonly run: string; readonly key: string }): string {
  if (RUN_ID.test(run) && KEY.test(key)) return `${run}/${key}`;
  throw usageError(`${run}/${key} does not name a side worktree of a run`);
}

const KEY = /^[a-z0-9-]+$/;

/** A run id contains no dot, so the worktree of another run can never have this path. */
function sideWorktreeRoot(repository: Repository, { run, name, beside }: SideWorktreeName): string {
  return join(`${beside ?? join(worktreesFolder(repository), run)}.side`, sideWorktreeKey(name));
}

/** Finds the worktree of an owner. An agent may have deleted its link to git or replaced it with a repository. */
async function findRepaired(repository: Repository, owner: string): Promise<WorktreeRecord | undefined> {
  const found = await findWorktree(repository, owner);
  const isRepaired = found?.exists === false && (await repairGitLink({ root: found.path, gitDir: found.gitDir }));
  return isRepaired ? await findWorktree(repository, owner) : found;
}

async function comesFrom(
  repository: Repository,
  params: { readonly ancestor: string; readonly of: string },
): Promise<boolean> {
  const args = ["merge-base", "--is-ancestor", params.ancestor, params.of];
  return (await repository.objects.result({ args })).code === 0;
}
