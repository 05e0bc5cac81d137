// Rebases the run's branch without a git operation in progress, and places and commits conflicts.

import { mkdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import type { GitPath } from "@holdfast/core/checkpoint";
import { type TypeOf, anyOf, object, parseJsonAs, text } from "@holdfast/core/json";
import type { Branch, CommitParams, RebaseResult } from "@holdfast/core/branch";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { writeDurable } from "@holdfast/platform/files";
import {
  type BranchContext,
  isAncestor,
  requireCommit,
  requireIdleWorktree,
  requireTip,
  requireTree,
} from "./branch-refs.ts";
import { absolutePath, createPathInspector, parentOf } from "./capture-plan.ts";
import type { WorktreeContext } from "./capture.ts";
import { cleanMessage, createCommit, isSameCommit, moveBranchAndIndex, writeCurrentTree } from "./commit-files.ts";
import { commitIdentity, mergeCommits, mergeTrees, parseEpochSeconds, readCommit, writeCommit } from "./commits.ts";
import { findAmbiguousFolders, foldChanges } from "./fold-changes.ts";
import { respellPaths } from "./folded-names.ts";
import { syncFileSystem } from "./objects.ts";
import { type RawPath, isSafePath, joinRecords, parsePath, pathBytes, quotePath } from "./paths.ts";
import { type Placement, fileSignatures, placeFiles } from "./place-files.ts";
import { createRestoreInspector, findObstacles } from "./plan-restore.ts";
import { LINK_MODE, openScratch } from "./private-index.ts";
import { disableFilters, worktreeGit } from "./repository.ts";
import { type TreeChange, diffTrees, isSameEntry, listEntries } from "./tree-diff.ts";

/**
 * Order: write the new commits, record them, then move files, branch and index. The record remains afterwards. Without
 * it, a call repeated after the branch moved would find nothing to do, even if a restore put the old files back.
 */
export async function rebase(
  at: BranchContext,
  params: { readonly onto: string; readonly at: string },
): Promise<RebaseResult> {
  parseEpochSeconds(params.at);
  await requireIdleWorktree(at);
  const onto = await requireCommit(at, params.onto);
  const tip = await requireTip(at);
  const before = await readRebase(at.worktree);
  if (before?.to === tip && before.branch === at.name && before.onto === onto && before.at === params.at) {
    await takeOver(at, { from: before.from, to: tip, tip });
    return { kind: "rebased", commit: tip, from: before.from };
  }
  if (await isAncestor(at, { ancestor: onto, of: tip })) return { kind: "up_to_date", commit: tip };
  const replayed = await replayCommits(at, { head: tip, onto, at: params.at });
  if (replayed.kind === "conflict") return replayed;
  writeRebase(at.worktree, { version: "2", branch: at.name, from: tip, to: replayed.commit, onto, at: params.at });
  await takeOver(at, { from: tip, to: replayed.commit, tip });
  return { kind: "rebased", commit: replayed.commit, from: tip };
}

async function takeOver(
  at: BranchContext,
  params: { readonly from: string; readonly to: string; readonly tip: string },
): Promise<void> {
  const [from, to] = await Promise.all([requireTree(at, params.from), requireTree(at, params.to)]);
  await moveFiles(at.worktree, { from, to });
  await moveBranchAndIndex(at, { from: params.tip, to: params.to });
}

type Replayed =
  | { readonly kind: "replayed"; readonly commit: string }
  | { readonly kind: "conflict"; readonly files: readonly GitPath[]; readonly detail: string };

/**
 * Replays the commits of `head` that `onto` lacks on top of it, in the object database only. A kill leaves nothing to
 * clean up, and the same call produces the same ids. A merge commit counts as the change it made on the branch, so that
 * conflict resolutions in it are kept. Commits that `onto` has under another id, and commits that no longer change
 * anything, are skipped.
 */
async function replayCommits(
  at: BranchContext,
  params: { readonly head: string; readonly onto: string; readonly at: string },
): Promise<Replayed> {
  const { repository } = at.worktree;
  const { head, onto } = params;
  const [own, marked, identity] = await Promise.all([
    at.git.line({ args: ["rev-list", "--reverse", "--first-parent", head, `^${onto}`] }),
    at.git.line({ args: ["rev-list", "--cherry-mark", "--right-only", "--no-merges", `${onto}...${head}`] }),
    commitIdentity(at, params.at),
  ]);
  const there = new Set(marked.split("\n").flatMap((line) => (line.startsWith("=") ? [line.slice(1)] : [])));
  const committerLine = `${identity["GIT_COMMITTER_NAME"]} <${identity["GIT_COMMITTER_EMAIL"]}> ${parseEpochSeconds(params.at)} +0000`;
  const committer = Buffer.from(committerLine, "utf8").toString("latin1");
  let tip = onto;
  let tree = (await readCommit(repository, onto)).tree;
  for (const id of own.split("\n").filter((line) => line !== "" && !there.has(line))) {
    const commit = await readCommit(repository, id);
    const [parent] = commit.parents;
    const before = parent === undefined ? repository.emptyTree : (await readCommit(repository, parent)).tree;
    const trees = { base: before, ours: tree, theirs: commit.tree, message: "rebase" };
    const merged = await mergeTrees({ git: at.git, objects: repository.objects }, trees);
    if (merged.conflicts.length > 0) {
      const subject = Buffer.from(commit.message.split("\n")[0] ?? "", "latin1").toString("utf8");
      const detail = `${id.slice(0, 12)} ${subject}\n${merged.detail}`;
      return { kind: "conflict", files: merged.conflicts, detail };
    }
    if (merged.tree === tree) continue;
    tree = merged.tree;
    tip = await writeCommit(repository, { ...commit, tree, parents: [tip], committer });
  }
  return { kind: "replayed", commit: tip };
}

/** The parameters and the result of the last rebase of this worktree. */
const REBASE = object({ version: anyOf(["2"]), branch: text, from: text, to: text, onto: text, at: text });
type RebaseRecord = TypeOf<typeof REBASE>;

function writeRebase(worktree: WorktreeContext, record: RebaseRecord): void {
  const data = Buffer.from(`${JSON.stringify(record)}\n`);
  writeDurable({ path: join(worktree.home, FILE), data, mode: "replace" });
}

/** An unreadable record counts as absent: the rebase is then computed again with the same result. */
async function readRebase(worktree: WorktreeContext): Promise<RebaseRecord | undefined> {
  const text = await readFile(join(worktree.home, FILE), "utf8").catch(() => "");
  return parseRebase(text);
}

export function parseRebase(source: string): RebaseRecord | undefined {
  return parseJsonAs(REBASE, source);
}

const FILE = "last-rebase.json";

/** Branch and index are unchanged. To abandon the conflict, the caller only restores the files. */
export async function writeConflict(
  at: BranchContext,
  params: { readonly onto: string },
): ReturnType<Branch["placeConflict"]> {
  await requireIdleWorktree(at);
  const [onto, tip] = await Promise.all([requireCommit(at, params.onto), requireTip(at)]);
  const merged = await mergeCommits(at, { ours: onto, theirs: tip });
  await moveFiles(at.worktree, { from: await requireTree(at, tip), to: merged.tree });
  return { files: merged.conflicts };
}

/** Creates one commit on top of `onto`. Head refs of the run still hold the branch's earlier commits. */
export async function commitResolved(
  at: BranchContext,
  params: CommitParams & { readonly onto: string; readonly files: readonly GitPath[] },
): ReturnType<Branch["commitResolved"]> {
  const message = cleanMessage(params.message);
  await requireIdleWorktree(at);
  const [onto, tip] = await Promise.all([requireCommit(at, params.onto), requireTip(at)]);
  const tree = await writeCurrentTree(at.worktree, { base: await requireTree(at, onto), exclude: params.exclude });
  if (await isMade(at, { tip, onto, tree, message, at: params.at })) {
    await moveBranchAndIndex(at, { from: tip, to: tip });
    return { kind: "committed", commit: tip };
  }
  const unresolved: GitPath[] = [];
  for (const file of params.files) if (await isMarked(at, file, [onto, tip])) unresolved.push(file);
  if (unresolved.length > 0) return { kind: "unresolved", files: unresolved };
  const commit = await createCommit(at, { tree, parent: onto, message, at: params.at });
  await moveBranchAndIndex(at, { from: tip, to: commit });
  return { kind: "committed", commit };
}

async function isMade(
  at: BranchContext,
  params: {
    readonly tip: string;
    readonly onto: string;
    readonly tree: string;
    readonly message: string;
    readonly at: string;
  },
): Promise<boolean> {
  const made = await readCommit(at.worktree.repository, params.tip);
  const fits = made.tree === params.tree && made.parents.length === 1 && made.parents[0] === params.onto;
  return fits && (await isSameCommit(at, params.tip, params));
}

async function isMarked(at: BranchContext, file: GitPath, sides: readonly string[]): Promise<boolean> {
  const path = parsePath(file);
  if (path === undefined || !isSafePath(path)) {
    throw usageError(`${file} is not a path inside the worktree`, "Give the paths as placeConflict returned them.");
  }
  const text = await readNow(at.worktree.root, path);
  if (text === undefined || !hasConflictMarkers(text, [])) return false;
  return hasConflictMarkers(text, await Promise.all(sides.map((commit) => readThen(at, commit, path))));
}

/** undefined if the path was removed or is no longer a file, which is one way to resolve a conflict. */
async function readNow(root: string, path: RawPath): Promise<string | undefined> {
  const file = absolutePath(root, path);
  const { kind } = createPathInspector(root)(path);
  if (kind === "file") return readFile(file, "latin1");
  return kind === "symlink" ? readlink(file) : undefined;
}

async function readThen(at: BranchContext, commit: string, path: RawPath): Promise<string> {
  const { repository } = at.worktree;
  // Uses the id from the tree's listing, because an argument cannot contain every byte of a name.
  const entry = (await listEntries(repository, commit)).find((one) => one.path === path);
  if (entry === undefined || entry.mode === LINK_MODE) return "";
  return (await repository.objects.output({ args: ["cat-file", "blob", entry.id] })).toString("latin1");
}

/**
 * True if the text contains conflict markers that neither side contained. A file about merging may contain such lines
 * and must not block the run for ever.
 */
export function hasConflictMarkers(text: string, sides: readonly string[]): boolean {
  const own = new Set(sides.flatMap(marksOf));
  return marksOf(text).some((line) => !own.has(line));
}

function marksOf(text: string): readonly string[] {
  return text.split(/\r?\n/).filter((line) => /^(?:<{7}|>{7}|\|{7})(?: |$)/.test(line));
}

/**
 * Moves the files from one tree to another. All content is staged first, then each file is replaced by a rename. After
 * a kill the same call continues. Throws WORKSPACE_BUSY, with nothing changed, if files have uncommitted changes.
 */
async function moveFiles(
  worktree: WorktreeContext,
  trees: { readonly from: string; readonly to: string },
): Promise<void> {
  const { objects } = worktree.repository;
  const now = await writeCurrentTree(worktree, { base: trees.from, exclude: [] });
  const [diff, local] = await Promise.all([
    diffTrees(objects, trees.from, trees.to),
    diffTrees(objects, trees.from, now),
  ]);
  const inspector = createRestoreInspector(worktree);
  const target = worktree.folds ? await listEntries(worktree.repository, trees.to) : [];
  const { changes: wanted, respellings } = worktree.folds
    ? foldChanges(diff, target, inspector.keyOf)
    : { changes: diff, respellings: [] };
  // Until the index has the new spelling, a capture has the old one.
  const spelled = new Map(respellings.map(({ from, to }) => [from, to]));
  const plan = planMove({ wanted, local: local.map((one) => ({ ...one, path: spelled.get(one.path) ?? one.path })) });
  if (plan.kind === "local_changes") throw busy(worktree, plan.paths);
  // Submodules are never entered, and files outside a sparse checkout are not written.
  const changes = plan.changes.filter(
    ({ path, from, to }) =>
      from?.mode !== LINK_MODE && to?.mode !== LINK_MODE && (from === null || inspector.found(path).kind !== "absent"),
  );
  const unsafe = changes.filter(({ path }) => !isSafePath(path)).map(({ path }) => path);
  if (unsafe.length > 0) throw busy(worktree, unsafe);
  const obstacles = findObstacles({ changes: changes.map(describe), skipped: new Set() }, inspector);
  if (obstacles.length > 0) throw busy(worktree, obstacles);
  if (changes.length + respellings.length === 0) return;
  const seen = fileSignatures(
    worktree.root,
    changes.map(({ path }) => path),
  );
  await using scratch = await openScratch(worktree.home);
  const placements = await stage(worktree, { tree: trees.to, changes, folder: scratch.folder });
  const files = respellings.map(({ to }) => to);
  const folders = changes.filter(({ from }) => from === null).map(({ path }) => parentOf(path));
  const spelling = { files, folders: worktree.folds ? folders : [], isAmbiguous: findAmbiguousFolders(target) };
  placeFiles(worktree.root, placements, seen, { paths: files, apply: () => respellPaths(worktree, spelling) });
  await syncFileSystem(worktree.root, { scratch: scratch.folder });
}

function describe({ path, from, to }: TreeChange): Parameters<typeof findObstacles>[0]["changes"][number] {
  const name = quotePath(path);
  if (to === null) return { kind: "remove", path: name };
  return { kind: from === null ? "create" : "write", path: name, mode: to.mode };
}

/** Git itself writes the files, so that line ends and encodings are what the user's git would produce. */
async function stage(
  worktree: WorktreeContext,
  params: { readonly tree: string; readonly changes: readonly TreeChange[]; readonly folder: string },
): Promise<readonly Placement[]> {
  const files = join(params.folder, "files");
  await mkdir(files);
  const git = worktreeGit(worktree, join(params.folder, "index"));
  const paths = params.changes.filter(({ to }) => to !== null).map(({ path }) => path);
  if (paths.length > 0) {
    await git.output({ args: ["-c", "core.splitIndex=false", "read-tree", params.tree] });
    const args = ["checkout-index", "-f", `--prefix=${files}/`, "-z", "--stdin"];
    await git.output({ args, input: joinRecords(paths), env: await disableFilters(worktree.repository) });
    await syncFileSystem(params.folder);
  }
  const prefix = Buffer.from(`${files}/`);
  return params.changes.map(({ path, to }) =>
    to === null ? { kind: "remove", path } : { kind: "place", path, staged: Buffer.concat([prefix, pathBytes(path)]) },
  );
}

function busy(worktree: WorktreeContext, paths: readonly RawPath[]): HoldfastError {
  const names = paths.map(quotePath);
  return new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: `${worktree.root} has uncommitted changes, first: ${names[0]}`,
    hint: "Commit them or move them away; nothing was changed.",
    data: { files: names.slice(0, 100) },
  });
}

type MovePlan =
  | { readonly kind: "move"; readonly changes: readonly TreeChange[] }
  /** Files with content that no commit has. */
  | { readonly kind: "local_changes"; readonly paths: readonly RawPath[] };

/**
 * Decides which files must still be moved from one tree to the other. A path may already match because an earlier
 * attempt was killed. Any other difference from the start is uncommitted work. Untracked files matter only at a path to
 * be written.
 */
export function planMove(params: {
  /** Differences between the start tree and the wanted tree. */
  readonly wanted: readonly TreeChange[];
  /** Differences between the start tree and the current files. */
  readonly local: readonly TreeChange[];
}): MovePlan {
  const wanted = new Map(params.wanted.map((change) => [change.path, change]));
  const done = new Set<RawPath>();
  const paths: RawPath[] = [];
  for (const { path, from, to } of params.local) {
    const change = wanted.get(path);
    if (change === undefined && from === null) continue;
    if (change !== undefined && isSameEntry(change.to, to)) done.add(path);
    else paths.push(path);
  }
  if (paths.length > 0) return { kind: "local_changes", paths };
  return { kind: "move", changes: params.wanted.filter(({ path }) => !done.has(path)) };
}
