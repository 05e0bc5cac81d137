// The executor: acquires the lease, loads the run, and repeats stage, transition and commit until the run ends, waits
// or is interrupted. It also handles a full disk and a lost lease.
import { MAX_TIMER_MS } from "@holdfast/platform/clock";
import { HoldfastError } from "@holdfast/platform/error";
import {
  type Adapters,
  type CoreAdapters,
  NO_WORKTREE,
  WORKTREE,
  rejectRolledBackStore,
  snapshotParams,
} from "./adapters.ts";
import type { Planes } from "./checkpoint.ts";
import { type AcquiredLease, acquireLease } from "./hold-lease.ts";
import type { NewEntry, RunWaiting, StageEnded, StageEntered } from "./journal.ts";
import type { JsonObject } from "./json.ts";
import type { Lease } from "./lease.ts";
import { type RunSession, type SaveRequest, type SessionDriver, loadRun } from "./run-session.ts";
import { betterOf } from "./position.ts";
import { mayContinue, prepareRun } from "./prepare-run.ts";
import { Aborted, Halt, type ProgressListener, type RunOutcome, Stopped, reasonOf } from "./progress.ts";
import { type RunSummary, isFailedOrAborted, orphanId, restartHint } from "./run.ts";
import { sweepSideWorktrees } from "./side-worktrees.ts";
import { applySignal, saveOnTimer, stopCleanly, watchSignals } from "./signals.ts";
import { runStage } from "./stage.ts";
import { checkStoreSize, measureStore, sizeLevel } from "./store-size.ts";
import { type Store, checkpointNotFound, knownRun, writeWithReserve } from "./store.ts";
import { type StageResult, transition } from "./transitions.ts";
import { captureState } from "./values.ts";
import type { Workflow } from "./workflow.ts";

export interface ExecuteParams<S extends object> {
  readonly adapters: Adapters;
  /** Id of the run. */
  readonly run: string;
  readonly workflow: Workflow<S>;
  /** Aborting stops the work cleanly. The outcome is "interrupted". */
  readonly signal: AbortSignal;
  readonly listen?: ProgressListener;
  /** Milliseconds after which this process stops cleanly, and the run waits for "session" until the next process resumes it. */
  readonly sessionMs?: number;
  /**
   * Only wake the run: continue it if it still waits until exactly this time. Otherwise throw LEASE_HELD, because
   * another process has woken it, and its later status does not concern this caller.
   */
  readonly wakes?: string;
  /** Continue although the workflow's definition differs from the one that the run began with. */
  readonly allowChanged?: boolean;
  readonly driver?: SessionDriver;
  /** The lease of a run that the caller has begun, and the run as read under it. Absent: it is acquired here, and released at the end. */
  readonly begun?: { readonly lease: AcquiredLease; readonly run: RunSummary } | undefined;
}

/**
 * Executes a run until it ends, waits or is interrupted.
 * LEASE_HELD: another process has it. A run that is done is a success and nothing changes. A failed or aborted run throws RUN_FAILED
 * with its reason. What a stage throws passes through: the run remains unfinished and all finished work is kept. LEASE_LOST:
 * another process took over the run. Work has stopped, nothing more was written, and unsaved work is kept as an
 * orphaned run.
 */
export async function executeRun<S extends object>(params: ExecuteParams<S>): Promise<RunOutcome> {
  const { adapters, run } = params;
  if (params.begun !== undefined) return await executeLeased(params, params.begun);
  const found = await knownRun(adapters.store, run);
  rejectWaitingRun(found, params.wakes);
  const ended = await endedOutcome(adapters, found);
  if (ended !== null) return ended;
  await rejectRolledBackStore(adapters, run);
  await using lease = await acquireLease(adapters, run);
  // Another process may have executed the run before this one acquired the lease.
  return await executeLeased(params, { lease, run: await knownRun(adapters.store, run) });
}

async function executeLeased<S extends object>(
  params: ExecuteParams<S>,
  { lease, run: summary }: NonNullable<ExecuteParams<S>["begun"]>,
): Promise<RunOutcome> {
  const { adapters, run } = params;
  const end = beginExecution(adapters.store, run);
  try {
    rejectWaitingRun(summary, params.wakes);
    const meanwhile = await endedOutcome(adapters, summary);
    if (meanwhile !== null) return meanwhile;
    // A run that was created with this lease has had no signal before it.
    const stopped = lease.created === undefined ? await applySignal(adapters, lease.lease, summary) : null;
    if (stopped !== null) return stopped;
    const { state } = summary;
    if (state.kind === "waiting") {
      const { position } = await loadRun(adapters, run);
      // Without free space the work would be done, and paid for, only to fail again.
      const isFull = state.for === "disk" && !(await hasDiskSpace(adapters, run));
      const { for: what, reason, until } = state;
      if (isFull || !mayContinue({ state, position, now: adapters.clock.now() }))
        return { kind: "waiting", for: what, reason, until };
    }
    return await runStages(params, summary, lease).catch((error: unknown) => waitForDisk(adapters, lease.lease, error));
  } finally {
    end();
  }
}

