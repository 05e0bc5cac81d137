import type { Checkpoint, CheckpointSummary, Planes } from "../core/checkpoint.ts";
import { HoldfastError } from "../core/error.ts";
import type { Lease } from "../core/lease.ts";
import type { RestorePlan, Workspace } from "../ports/workspace.ts";
import type { Parts } from "./parts.ts";
import { lookParams } from "./parts.ts";
import { restoredPlanes } from "./planes.ts";
import type { Saver } from "./saver.ts";

export interface RunRestorePlan {
  readonly run: string;
  readonly target: CheckpointSummary;
  /** null: only values and position come back (no files in the checkpoint, or no worktree to put them in). */
  readonly files: RestorePlan | null;
  /** null: the whole checkpoint; else only these files, and the position stays where it is. */
  readonly paths: readonly string[] | null;
}

export interface RestoreReport {
  /** What was there before, as a checkpoint: restoring it undoes this. */
  readonly undo: CheckpointSummary | null;
  /** The restore itself, the run's newest checkpoint now. */
  readonly checkpoint: CheckpointSummary;
  readonly written: number;
  readonly removed: number;
}

/** Looks only, and holds on to nothing: killed here, nothing is left behind. */
export async function planRestore(params: {
  readonly parts: Parts;
  readonly target: Checkpoint;
  readonly workspace: Workspace | undefined;
  readonly paths: readonly string[] | undefined;
}): Promise<RunRestorePlan> {
  const { parts, target, workspace, paths } = params;
  const run = target.run;
  const to = target.planes.files;
  if (to === null || workspace === undefined || parts.workspaces === null) {
    if (paths !== undefined) throw noFiles(target);
    return { run, target: summaryOf(target), files: null, paths: null };
  }
  const from = await workspace.look(lookParams(parts));
  if (from.operation !== null) throw busy(workspace.root, from.operation);
  const files = await workspace
    .planRestore({ from, to, ...(paths === undefined ? {} : { paths }) })
    .catch((error: unknown) => {
      const isTarget = error instanceof HoldfastError && error.data["commit"] === to.commit;
      throw isTarget && error.code === "TREE_MISSING" ? treeMissing(target, error) : error;
    });
  return { run, target: summaryOf(target), files, paths: paths ?? null };
}

/**
 * before_restore checkpoint and "started" entry in one commit → files → "finished" entry and restore checkpoint in one
 * commit. Killed anywhere, the journal shows an unfinished restore, what was there is in a checkpoint, and the same
 * restore run again completes it.
 */
export async function applyRestore(params: {
  readonly parts: Parts;
  readonly plan: RunRestorePlan;
  readonly target: Checkpoint;
  readonly saver: Saver;
  readonly lease: Lease;
  readonly workspace: Workspace | undefined;
}): Promise<RestoreReport> {
  const { plan, target, saver, lease, workspace } = params;
  const newest = await saver.newest();
  if (newest === undefined) throw noFiles(target);
  const resumed =
    plan.paths === null
      ? restoredPlanes(target.planes, newest.planes, new Date(params.parts.clock.now()).toISOString())
      : newest.planes;
  const started = { target: target.id, paths: plan.paths };

  if (plan.files === null || workspace === undefined) {
    const checkpoint = await saver.commit({
      lease,
      planes: { ...resumed, files: newest.planes.files },
      params: { trigger: "restore", name: `restore of ${target.id}` },
      entries: [
        { kind: "restore.started", body: started },
        { kind: "restore.finished", body: { target: target.id } },
      ],
    });
    return { undo: summaryOf(newest), checkpoint, written: 0, removed: 0 };
  }

  const undo = await saveBefore({ ...params, workspace, files: plan.files, newest: newest.planes, started });
  const result = await workspace.applyRestore(plan.files);
  const after = await saver.snapshot(workspace, `restore of ${target.id}`);
  const checkpoint = await saver.commit({
    lease,
    planes: { ...resumed, files: after.files },
    params: { trigger: "restore", name: `restore of ${target.id}` },
    entries: [{ kind: "restore.finished", body: { target: target.id, tree: result.tree } }],
    sequence: after.sequence,
  });
  return { undo, checkpoint, written: result.written, removed: result.removed };
}

async function saveBefore(params: {
  readonly plan: RunRestorePlan;
  readonly saver: Saver;
  readonly lease: Lease;
  readonly workspace: Workspace;
  readonly files: RestorePlan;
  readonly newest: Planes;
  readonly started: { readonly target: string; readonly paths: readonly string[] | null };
}): Promise<CheckpointSummary> {
  const { plan, saver, lease, workspace, files, newest, started } = params;
  const before = await saver.snapshot(workspace, `before restore of ${plan.target.id}`);
  if (before.files.tree !== files.fromTree) {
    throw new HoldfastError({
      code: "RESTORE_REFUSED",
      message: `Files in ${workspace.root} changed after this restore was planned`,
      hint: "Stop what is writing there, then run the restore again; nothing was changed.",
      retry: "later",
    });
  }
  return await saver.commit({
    lease,
    planes: { ...newest, files: before.files },
    params: { trigger: "before_restore", name: `before restore of ${plan.target.id}` },
    entries: [{ kind: "restore.started", body: started }],
    sequence: before.sequence,
  });
}

function summaryOf(checkpoint: Checkpoint): CheckpointSummary {
  const { planes: _planes, ...summary } = checkpoint;
  return summary;
}

function busy(root: string, operation: string): HoldfastError {
  return new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: `A ${operation} is under way in ${root}`,
    hint: `Finish it or abort it (git ${operation} --abort), then restore.`,
    retry: "later",
  });
}

function noFiles(target: Checkpoint): HoldfastError {
  return new HoldfastError({
    code: "RESTORE_REFUSED",
    message: `Checkpoint ${target.id} holds no files that could be put back here`,
    hint: "Only checkpoints taken in a git worktree hold files; run this inside the run's worktree.",
  });
}

function treeMissing(target: Checkpoint, cause: unknown): HoldfastError {
  return new HoldfastError({
    code: "TREE_MISSING",
    message: `The git objects of checkpoint ${target.id} are not in this repository`,
    hint: "Run `holdfast verify` to see which checkpoints are whole, and restore one of those.",
    data: { tree: target.tree },
    cause,
  });
}
