// Applies a restore plan to a worktree and verifies the result.

import type { GitPath } from "@holdfast/core/checkpoint";
import type { RestorePlan, RestoreResult } from "@holdfast/core/workspace";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { findIndexLock, findOperation } from "./branch-refs.ts";
import { parentOf } from "./capture-plan.ts";
import { DEFAULT_CAPTURE, type WorktreeContext, captureTree } from "./capture.ts";
import { findAmbiguousFolders } from "./fold-changes.ts";
import { type Respelling, type WantedSpelling, foldName, respellPaths } from "./folded-names.ts";
import { syncFileSystem } from "./objects.ts";
import { type RawPath, isSafePath, parsePath, quotePath } from "./paths.ts";
import { type ResolvedChange, fileSignatures, placeFiles, stageChanges } from "./place-files.ts";
import { createRestoreInspector, findObstacles, isModeOnly } from "./plan-restore.ts";
import { openScratch } from "./private-index.ts";
import { respellIndex } from "./replace-index.ts";
import { type TreeChange, diffTrees, inScope, listEntries, parseScope } from "./tree-diff.ts";

/**
 * Order: check everything, stage all new content, sync it, check again, rename into place, sync that, verify. Until the
 * first rename the worktree is unchanged: a refusal, a full disk or a missing object costs nothing.
 */
export async function applyRestore(worktree: WorktreeContext, plan: RestorePlan): Promise<RestoreResult> {
  await refuseHopeless(worktree, plan);
  const changes = await resolveChanges(worktree, plan);
  const respellings = resolveRespellings(worktree, plan);
  const spelling = await wantedSpelling(worktree, plan, respellings);
  const seen = signaturesOf(worktree, changes);
  await refuseMovedWorld(worktree, plan);
  // A capture does not see ignored files, so one may have appeared at a target path since the plan was made.
  refuseBlocked(
    findObstacles({ changes: plan.changes, skipped: new Set() }, createRestoreInspector(worktree)).map(quotePath),
  );
  await using scratch = await openScratch(worktree.home);
  const placements = await stageChanges(worktree, changes, scratch.folder);
  for (const [path, mark] of signaturesOf(worktree, changes))
    if (mark !== seen.get(path)) throw moved([quotePath(path)]);
  const paths = respellings.map(({ to }) => to);
  placeFiles(worktree.root, placements, seen, { paths, apply: () => respellPaths(worktree, spelling) });
  // Git takes a name from its index, so the index comes after the files: a resumed restore then still sees the old name.
  await respellIndex(worktree, respellings);
  if (placements.length + respellings.length > 0) await syncFileSystem(worktree.root, { scratch: scratch.folder });
  const tree = await verifyRestore(worktree, plan);
  const removed = new Set(changes.filter(({ change }) => change.kind === "remove").map(({ path }) => path));
  const touched = new Set([...changes.map(({ path }) => path), ...paths]);
  return { tree, written: touched.size - removed.size, removed: removed.size };
}

/** The spelling of all files that the restore respells, and of the directories of all files that it creates. */
async function wantedSpelling(
  { repository, folds }: WorktreeContext,
  plan: RestorePlan,
  respellings: readonly Respelling[],
): Promise<WantedSpelling> {
  const created = plan.changes.flatMap(({ kind, path }) => (kind === "create" ? (parsePath(path) ?? []) : []));
  if (!folds || respellings.length + created.length === 0) return { files: [], folders: [], isAmbiguous: () => false };
  return {
    files: respellings.map(({ to }) => to),
    folders: created.map(parentOf),
    isAmbiguous: findAmbiguousFolders(await listEntries(repository, plan.toTree)),
  };
}

/** Throws unless both names of each respelling are one file, so that a plan cannot rename one file onto another. */
function resolveRespellings(worktree: WorktreeContext, plan: RestorePlan): readonly Respelling[] {
  const { keyOf } = createRestoreInspector(worktree);
  return plan.changes.flatMap((change) => {
    if (change.kind !== "respell") return [];
    const [from = "", to = ""] = [change.from, change.path].map(parsePath);
    if (!isSafePath(from) || !isSafePath(to))
      throw usageError(`the plan does not follow from its trees at ${change.path}`);
    if (!worktree.folds || keyOf(from) !== keyOf(to)) throw moved([change.path]);
    return [{ from, to }];
  });
}

async function refuseHopeless(worktree: WorktreeContext, plan: RestorePlan): Promise<void> {
  if (plan.root !== worktree.root) {
    throw usageError(`the plan is for ${plan.root}, not for ${worktree.root}`);
  }
  refuseBlocked(plan.blocked);
  const [operation, lock] = await Promise.all([findOperation(worktree.gitDir), findIndexLock(worktree.gitDir)]);
  if (operation === null && lock === null) return;
  throw new HoldfastError({
    code: "RESTORE_REFUSED",
    message:
      lock === null
        ? `a ${operation} is under way in ${worktree.root}`
        : `git is at work in ${worktree.root} (${lock} exists)`,
    hint:
      lock === null
        ? `Finish it or run \`git ${operation} ${operation === "bisect" ? "reset" : "--abort"}\` first.`
        : "Wait for it; if no git process is running, remove that file.",
    retry: "later",
    data: { operation, lock },
  });
}