async function runStages<S extends object>(
  params: ExecuteParams<S>,
  summary: RunSummary,
  lease: AcquiredLease,
): Promise<RunOutcome> {
  const { adapters, workflow, listen, allowChanged = false, driver } = params;
  const runSession = await prepareRun({
    adapters,
    summary,
    lease,
    workflow,
    listen,
    allowChanged,
    starts: params.begun !== undefined,
    driver,
  });
  lease.onLost((error) => runSession.halt.stop(error));
  return await work(runSession, params, lease).catch(async (error: unknown) => {
    throw isLost(error) ? await keepOrphan(runSession, lease.lease, error) : error;
  });
}

/** Checked before a waker does anything, and again after it acquired the lease. Of several wakers, only one passes. */
export function rejectWaitingRun({ id, state }: Pick<RunSummary, "id" | "state">, wakes: string | undefined): void {
  if (wakes === undefined || (state.kind === "waiting" && state.until === wakes)) return;
  throw new HoldfastError({
    code: "LEASE_HELD",
    message: `Another process resumed run ${id} while this process waited`,
    hint: `Show its status: \`holdfast status ${id}\`.`,
    retry: "later",
    data: { run: id },
  });
}

function isLost(error: unknown): error is HoldfastError {
  return error instanceof HoldfastError && error.code === "LEASE_LOST";
}

async function work<S extends object>(
  runSession: RunSession,
  params: ExecuteParams<S>,
  lease: AcquiredLease,
): Promise<RunOutcome> {
  const { signal, workflow } = params;
  const interrupt = (): void => runSession.halt.stop(new Stopped({ kind: "interrupted" }, { saved: false }));
  signal.addEventListener("abort", interrupt);
  if (signal.aborted) interrupt();
  const session = limitSession(runSession, params.sessionMs);
  const signals = watchSignals(runSession, lease);
  try {
    await using _watching = signals;
    await using _clock = saveOnTimer(runSession);
    const checkSize = watchStoreSize(runSession);
    for (;;) {
      runSession.halt.checkWish();
      await checkSize();
      const { stage, iteration, stageAttempt } = runSession.position;
      runSession.emit({ kind: "stage_entered", stage, iteration, stageAttempt: stageAttempt.number });
      const stageWork = Object.hasOwn(workflow.stages, stage) ? workflow.stages[stage] : undefined;
      const ends = Object.hasOwn(workflow.shape.ends, stage);
      if (stageWork === undefined) return await finishRun(runSession, lease, workflow, null);
      const result = await runStage(runSession, { workflow, work: stageWork }).catch((error: unknown) => {
        if (!(error instanceof Aborted)) throw error;
        runSession.halt = new Halt();
        if (signal.aborted) interrupt();
        return { event: "fatal", reason: error.message };
      });
      const outcome = ends
        ? await finishRun(runSession, lease, workflow, result)
        : await advance(runSession, lease, workflow, result);
      if (outcome !== null) return outcome;
    }
  } catch (error) {
    if (!(error instanceof Stopped)) throw error;
    const outcome = await stopCleanly(runSession, error);
    await signals.handled(error);
    return outcome;
  } finally {
    session.end();
    signal.removeEventListener("abort", interrupt);
  }
}

/** Checks the size of the store before a stage, at most once a minute, and reports once that its limit is near. */
function watchStoreSize(runSession: RunSession): () => Promise<void> {
  const { adapters } = runSession;
  let next = 0;
  let reported = false;
  return async () => {
    if (adapters.clock.now() < next) return;
    next = adapters.clock.now() + CHECK_AGAIN_MS;
    const warning = await checkStoreSize(adapters, reported);
    if (warning === null) return;
    runSession.emit({ kind: "note", text: warning });
    reported = true;
  };
}

