import { HoldfastError } from "../../core/error.ts";
import type { FilesPlane } from "../../core/checkpoint/checkpoint.ts";
import type { Look, RestorePlan } from "../../ports/workspace.ts";
import { buildTree } from "../capture/build-tree.ts";
import { DEFAULT_CAPTURE, type CaptureOptions, type CapturePlace } from "../capture/capture.ts";
import { createGit } from "../git/git-command.ts";
import { createRestoreLooks } from "./look-restore.ts";
import { LINK_MODE } from "../indexes/index-memo.ts";
import { areWhole, hasCommit, hasSnapshot } from "../objects/objects.ts";
import { openScratch } from "../indexes/private-index.ts";
import { decideRestore } from "./plan-restore.ts";
import { inScope, parseScope } from "../path-scope.ts";
import { quotePath, splitRecords, type RawPath } from "../raw-path.ts";
import type { Repository } from "../repository.ts";
import { isSafePath } from "../safe-path.ts";
import { parseCaptureOptions } from "../capture/snapshot.ts";
import { listTrackedThen } from "../indexes/stored-index.ts";
import { findIgnoredBy } from "./target-ignores.ts";
import { diffTrees, type TreeChange } from "../capture/tree-diff.ts";

interface RestoreRequest {
  readonly from: Look;
  readonly to: Look;
  readonly paths?: readonly string[];
}

/** Looks at trees and disk and says what a restore would do. Changes nothing. */
export async function prepareRestore(place: CapturePlace, request: RestoreRequest): Promise<RestorePlan> {
  const { repository } = place;
  const { from, to } = request;
  const scratch = await openScratch(place.home);
  try {
    const [isThere, all, now, atTarget] = await Promise.all([
      hasCommit(repository, to),
      diffPlanes(place, request),
      readOptions(repository, from.commit),
      readOptions(repository, to.commit),
    ]);
    const scope = request.paths === undefined ? undefined : parseScope(request.paths);
    const changes = scope === undefined ? all : all.filter(({ path }) => inScope(path, scope));
    refuseUnsafe(changes);
    if (!isThere || !(await areWhole(repository, blobsOf(changes)))) throw notWhole(to);
    for (const path of request.paths ?? []) {
      if (!(await isKnown(place, path, { all, trees: [from.tree, to.tree] }))) throw unknownPath(path, to.commit);
    }
    const rules = { place, changes, from, to, now, atTarget, scratch: scratch.folder };
    const { unseen: ignored, exposed } = await compareRules(rules);
    const decision = decideRestore({ from, to, changes, ignored }, createRestoreLooks(place));

    // What will be there afterwards: the target, except for what is left alone and what was not asked for.
    const seen = await stillCaptured(place, decision.kept, now.includeIgnored ? new Set() : ignored);
    const outside = scope === undefined ? [] : all.filter(({ path }) => !inScope(path, scope));
    const edits = [...outside, ...seen].map(({ path, from: entry }) => ({ path, entry }));
    return {
      root: place.root,
      fromTree: from.tree,
      targetTree: to.tree,
      toTree: await buildTree({ repository, base: to.tree, edits, scratch: scratch.folder }),
      paths: request.paths ?? null,
      changes: decision.changes,
      untouched: decision.untouched,
      blocked: decision.blocked,
      exposed: exposed.map(quotePath),
      capture: now,
    };
  } finally {
    await scratch.release();
  }
}

async function diffPlanes(place: CapturePlace, { from, to }: RestoreRequest): Promise<TreeChange[]> {
  try {
    return await diffTrees(place.repository.objects, from.tree, to.tree);
  } catch (error) {
    for (const plane of [to, from]) {
      if (await hasSnapshot(place.repository, plane)) continue;
      throw notWhole(plane, error);
    }
    throw error;
  }
}

/** All that the restore will read; the rest of the tree is on disk already. */
function blobsOf(changes: readonly TreeChange[]): readonly string[] {
  return [...new Set(changes.flatMap(({ to }) => (to === null || to.mode === LINK_MODE ? [] : [to.id])))];
}

function notWhole(plane: Pick<FilesPlane, "tree" | "commit">, cause?: unknown): HoldfastError {
  return new HoldfastError({
    code: "TREE_MISSING",
    message: `the files of snapshot ${plane.commit} (tree ${plane.tree}) are not whole in this repository`,
    hint: "Fetch refs/holdfast/* from where the snapshot was taken, or choose another checkpoint.",
    data: { commit: plane.commit },
    cause,
  });
}