function refuseBlocked(blocked: readonly GitPath[]): void {
  if (blocked.length === 0) return;
  throw new HoldfastError({
    code: "RESTORE_REFUSED",
    message: `${blocked.length} files that no snapshot contains, or git repositories, block the restore; first: ${blocked[0]}`,
    hint: "Move them away, or restore single paths around them; nothing was changed.",
    data: { blocked },
  });
}

/** Resolves the plan's changes to objects of the trees themselves, so that a plan cannot ask for anything else. */
async function resolveChanges(worktree: WorktreeContext, plan: RestorePlan): Promise<readonly ResolvedChange[]> {
  const diff = await diffTrees(worktree.repository.objects, plan.fromTree, plan.toTree);
  const byPath = new Map(diff.map((change) => [change.path, change]));
  return plan.changes.flatMap((change) => {
    if (change.kind === "respell") return [];
    const path = parsePath(change.path) ?? "";
    const found = byPath.get(path);
    const fits = found !== undefined && (found.to === null) === (change.kind === "remove") && isSafePath(path);
    if (fits) return [{ change, path, to: found.to }];
    throw usageError(`the plan does not follow from its trees at ${change.path}`);
  });
}

function signaturesOf(worktree: WorktreeContext, changes: readonly ResolvedChange[]): ReadonlyMap<RawPath, string> {
  return fileSignatures(
    worktree.root,
    changes.map(({ path }) => path),
  );
}

async function refuseMovedWorld(worktree: WorktreeContext, plan: RestorePlan): Promise<void> {
  const now = await captureTree(worktree, plan.capture ?? DEFAULT_CAPTURE);
  if (now.tree === plan.fromTree) return;
  const changed = await diffTrees(worktree.repository.objects, plan.fromTree, now.tree);
  throw moved(changed.map(({ path }) => quotePath(path)));
}

function moved(changed: readonly string[]): HoldfastError {
  return new HoldfastError({
    code: "RESTORE_REFUSED",
    message: `the worktree has changed since the plan was made, first at ${changed[0]}`,
    hint: "Take a new snapshot and plan again; nothing was changed.",
    retry: "later",
    data: { changed: changed.slice(0, 100) },
  });
}

/** Leaves out files that the target has under another spelling. Git's index may keep a spelling of its own. */
async function withoutAliases(
  worktree: WorktreeContext,
  plan: RestorePlan,
  suspects: readonly TreeChange[],
): Promise<readonly TreeChange[]> {
  const { keyOf } = createRestoreInspector(worktree);
  const target = Map.groupBy(await listEntries(worktree.repository, plan.toTree), ({ path }) => foldName(path));
  return suspects.filter(({ path, from }) => {
    const others = (target.get(foldName(path)) ?? []).filter((entry) => entry.path !== path);
    return from !== null || !others.some((entry) => keyOf(entry.path) === keyOf(path));
  });
}

/**
 * Captures the worktree again and returns its tree. Throws unless it matches the plan. Also throws if a file of the
 * snapshot is absent and the plan does not list it as untouched.
 */
async function verifyRestore(worktree: WorktreeContext, plan: RestorePlan): Promise<string> {
  const { tree } = await captureTree(worktree, plan.capture ?? DEFAULT_CAPTURE);
  if (tree === plan.targetTree) return tree;
  const [differences, before, missing] = await Promise.all([
    diffTrees(worktree.repository.objects, plan.toTree, tree),
    diffTrees(worktree.repository.objects, plan.fromTree, plan.toTree),
    diffTrees(worktree.repository.objects, plan.targetTree, tree),
  ]);
  const touched = new Set(plan.changes.map(({ path }) => parsePath(path)));
  const removed = new Set(before.filter(({ to }) => to === null).map(({ path }) => path));
  const left = new Set(plan.untouched.map(({ path }) => parsePath(path)));
  const { holds } = createRestoreInspector(worktree);
  const isSeen = (change: TreeChange): boolean => worktree.fileModes || !isModeOnly(change);
  const unexpected = differences.filter((difference) => isSeen(difference) && !isHarmless(difference));
  const suspects = [...unexpected, ...missing.filter(isUnreported)];
  const wrong = worktree.folds && suspects.length > 0 ? await withoutAliases(worktree, plan, suspects) : suspects;
  if (wrong.length === 0) return tree;
  throw new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: `after the restore ${wrong.length} files are not what they should be, first ${quotePath(wrong[0]?.path ?? "")}`,
    hint: "Something else is writing into this worktree. Stop it, take a new snapshot and restore again.",
    retry: "later",
    data: { paths: wrong.slice(0, 100).map(({ path }) => quotePath(path)) },
  });

  /** A file of the snapshot that differs on disk although the plan does not list it as untouched. */
  function isUnreported({ path, from }: TreeChange): boolean {
    const asked = plan.paths === null || inScope(path, parseScope(plan.paths));
    return asked && from !== null && !left.has(path) && !holds(path, from);
  }

  /**
   * The restored ignore rules may expose files that were ignored before, and hide restored files that git no longer
   * tracks.
   */
  function isHarmless({ path, from, to }: TreeChange): boolean {
    if (from === null) return !touched.has(path) && !removed.has(path);
    return to === null && holds(path, from);
  }
}