/** null: the run has not ended. */
export async function outcomeOfEnded(
  adapters: Pick<Adapters, "store">,
  summary: RunSummary,
): Promise<RunOutcome | null> {
  const { state, id } = summary;
  switch (state.kind) {
    case "active":
    case "waiting":
    case "paused":
      return null;
    case "done": {
      const latest = await adapters.store.latest(id);
      return { kind: "done", reason: latest?.planes.position.reason ?? `done since ${state.at}` };
    }
    case "failed":
    case "aborted":
      return { kind: state.kind, reason: state.reason };
  }
}

async function endedOutcome(adapters: Adapters, summary: RunSummary): Promise<RunOutcome | null> {
  const { state, id } = summary;
  if (!isFailedOrAborted(state)) return await outcomeOfEnded(adapters, summary);
  throw new HoldfastError({
    code: "RUN_FAILED",
    message: `Run ${id} ended at ${state.at}: ${state.reason}`,
    hint: restartHint(id),
    data: { run: id, reason: state.reason },
  });
}

/** Runs that this process executes, by store. All callers of a store handle share its leases, so a lease cannot separate them. */
const executing = new WeakMap<Store, Set<string>>();

/** Throws LEASE_HELD when this process executes the run already. Returns the function that ends the execution. */
function beginExecution(store: Store, run: string): () => void {
  const runs = executing.get(store) ?? new Set<string>();
  executing.set(store, runs);
  if (runs.has(run)) {
    throw new HoldfastError({
      code: "LEASE_HELD",
      message: `This process already executes run ${run}`,
      hint: "Wait until that call has ended.",
      retry: "later",
      data: { run },
    });
  }
  runs.add(run);
  return () => void runs.delete(run);
}

/**
 * Commits a transition atomically: the stage's end, the next stage's start, files, position and values, and the run's
 * end if the next stage is one. Returns the outcome when the run is over, else null.
 */
async function advance<S extends object>(
  runSession: RunSession,
  lease: AcquiredLease,
  workflow: Workflow<S>,
  concluded: StageResult<S>,
): Promise<RunOutcome | null> {
  const { shape } = workflow;
  const before = runSession.position;
  const guarded = workflow.guard({ position: before, result: concluded, options: runSession.state.config.inputs });
  const { result } = guarded;
  const after = transition(shape, guarded.position, result);
  const state = capturedState(result, runSession.state.values);
  const ended: StageEnded = {
    stageAttempt: before.stageAttempt.number,
    stage: before.stage,
    event: result.event,
    reason: result.reason,
    next: after.stage,
    score: result.score ?? null,
  };
  const entered: StageEntered = {
    stageAttempt: after.stageAttempt.number,
    stage: after.stage,
    iteration: after.iteration,
  };
  const outcome = Object.hasOwn(workflow.stages, after.stage) ? null : outcomeOf(workflow, after.stage, result.reason);
  const request: SaveRequest = {
    trigger: result.trigger ?? (after.iteration === before.iteration ? "stage" : "iteration"),
    prepare: () => [
      { kind: "stage.ended", body: ended },
      { kind: "stage.entered", body: entered },
      ...(outcome === null ? [] : [endEntry(outcome)]),
    ],
    change: (planes, { sequence }) => {
      const best = betterOf(after.best, { sequence, score: result.score ?? null });
      return {
        ...withValues(planes, state),
        position: { ...after, best, budget: planes.position.budget },
        inputs: { ...planes.inputs, ...result.inputs },
      };
    },
  };
  await (outcome === null ? runSession.save(request) : saveEnd(runSession, lease, request));
  await sweepSideWorktrees(runSession, { ended: outcome !== null });
  const { stage, event, reason, score } = ended;
  runSession.emit({ kind: "stage_ended", stage, event, reason, next: after.stage, iteration: before.iteration, score });
  if (outcome !== null) runSession.emit({ kind: "ended", outcome: outcome.kind, reason: outcome.reason });
  return outcome;
}

/** The lease ends with the run's last commit, unless worktrees are still to be removed under it. */
async function saveEnd(runSession: RunSession, lease: AcquiredLease, request: SaveRequest): Promise<void> {
  if (runSession.adapters.workspaces !== null) await runSession.save(request);
  else await lease.endWith((release) => runSession.save({ ...request, release }));
}