export async function readOptions(repository: Repository, commit: string): Promise<CaptureOptions> {
  const result = await repository.objects.result({ args: ["cat-file", "commit", commit] });
  return parseCaptureOptions(result.stdout.toString("utf8")) ?? DEFAULT_CAPTURE;
}

function refuseUnsafe(changes: readonly TreeChange[]): void {
  const unsafe = changes.filter(({ path }) => !isSafePath(path)).map(({ path }) => quotePath(path));
  if (unsafe.length === 0) return;
  throw new HoldfastError({
    code: "RESTORE_REFUSED",
    message: `the snapshot names ${unsafe[0]}, which would leave the worktree or enter a git directory`,
    hint: "No snapshot of Holdfast holds such a name: do not trust where it came from.",
    data: { unsafe },
  });
}

/**
 * What the target's ignore rules change. `unseen`, of the paths that the target lacks: those that it would not have seen if they had been
 * there, because its rules cover them and git did not track them. Two things bring such paths into `from`: other rules, or a capture
 * that took ignored files. `exposed`: files that are ignored now and will not be.
 */
async function compareRules(params: {
  readonly place: CapturePlace;
  readonly changes: readonly TreeChange[];
  readonly from: Look;
  readonly to: Look;
  readonly now: CaptureOptions;
  readonly atTarget: CaptureOptions;
  readonly scratch: string;
}): Promise<{ readonly unseen: ReadonlySet<RawPath>; readonly exposed: readonly RawPath[] }> {
  const { place, scratch, now, atTarget } = params;
  const { repository } = place;
  // Below what is a file in the target nothing can have been.
  const files = new Set(params.changes.filter(({ to }) => to !== null).map(({ path }) => path));
  const gone = params.changes.filter(({ path, to }) => to === null && !inScope(path, files));
  const rules = params.changes.filter(({ path }) => path === ".gitignore" || path.endsWith("/.gitignore"));
  const possible = !atTarget.includeIgnored && (rules.length > 0 || now.includeIgnored);
  const removed = possible ? gone.map(({ path }) => path) : [];
  const hidden = rules.length > 0 && !now.includeIgnored ? await listIgnored(place) : [];
  if (removed.length + hidden.length === 0) return { unseen: new Set(), exposed: [] };
  const edits = rules.map(({ path, to }) => ({ path, entry: to }));
  const tree = await buildTree({ repository, base: params.from.tree, edits, scratch });
  const ignored = await findIgnoredBy({ place, tree, paths: [...removed, ...hidden], scratch });
  const exposed = hidden.filter((path) => !ignored.has(path) && !files.has(path));
  const covered = removed.filter((path) => ignored.has(path));
  if (covered.length === 0) return { unseen: new Set(), exposed };
  const tracked = await listTrackedThen({ repository, blob: params.to.index, scratch });
  return { unseen: new Set(covered.filter((path) => !tracked.has(path))), exposed };
}

async function listIgnored(place: CapturePlace): Promise<readonly RawPath[]> {
  const git = createGit({ cwd: place.root, gitDir: place.gitDir, workTree: place.root });
  const args = ["ls-files", "--others", "--ignored", "--exclude-standard", "-z"];
  return splitRecords(await git.output({ args }));
}

/** Of the changes that will not be made: those whose file a later capture will see. Ignored ones are seen only when tracked. */
async function stillCaptured(
  place: CapturePlace,
  kept: readonly TreeChange[],
  ignored: ReadonlySet<RawPath>,
): Promise<readonly TreeChange[]> {
  if (!kept.some(({ path }) => ignored.has(path))) return kept;
  const git = createGit({ cwd: place.root, gitDir: place.gitDir, workTree: place.root });
  const tracked = new Set(splitRecords(await git.output({ args: ["ls-files", "-z"] })));
  return kept.filter(({ path }) => !ignored.has(path) || tracked.has(path));
}

/** A slip of the finger must not pass for "nothing to restore". */
async function isKnown(
  place: CapturePlace,
  path: string,
  where: { readonly all: readonly TreeChange[]; readonly trees: readonly string[] },
): Promise<boolean> {
  const scope = parseScope([path]);
  if (where.all.some((change) => inScope(change.path, scope))) return true;
  if (path === "." || path === "") return true;
  for (const tree of where.trees) {
    const args = ["ls-tree", "--name-only", "--full-tree", "-z", tree, "--", path.replace(/\/+$/, "")];
    if ((await place.repository.objects.output({ args })).length > 0) return true;
  }
  return false;
}

function unknownPath(path: string, snapshot: string): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: `${quotePath(path)} is neither in the worktree nor in snapshot ${snapshot.slice(0, 12)}`,
    hint: "Give paths as `holdfast diff --name-only` prints them.",
  });
}
