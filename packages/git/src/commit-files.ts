// Commits the files of a worktree to the run's branch, in a way that a killed call can repeat.

import { join } from "node:path";
import type { GitPath } from "@holdfast/core/checkpoint";
import type { CommitParams } from "@holdfast/core/branch";
import { usageError } from "@holdfast/platform/error";
import { type BranchContext, moveBranch, readBranchTip, requireIdleWorktree, requireTree } from "./branch-refs.ts";
import { createPathInspector } from "./capture-plan.ts";
import {
  DEFAULT_CAPTURE,
  type WorktreeContext,
  captureTree,
  createKeptOutCheck,
  findLinksToIgnored,
} from "./capture.ts";
import { commitIdentity, commitTime, parseEpochSeconds, readCommit } from "./commits.ts";
import { withObjectRepair } from "./damaged-objects.ts";
import { syncRepository } from "./objects.ts";
import { joinRecords, parsePath } from "./paths.ts";
import { LINK_MODE, SYMLINK_MODE, openScratch } from "./private-index.ts";
import { replaceIndex } from "./replace-index.ts";
import { diffObjects, inScope, parseScope } from "./tree-diff.ts";
import { worktreeGit } from "./repository.ts";

/**
 * Writes objects, then the branch, then the index. After a kill at any point, the same call produces the same commit.
 */
export async function commitFiles(
  at: BranchContext,
  params: CommitParams,
): Promise<{ readonly commit: string; readonly tree: string } | null> {
  const message = cleanMessage(params.message);
  await requireIdleWorktree(at);
  const { worktree } = at;
  const tip = await readBranchTip(worktree.repository, at.ref);
  const base = tip === null ? worktree.repository.emptyTree : await requireTree(at, tip);
  const tree = await writeCurrentTree(worktree, { base, exclude: params.exclude });
  if (tree !== base) {
    const commit = await createCommit(at, { tree, parent: tip, message, at: params.at });
    await moveBranchAndIndex(at, { from: tip, to: commit });
    return { commit, tree };
  }
  if (tip === null) return null;
  await moveBranchAndIndex(at, { from: tip, to: tip });
  const made = await isSameCommit(at, tip, { message, at: params.at });
  return made ? { commit: tip, tree } : null;
}

export async function createCommit(
  at: BranchContext,
  params: { readonly tree: string; readonly parent: string | null; readonly message: string; readonly at: string },
): Promise<string> {
  const env = await commitIdentity(at, params.at);
  const parents = params.parent === null ? [] : ["-p", params.parent];
  const args = ["commit-tree", params.tree, ...parents, "-F", "-"];
  return at.worktree.repository.objects.line({ args, input: Buffer.from(params.message), env });
}

/** Moves branch and index to an existing commit. Durable when it returns. */
export async function moveBranchAndIndex(
  at: BranchContext,
  params: { readonly from: string | null; readonly to: string },
): Promise<void> {
  await moveBranch(at, params);
  await replaceIndex(at.worktree, params.to);
  await syncRepository(at.worktree.repository, [params.to]);
}

/**
 * True if an earlier call with the same message and time made this commit. That call may have been killed after it
 * moved the branch. The author is not compared, because the user's name may have been configured in between.
 */
export async function isSameCommit(
  at: BranchContext,
  commit: string,
  params: { readonly message: string; readonly at: string },
): Promise<boolean> {
  const made = await readCommit(at.worktree.repository, commit);
  const time = parseEpochSeconds(params.at);
  const text = Buffer.from(made.message, "latin1").toString("utf8");
  return text === params.message && commitTime(made.author) === time && commitTime(made.committer) === time;
}

/** A commit message cannot contain a NUL byte; git would cut the text there. */
export function cleanMessage(text: string): string {
  const message = text.replaceAll("\0", "\uFFFD").trim();
  if (message !== "") return `${message}\n`;
  throw usageError("a commit needs a message", "Give at least one line that describes the change.");
}

/**
 * Writes the current files as git would commit them on top of `base`. The capture finds which files differ by their
 * bytes. Only those are read again with line ends, encodings and filters (LFS) applied. So no file is committed
 * unconverted, and an unchanged file is never converted a second time. Excluded paths, those that are kept out of
 * captures, and new links in place of ignored directories keep the content of `base`. Files that are all as in `committed`, the tree of HEAD, are not converted either.
 */
export function writeCurrentTree(
  worktree: WorktreeContext,
  params: { readonly base: string; readonly exclude: readonly GitPath[]; readonly committed?: string | null },
): Promise<string> {
  const excluded = parseScope(params.exclude);
  return withObjectRepair(worktree, async () => {
    const captured = await captureTree(worktree, DEFAULT_CAPTURE);
    const differing = await diffObjects(worktree.repository, params.base, captured.tree);
    const isKeptOut = createKeptOutCheck(worktree);
    const links = differing.filter(({ from, to }) => from === null && to?.mode === SYMLINK_MODE);
    const toIgnored = await findLinksToIgnored(
      worktree.repository,
      worktree,
      links.map(({ path }) => path),
    );
    const changes = differing.filter(
      ({ path }) => !inScope(path, excluded) && !isKeptOut(path) && !toIgnored.has(path),
    );
    const large = captured.skipped
      .filter(({ reason }) => reason === "too_large")
      .flatMap(({ path }) => parsePath(path) ?? []);
    const isWhole = large.length === 0 && changes.length === differing.length;
    if (isWhole && captured.tree === params.committed) return captured.tree;
    const found = createPathInspector(worktree.root);
    const files = changes.filter(({ to }) => to !== null && to.mode !== LINK_MODE).map(({ path }) => path);
    const add = [
      // A path in the capture that is absent on disk is outside the sparse checkout and needs no change.
      ...files.filter((path) => found(path).kind !== "absent"),
      ...large.filter((path) => !inScope(path, excluded)),
    ];
    const set = changes.flatMap(({ path, to }) => {
      if (to === null) return [`0 ${worktree.repository.zero}\t${path}`];
      return to.mode === LINK_MODE ? [`${to.mode} ${to.id}\t${path}`] : [];
    });
    if (set.length === 0 && add.length === 0) return params.base;
    return writeTree({ worktree, base: params.base, set, add });
  });
}

async function writeTree(params: {
  readonly worktree: WorktreeContext;
  readonly base: string;
  readonly set: readonly string[];
  readonly add: readonly string[];
}): Promise<string> {
  await using scratch = await openScratch(params.worktree.home);
  const git = worktreeGit(params.worktree, join(scratch.folder, "index"));
  await git.output({ args: [...PLAIN, "read-tree", params.base] });
  if (params.set.length > 0)
    await git.output({ args: [...PLAIN, "update-index", "-z", "--index-info"], input: joinRecords(params.set) });
  if (params.add.length > 0) {
    // --remove, because a file may vanish between our inspection and git's.
    const args = [...PLAIN, "update-index", "--add", "--remove", "--replace", "-z", "--stdin"];
    await git.output({ args, input: joinRecords(params.add) });
  }
  return await git.line({ args: [...PLAIN, "write-tree"] });
}

const PLAIN = ["-c", "core.splitIndex=false", "-c", "core.safecrlf=false"];