/** Ends the run in an end stage. If the stage has a function, it has run; the reason that led to this stage is kept. */
async function finishRun<S extends object>(
  runSession: RunSession,
  lease: AcquiredLease,
  workflow: Workflow<S>,
  concluded: StageResult<S> | null,
): Promise<RunOutcome> {
  const { stage, reason, stageAttempt } = runSession.state.position;
  const outcome = outcomeOf(workflow, stage, reason ?? concluded?.reason ?? stage);
  const state = capturedState(concluded, runSession.state.values);
  await saveEnd(runSession, lease, {
    trigger: "stage",
    change: (planes) => withValues(planes, state),
    prepare: () => {
      const ended: StageEnded = {
        stageAttempt: stageAttempt.number,
        stage,
        event: concluded?.event ?? outcome.kind,
        reason: concluded?.reason ?? outcome.reason,
        next: null,
        score: concluded?.score ?? null,
      };
      return [{ kind: "stage.ended", body: ended }, endEntry(outcome)];
    },
  });
  await sweepSideWorktrees(runSession, { ended: true });
  runSession.emit({ kind: "ended", outcome: outcome.kind, reason: outcome.reason });
  return outcome;
}

/** Captured at once, because the stage may still hold its object. undefined: the stage does not change its values. */
function capturedState<S extends object>(concluded: StageResult<S> | null, values: JsonObject): JsonObject | undefined {
  return concluded?.state === undefined ? undefined : captureState(concluded.state, values);
}

function withValues(planes: Planes, values: JsonObject | undefined): Planes {
  return values === undefined ? planes : { ...planes, context: { ...planes.context, values } };
}

type Ended = { readonly kind: "done" | "failed"; readonly reason: string };

function outcomeOf<S extends object>(workflow: Workflow<S>, stage: string, reason: string): Ended {
  return { kind: workflow.shape.ends[stage] === "done" ? "done" : "failed", reason };
}

function endEntry(outcome: Ended): NewEntry {
  return {
    kind: "run.ended",
    body: outcome.kind === "done" ? { outcome: "done" } : { outcome: "failed", reason: outcome.reason },
  };
}

/**
 * Stops work when this process has executed the run for this long. The monotonic clock cannot be set, and
 * the time in which a machine sleeps does not count. The run's own budget is not charged, so the next session has its
 * whole time.
 */
function limitSession(runSession: RunSession, milliseconds: number | undefined): { end(): void } {
  if (milliseconds === undefined) return { end: () => undefined };
  const until = performance.now() + milliseconds;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const check = (): void => {
    const left = until - performance.now();
    if (left > 0) {
      timer = setTimeout(check, Math.min(Math.ceil(left), MAX_TIMER_MS));
      return;
    }
    const reason = `The session's time is over: ${durationText(milliseconds)}`;
    runSession.halt.stop(new Stopped({ kind: "waiting", for: "session", reason, until: null }, { saved: false }));
  };
  check();
  return { end: () => clearTimeout(timer) };
}

function durationText(milliseconds: number): string {
  if (milliseconds < 1000) return `${milliseconds} ms`;
  const seconds = Math.round(milliseconds / 1000);
  if (seconds < 120) return `${seconds} s`;
  return `${Math.round(seconds / 60)} minutes`;
}

/**
 * Makes the run wait when a disk is full: of the store, of git or of the worktree. Work has stopped as after a crash,
 * so no record is partial. The reason names what needs space and how much is free. If the entry does not fit, the store
 * releases its reserve. If that does not help, the error is thrown and the journal is unchanged. Other errors are
 * rethrown.
 */
async function waitForDisk(adapters: CoreAdapters, lease: Lease, error: unknown): Promise<RunOutcome> {
  if (!(error instanceof HoldfastError) || error.code !== "DISK_FULL") throw error;
  const reason = await diskFullReason(adapters, lease.run, error);
  const until = new Date(adapters.clock.now() + CHECK_AGAIN_MS).toISOString();
  const body: RunWaiting = { for: "disk", reason, until };
  const entries: readonly NewEntry[] = [{ kind: "run.waiting", body: { ...body } }];
  try {
    await writeWithReserve(adapters.store, () => adapters.store.commit({ lease, entries }));
  } catch {
    throw new HoldfastError({
      code: "DISK_FULL",
      message: error.message,
      hint: `Nothing that was finished is lost. Free some space, then: \`holdfast resume ${lease.run}\`.`,
      retry: "later",
      data: error.data,
      cause: error,
    });
  }
  return { kind: "waiting", for: "disk", reason, until };
}

type Measured = Pick<CoreAdapters, "store" | "storeDirectory" | "workspaces" | "freeBytes" | "maxStoreBytes">;

/** True when there is enough space to continue a run that waits for it. If nothing can be measured, the attempt decides. */
export async function hasDiskSpace(adapters: Measured, run: string): Promise<boolean> {
  const size = await measureStore(adapters);
  if (size !== null && sizeLevel(size) === "reached") return false;
  const tightest = await findTightest(adapters, run);
  return tightest === null || tightest.free >= NEEDED_BYTES;
}

