// Fork: creates a new run from a checkpoint of another, with its own worktree and pinned files.
import { HoldfastError } from "@holdfast/platform/error";
import { type CoreAdapters, NO_WORKTREE, WORKTREE, lostWorktreePath, snapshotParams } from "./adapters.ts";
import type { Checkpoint, FilesPlane, Planes } from "./checkpoint.ts";
import { MAY_PUBLISH } from "./effects.ts";
import type { JsonObject } from "./json.ts";
import { forgetAborts } from "./position.ts";
import { type Run, makeRunId } from "./run.ts";
import { recoveredGraph } from "./save.ts";
import { rewoundTo } from "./state.ts";
import { forgetSideWorktreeCalls } from "./side-worktree-steps.ts";
import type { CreateWorkspace, Workspace } from "./workspace.ts";

/**
 * Creates a run whose first checkpoint is `source`. Every step can be repeated: after a kill, the same fork with the
 * same id continues where it stopped.
 */
export async function fork(params: {
  readonly adapters: CoreAdapters;
  readonly source: Checkpoint;
  readonly sourceRun: Run;
  readonly id: string | undefined;
  readonly worktree: boolean;
  /** Additional labels of the new run. */
  readonly labels?: JsonObject;
}): Promise<string> {
  const { adapters, source, sourceRun } = params;
  const parent = { id: source.id, digest: source.digest };
  const files = source.planes.files;
  if (files !== null && adapters.workspaces !== null && !(await adapters.workspaces.has(files))) {
    throw new HoldfastError({
      code: "TREE_MISSING",
      message: `The git objects of checkpoint ${source.id} are not in this repository`,
      hint: "Run `holdfast verify` to see which checkpoints are whole, and fork one of those.",
    });
  }
  const id = params.id ?? makeRunId({ work: sourceRun.work, random: adapters.random() });
  // Checked before the run is created, so that a refused fork leaves no empty run. An existing run was started by an earlier call.
  if (params.worktree && files !== null && (await adapters.store.getRun(id)) === undefined) {
    await adapters.workspaces?.check(worktreeFor(adapters, id, files));
  }
  const run = await adapters.store.createRun({
    id,
    workflow: sourceRun.workflow,
    work: sourceRun.work,
    forkedFrom: parent,
    labels: { ...forkLabels(sourceRun, params.worktree), ...params.labels },
  });
  if ((await adapters.store.latest(run.id)) !== undefined) return run.id;

  const lease = await adapters.store.takeLease({ run: run.id, label: `fork of ${source.id}` });
  try {
    const forked = await forkFiles({ adapters, run: run.id, files, worktree: params.worktree });
    await adapters.store.commit({
      lease,
      checkpoint: {
        sequence: 1,
        trigger: "fork",
        name: `fork of ${source.id}`,
        planes: forkedPlanes(source, forked, new Date(adapters.clock.now()).toISOString()),
        parent,
      },
    });
  } finally {
    await adapters.store.releaseLease(lease);
  }
  return run.id;
}

/** Running calls in side worktrees belong to the parent and are removed. The best checkpoint is still one of the parent's. */
function forkedPlanes({ run, planes }: Checkpoint, files: FilesPlane | null, at: string): Planes {
  const { position, conversation } = planes;
  const best = position.best === null ? null : { run, ...position.best };
  const graph = recoveredGraph(position, at);
  const { lost: _counted, ...stageAttempt } = forgetAborts(forgetSideWorktreeCalls(position.stageAttempt));
  return {
    ...planes,
    files,
    position: { ...position, best, graph, stageAttempt },
    conversation: rewoundTo(conversation, "fork"),
  };
}

async function forkFiles(params: {
  readonly adapters: CoreAdapters;
  readonly run: string;
  readonly files: FilesPlane | null;
  readonly worktree: boolean;
}): Promise<FilesPlane | null> {
  const { adapters, run, files } = params;
  if (files === null || adapters.workspaces === null) return files;
  const ref = await adapters.workspaces.pin({ run, sequence: 1, snapshot: files.snapshot });
  // Where a resume creates them. The branch and the worktree in `files` are the parent's.
  if (!params.worktree)
    return { ...files, ref, branch: `refs/heads/holdfast/${run}`, worktree: await lostWorktreePath(adapters, run) };
  const workspace = await adapters.workspaces.create(worktreeFor(adapters, run, files));
  await fill({ adapters, workspace, files });
  return await workspace.snapshot({
    run,
    sequence: 1,
    message: "fork",
    ...snapshotParams(adapters),
    ...(files.base === null ? {} : { base: files.base }),
  });
}

function worktreeFor(adapters: CoreAdapters, run: string, files: FilesPlane): CreateWorkspace {
  return {
    run,
    ...(files.head === null ? {} : { base: files.head }),
    ...(adapters.worktreePath === undefined ? {} : { path: adapters.worktreePath(run) }),
  };
}

/** The new worktree holds no one's work, so no checkpoint is needed before files are written into it. */
async function fill(params: {
  readonly adapters: CoreAdapters;
  readonly workspace: Workspace;
  readonly files: FilesPlane;
}): Promise<void> {
  const { adapters, workspace, files } = params;
  await workspace.applyRestore(
    await workspace.planRestore({ from: await workspace.look(snapshotParams(adapters)), to: files }),
  );
}

/** The new run has its own worktree, or none. The user's consent to publish applied only to the source. */
function forkLabels(run: Run, worktree: boolean): Run["labels"] {
  const { [WORKTREE]: _ofSource, [MAY_PUBLISH]: _consent, ...labels } = run.labels;
  return worktree ? labels : { ...labels, [WORKTREE]: NO_WORKTREE };
}
