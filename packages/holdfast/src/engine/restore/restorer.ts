import type { Checkpoint, CheckpointSummary, Planes } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import type { Lease } from "../../core/lease/lease.ts";
import type { RestorePlan, Workspace } from "../../ports/workspace.ts";
import type { RestoreStep } from "../../core/resume/restore-step.ts";
import type { Parts, SessionAgent } from "../parts.ts";
import { lookParams } from "../parts.ts";
import { restoredPlanes } from "../planes.ts";
import { RestoreLog } from "./restore-log.ts";
import type { Saver } from "../save/saver.ts";
import { orTakeBack } from "./take-restore-back.ts";
import { tellConversation } from "../agent/tell-conversation.ts";
import { refuseBusy } from "./worktree-busy.ts";

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
  readonly steps: readonly RestoreStep[];
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
  refuseBusy(workspace.root, from, "restore");
  const files = await workspace
    .planRestore({ from, to, ...(paths === undefined ? {} : { paths }) })
    .catch((error: unknown) => {
      const isTarget = error instanceof HoldfastError && error.data["commit"] === to.commit;
      throw isTarget && error.code === "TREE_MISSING" ? treeMissing(target, error) : error;
    });
  return { run, target: summaryOf(target), files, paths: paths ?? null };
}

/**
 * The checkpoint is read again → before_restore checkpoint and "started" entry in one commit → files → files verified → "finished" entry and
 * restore checkpoint (values and conversation) in one commit → read back. A step that fails ends it with everything as it was; its error
 * carries the list of steps. Killed anywhere, the journal shows an unfinished restore, what was there is in a checkpoint, and the same
 * restore run again completes it.
 */
export async function applyRestore(params: RestoreWork): Promise<RestoreReport> {
  const { parts, plan, saver, lease, workspace } = params;
  const log = new RestoreLog();
  const target = await log.during("integrity", () => parts.store.getCheckpoint(plan.target));
  log.tell("integrity", "done", `${target.id} is whole`);
  const newest = await saver.newest();
  if (newest === undefined) throw noFiles(target);
  const resumed =
    plan.paths === null
      ? restoredPlanes(target.planes, newest.planes, new Date(params.parts.clock.now()).toISOString())
      : newest.planes;
  const started = { target: target.id, paths: plan.paths };

  if (plan.files === null || workspace === undefined) {
    log.tell("files", "skipped", "it holds none, or there is no worktree to put them in");
    const checkpoint = await log.during("values", () =>
      saver.commit({
        lease,
        planes: { ...resumed, files: newest.planes.files },
        params: { trigger: "restore", name: `restore of ${target.id}` },
        entries: [
          { kind: "restore.started", body: started },
          { kind: "restore.finished", body: { target: target.id } },
        ],
      }),
    );
    return await report({ work: params, log, target, undo: summaryOf(newest), checkpoint, written: 0, removed: 0 });
  }

  const { files } = plan;
  const undo = await log.during("files", () => {
    refuseBlocked(plan);
    return saveBefore({ ...params, workspace, files, newest: newest.planes, started });
  });
  const back = { parts, saver, lease, workspace, undo, changes: files.changes };
  const done = await log.during("files", () => orTakeBack(back, () => workspace.applyRestore(files)));
  log.tell("files", "done", `${done.written} written, ${done.removed} removed; what was there is ${undo.id}`);
  const after = await log.during("verify", () =>
    orTakeBack(back, async () => {
      const snapshot = await saver.snapshot(workspace, `restore of ${target.id}`);
      if (snapshot.files.tree !== done.tree) throw overwritten(workspace.root);
      return snapshot;
    }),
  );
  const checkpoint = await log.during("values", () =>
    orTakeBack(back, () =>
      saver.commit({
        lease,
        planes: { ...resumed, files: after.files },
        params: { trigger: "restore", name: `restore of ${target.id}` },
        entries: [{ kind: "restore.finished", body: { target: target.id, tree: done.tree } }],
        sequence: after.sequence,
      }),
    ),
  );
  const { written, removed } = done;
  return await report({ work: params, log, target, undo, checkpoint, written, removed });
}

export interface RestoreWork {
  readonly parts: Parts;
  readonly plan: RunRestorePlan;
  readonly saver: Saver;
  readonly lease: Lease;
  readonly workspace: Workspace | undefined;
}

/** Tells the rest of the steps, from what is durable now. */
async function report(params: {
  readonly work: RestoreWork;
  readonly log: RestoreLog;
  readonly target: Checkpoint;
  readonly undo: CheckpointSummary;
  readonly checkpoint: CheckpointSummary;
  readonly written: number;
  readonly removed: number;
}): Promise<RestoreReport> {
  const { work, log, target, undo, checkpoint, written, removed } = params;
  const { parts, plan } = work;
  if (plan.paths === null) {
    log.tell("values", "done", `position and values are those of ${target.id}; what was spent stays spent`);
    const { conversation } = target.planes;
    tellConversation(log, conversation, conversation === null ? null : await agentOf(parts, conversation.agent));
  } else {
    log.tell("values", "skipped", "only these paths were asked for");
    log.tell("conversation", "skipped", "only these paths were asked for");
  }
  const saved = await log.during("verify", () => parts.store.getCheckpoint(checkpoint));
  log.tell("verify", "done", `${saved.id} was read back, and the files are as it has them`);
  log.tell("resume", "done", plan.paths === null ? await standing(parts, saved) : "the run stands where it stood");
  return { undo, checkpoint, written, removed, steps: log.steps() };
}

async function agentOf(parts: Parts, name: string): Promise<SessionAgent | null> {
  return (await parts.sessionsOf?.(name)) ?? null;
}

async function standing(parts: Parts, { run, stage, iteration }: Checkpoint): Promise<string> {
  const state = (await parts.store.getRun(run))?.state.kind;
  // Saved by hand, with no workflow that would go on.
  if (stage === "none") return "nothing goes on by itself: the run was saved by hand";
  const where = `the run stands at ${stage}${iteration > 0 ? `, iteration ${iteration}` : ""}`;
  return state === "fatal" || state === "done" ? `${where}; it had ended, and goes on only when forced` : where;
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

function overwritten(root: string): HoldfastError {
  return new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: `Files in ${root} were changed by somebody else right after they were restored`,
    hint: "Stop what is writing there, then restore again.",
    retry: "later",
  });
}

/** Known from the plan alone, so nothing is begun that would then be refused. */
export function refuseBlocked(plan: RunRestorePlan): void {
  const paths = plan.files?.blocked ?? [];
  if (paths.length === 0) return;
  const more = paths.length > 1 ? ` and ${paths.length - 1} more` : "";
  const log = new RestoreLog();
  log.tell("integrity", "done", `${plan.target.id} is whole`);
  const error = new HoldfastError({
    code: "RESTORE_REFUSED",
    message: `Restoring ${plan.target.id} is not possible: ${paths[0] ?? ""}${more} is a git repository of its own, or a file that no checkpoint holds`,
    hint: "Move it away first, or restore other paths only: holdfast restore ADDRESS -- PATH...",
    data: { blocked: paths },
  });
  throw log.failed("files", error);
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