/** Enough for a save of usual size, the database's log and the reserve. */
const NEEDED_BYTES = 8 * 1024 * 1024;
const CHECK_AGAIN_MS = 60_000;

async function diskFullReason(adapters: CoreAdapters, run: string, error: HoldfastError): Promise<string> {
  const { path, maxSize } = error.data;
  if (maxSize !== undefined) return error.message;
  const tightest = await findTightest(adapters, run, typeof path === "string" ? path : undefined);
  const what = `The disk is full: ${error.message}`;
  if (tightest === null) return what;
  return `${what}. ${tightest.path} needs at least ${mebibytes(NEEDED_BYTES)}, and ${mebibytes(tightest.free)} are free.`;
}

/** Finds the file system with the least free space. Store, repository, git objects and worktree may be on different ones. */
async function findTightest(
  { storeDirectory, workspaces, freeBytes }: Measured,
  run: string,
  named?: string,
): Promise<{ readonly path: string; readonly free: number } | null> {
  if (freeBytes === undefined) return null;
  const worktree = (await workspaces?.find(run).catch(() => undefined))?.root;
  const repository = workspaces === null ? [] : [workspaces.commonDir, `${workspaces.commonDir}/objects`];
  const paths = [named, worktree, storeDirectory, ...repository].flatMap((path) => path ?? []);
  const measured = await Promise.all(
    paths.map(async (path) => ({ path, free: await freeBytes(path).catch(() => Number.POSITIVE_INFINITY) })),
  );
  const [first] = measured.filter(({ free }) => Number.isFinite(free)).toSorted((one, other) => one.free - other.free);
  return first ?? null;
}

function mebibytes(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`;
}

/**
 * Handles a lost lease: nothing more may be written to the run, and no work may be lost. The state in memory (finished
 * and refused steps, the conversation) and the current files become an orphaned run, which has ended and can be forked.
 * Returns the error to throw. If saving fails too, the error reports it; the original run is intact in both cases.
 */
async function keepOrphan(runSession: RunSession, lease: Lease, lost: HoldfastError): Promise<HoldfastError> {
  try {
    const orphan = await saveOrphan(runSession, lease, lost);
    return withOrphan(
      lost,
      `What this process had done is kept as ${orphan}; \`holdfast fork ${orphan}\` continues it.`,
      orphan,
    );
  } catch (error) {
    return withOrphan(
      lost,
      `What this process had done since its last checkpoint could not be kept: ${reasonOf(error)}.`,
      null,
    );
  }
}

/** The snapshot comes first. Then one transaction creates the run with its only checkpoint, so a kill leaves no empty run. */
async function saveOrphan(runSession: RunSession, { epoch }: Lease, lost: HoldfastError): Promise<string> {
  const { adapters, run, workspace } = runSession;
  const { store } = adapters;
  const id = orphanId(run.id, epoch);
  const files =
    workspace === undefined
      ? null
      : await workspace.snapshot({ run: id, sequence: 1, message: `orphan-${epoch}`, ...snapshotParams(adapters) });
  const planes = runSession.planesWith(files);
  // The refused commit may have had a checkpoint, and another process may have saved one since: neither is what this work is based on.
  const newest = await store.listCheckpoints({ run: run.id, before: runSession.state.sequence + 1, limit: NEWEST });
  const source = newest.find(({ entry }) => entry <= planes.effects.entry);
  if (source === undefined) throw checkpointNotFound(`${run.id}@${runSession.state.sequence}`);
  const parent = { id: source.id, digest: source.digest };
  const name = `orphaned from ${run.id}`;
  const own = await store.takeLease({
    run: id,
    label: name,
    birth: {
      workflow: run.workflow,
      // The orphaned run has no work item, so that a search for the run of an issue finds the active one.
      work: { kind: "none" },
      forkedFrom: parent,
      labels: { ...run.labels, [WORKTREE]: NO_WORKTREE },
      first: {
        entries: [
          { kind: "run.ended", body: { outcome: "failed", reason: `Orphaned from ${run.id}: ${lost.message}` } },
        ],
        checkpoint: { sequence: 1, trigger: "fork", name, planes, parent },
      },
    },
  });
  await store.releaseLease(own);
  return `${id}@1`;
}

/** Checkpoints that are examined for the one that an orphaned run is based on. */
const NEWEST = 100;

function withOrphan(lost: HoldfastError, hint: string, orphan: string | null): HoldfastError {
  const { code, message, data } = lost;
  return new HoldfastError({ code, message, hint, data: { ...data, orphan }, cause: lost });
}
