// Operations on a run from outside its executor: begin, find, signal, answer a question, raise limits, change options.
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { unseenText } from "./commands.ts";
import { type Adapters, type CoreAdapters, runMark, snapshotParams } from "./adapters.ts";
import { exceeded, newBudget, usedUp } from "./budget.ts";
import { type ExecutionConfig, type InputsPlane, type Planes, emptyPlanes } from "./checkpoint.ts";
import { choiceHint } from "./options.ts";
import { acquireLease } from "./hold-lease.ts";
import type { NewEntry, StageEntered, StepFinished } from "./journal.ts";
import type { JsonObject } from "./json.ts";
import type { Lease } from "./lease.ts";
import { loadRun } from "./run-session.ts";
import { type Budget, type Position, nextAttempt } from "./position.ts";
import { RERUN_OF, type RunState, type RunSummary, type Work, isEnded } from "./run.ts";
import { pinFilesAgain } from "./save.ts";
import type { StopSignal } from "./signal.ts";
import { applySignal, clearSignals, pendingSignal, withdrawSignal } from "./signals.ts";
import { continuedEntry, waitingEntry } from "./waiting.ts";
import { type CommitBody, type LeasedBirth, knownRun, writeWithReserve } from "./store.ts";
import { captureState } from "./values.ts";
import type { Workflow } from "./workflow.ts";
import type { Workspace } from "./workspace.ts";

interface BeginParams<S extends object> {
  readonly adapters: Pick<Adapters, "random">;
  readonly workflow: Workflow<S>;
  readonly work: Work;
  readonly inputs: InputsPlane;
  /** `config.inputs` holds the workflow's options. */
  readonly config: ExecutionConfig;
  readonly labels?: JsonObject;
  readonly limit?: Partial<Budget["limit"]>;
}

/**
 * Creates a run at its workflow's first stage. A repeated call after a kill completes the same run, and a run that has
 * already begun is not changed. RUN_EXISTS: the id belongs to other work.
 */
export async function beginRun<S extends object>(
  params: BeginParams<S> & {
    readonly adapters: Adapters;
    readonly id: string;
    /** The run's worktree. undefined: the run has no files. */
    readonly workspace: Workspace | undefined;
  },
): Promise<void> {
  const { adapters, id, workspace } = params;
  const { store } = adapters;
  const { first, ...birth } = birthOf(params);
  await using held = await acquireLease(adapters, id, undefined, workspace === undefined ? { ...birth, first } : birth);
  if (workspace === undefined || (await store.listCheckpoints({ run: id, limit: 1 })).length > 0) return;
  const { base } = params.inputs;
  const files = await workspace.snapshot({
    run: id,
    sequence: 1,
    message: "begin",
    ...snapshotParams(adapters),
    ...(base === null ? {} : { base }),
  });
  const { entries, checkpoint } = first;
  await store.commit({
    lease: held.lease,
    entries,
    checkpoint: { ...checkpoint, planes: { ...checkpoint.planes, files } },
  });
}

/** The run as the store creates it, with its first checkpoint. The checkpoint has no files. */
export function birthOf<S extends object>(
  params: BeginParams<S>,
): LeasedBirth & { readonly first: Required<CommitBody> } {
  const planes = firstPlanes(params);
  const { stage, iteration, stageAttempt } = planes.position;
  const entered: StageEntered = { stageAttempt: stageAttempt.number, stage, iteration };
  return {
    workflow: params.workflow.shape.name,
    work: params.work,
    ...(params.labels === undefined ? {} : { labels: params.labels }),
    first: {
      entries: [{ kind: "stage.entered", body: entered }],
      checkpoint: { sequence: 1, trigger: "stage", planes },
    },
  };
}

function firstPlanes<S extends object>(params: BeginParams<S>): Planes {
  const { workflow, config, adapters } = params;
  const { shape, definition } = workflow;
  const empty = emptyPlanes({ workflow: shape.name, stage: shape.initial });
  return {
    ...empty,
    position: {
      ...empty.position,
      definition,
      budget: newBudget(params.limit),
      stageAttempt: { number: 1, steps: {}, failures: {} },
      fence:
        config.seed === null ? `${adapters.random()}${adapters.random()}${adapters.random()}` : `seed ${config.seed}`,
    },
    context: { values: captureState(workflow.initialState(config.inputs)), tokens: {} },
    inputs: params.inputs,
    config,
  };
}

export type FoundRun =
  | { readonly kind: "one"; readonly run: RunSummary }
  /** Several open runs match. The user must choose one. */
  | { readonly kind: "several"; readonly runs: readonly RunSummary[] }
  /** No run can continue. `ended` lists the finished ones, newest first. */
  | { readonly kind: "none"; readonly ended: readonly RunSummary[] };

/**
 * Finds the open run of exactly this issue: issue 4 never matches issue 42, whatever the run's id is. A run that died
 * before its first checkpoint has neither agent nor options and cannot continue. Starting it again begins it under the
 * same id.
 */
export async function findRunFor(params: {
  readonly adapters: CoreAdapters;
  readonly issue: number;
  readonly workflow?: string;
}): Promise<FoundRun> {
  const { adapters, issue, workflow } = params;
  const runs = (await adapters.store.listRuns(workflow === undefined ? {} : { workflow })).filter(
    ({ work, labels }) => work.kind === "issue" && work.number === issue && labels[RERUN_OF] === undefined,
  );
  const ended = runs.filter(({ state }) => isEnded(state));
  const open = runs.filter((run) => !ended.includes(run) && run.checkpoints > 0);
  const [run, other] = open;
  if (run === undefined) return { kind: "none", ended };
  return other === undefined ? { kind: "one", run } : { kind: "several", runs: open };
}

export interface SignalParams {
  readonly adapters: Adapters;
  readonly request: Omit<StopSignal, "id" | "at">;
  /** Aborting ends the wait. The signal that was sent remains in effect. */
  readonly signal: AbortSignal;
  /** Called once the signal is stored. */
  readonly onStored?: () => void;
  /** Called once, when the process that executes the run must first reach a safe point. */
  readonly onWaiting?: (by: Lease) => void;
}

export type SignalResult =
  /** The signal is on record, and no process executes the run any more. */
  | { readonly kind: "done"; readonly run: RunSummary }
  /** The run ended by itself before it handled the signal. */
  | { readonly kind: "ended"; readonly run: RunSummary }
  /** The run waits for something. The signal remains pending, so the run will not continue. */
  | { readonly kind: "pending"; readonly run: RunSummary }
  /** The signal was withdrawn before the run handled it. */
  | { readonly kind: "withdrawn"; readonly run: RunSummary }
  /** This host cannot see the lease holder. It will read the signal if it uses this store. */
  | { readonly kind: "other_host"; readonly by: Lease };

/**
 * Sends a signal to a run and waits until it is handled. The signal is durable first. So the executing process
 * handles it, this process if there is none, or the next one that resumes the run. A kill of any of them loses no signal.
 */
export async function sendSignal(params: SignalParams): Promise<SignalResult> {
  const { adapters, request } = params;
  const { store, clock } = adapters;
  const { run } = request;
  const before = await knownRun(store, run);
  if (isEnded(before.state)) return { kind: "ended", run: before };
  const id = `${adapters.random()}-${adapters.random()}`.toLowerCase();
  const sent: StopSignal = { ...request, id, at: new Date(clock.now()).toISOString() };
  await writeWithReserve(store, () => store.putSignal(sent)).catch((error: unknown) => {
    throw notSent(run, error);
  });
  params.onStored?.();
  let asked: Lease | undefined;
  for (;;) {
    const summary = await knownRun(store, run);
    const lease = await store.getLease(run);
    const alive = lease === undefined ? "dead" : adapters.liveness(lease.owner);
    const isPending = (await pendingSignal(store, run))?.id === id;
    if (isEnded(summary.state)) {
      await withdrawSignal(store, sent);
      return { kind: isDone(request, summary) ? "done" : "ended", run: summary };
    }
    if (lease === undefined || alive === "dead") {
      if (!isPending) return { kind: "done", run: summary };
      const outcome = await handleHere(params);
      if (outcome !== null) return outcome;
    } else if (alive === "unknown") return { kind: "other_host", by: lease };
    else if (isPending && asked === undefined) params.onWaiting?.((asked = lease));
    else if (!isPending) {
      // The executor records the result before it removes the signal. So the signal has been handled, perhaps with a
      // resume after it, or it was withdrawn.
      const now = await knownRun(store, run);
      if (lease.epoch !== asked?.epoch) return { kind: "done", run: now };
      if (now.state.kind === "active") return { kind: "withdrawn", run: now };
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    params.signal.throwIfAborted();
  }
}

const POLL_MS = 50;

/** A run can be stopped without the store, by an interrupt of its process. */
function notSent(run: string, cause: unknown): unknown {
  if (!(cause instanceof HoldfastError)) return cause;
  return new HoldfastError({
    code: cause.code,
    message: `The signal to run ${run} was not stored: ${cause.message}`,
    hint: `Stop the run's process without a signal: \`holdfast stop ${run}\`. ${cause.hint ?? ""}`.trim(),
    retry: cause.retry,
    data: { run, ...cause.data },
    cause,
  });
}

/** Applies the signal when no process executes the run. null: another process has just acquired the lease. */
async function handleHere({ adapters, request }: SignalParams): Promise<SignalResult | null> {
  const { store } = adapters;
  try {
    await using lease = await acquireLease(adapters, request.run);
    // Processes that a killed executor left behind would continue to change files.
    const unseen = unseenText(await adapters.commands.endMarked(runMark(adapters, request.run)));
    if (unseen !== null) {
      await store.commit({ lease: lease.lease, entries: [{ kind: "note", body: { text: unseen } }] });
    }
    const outcome = await applySignal(adapters, lease.lease, await knownRun(store, request.run));
    const run = await knownRun(store, request.run);
    if (isEnded(run.state) && !isDone(request, run)) return { kind: "ended", run };
    const isPending = outcome !== null && (await pendingSignal(store, request.run)) !== null;
    return { kind: isPending ? "pending" : "done", run };
  } catch (error) {
    if (error instanceof HoldfastError && error.code === "LEASE_HELD") return null;
    throw error;
  }
}

function isDone({ kind }: Pick<StopSignal, "kind">, { state }: RunSummary): boolean {
  return kind === "abort" && state.kind === "aborted";
}

/**
 * Records the user's answer to the question that the run waits for. Without a question, it lets the run continue. The
 * answer is the step's result, in the same commit. USAGE: the run waits for no answer, or does not accept this one.
 */
export async function answerDecision(params: {
  readonly adapters: Adapters;
  readonly run: string;
  readonly answer: string;
  /** Name of the user who answered, and why, for the journal. */
  readonly by?: string;
  readonly note?: string;
}): Promise<void> {
  const { adapters, run, answer } = params;
  const by = {
    ...(params.by === undefined ? {} : { by: params.by }),
    ...(params.note === undefined ? {} : { note: params.note }),
  };
  await using lease = await acquireLease(adapters, run);
  const { state } = await knownRun(adapters.store, run);
  if (state.kind !== "waiting") {
    throw usageError(`Run ${run} waits for no answer: it is ${state.kind}`, `See \`holdfast status ${run}\`.`);
  }
  const { decision } = state;
  if (decision === undefined) {
    await adapters.store.commit({ lease: lease.lease, entries: [continuedEntry({ answer, ...by })] });
    return;
  }
  const { name, question, options } = decision;
  if (options.length > 0 && !options.includes(answer)) {
    throw usageError(`${JSON.stringify(answer)} does not answer "${question}"`, choiceHint(answer, options), {
      options,
    });
  }
  const { position } = await loadRun(adapters, run);
  const body: StepFinished = { stageAttempt: position.stageAttempt.number, step: name, result: answer, spent: null };
  const answered: NewEntry = { kind: "step.finished", body };
  await adapters.store.commit({
    lease: lease.lease,
    entries: [continuedEntry({ decision: name, answer, ...by }), answered],
  });
}

/** Lets a run continue that is paused or waits for its next session. Other runs are not changed. */
export async function unpauseRun({
  adapters,
  run,
}: {
  readonly adapters: Adapters;
  readonly run: string;
}): Promise<void> {
  const waits = ({ state }: RunSummary): boolean =>
    state.kind === "paused" || (state.kind === "waiting" && state.for === "session");
  if (!waits(await knownRun(adapters.store, run))) return;
  await using lease = await acquireLease(adapters, run);
  if (waits(await knownRun(adapters.store, run)))
    await adapters.store.commit({ lease: lease.lease, entries: [continuedEntry({})] });
}

/** Releases the lease of a process that died, so that the run is no longer reported as crashed. Other leases stay. */
export async function releaseDeadLease(adapters: Adapters, run: string): Promise<void> {
  const held = (await adapters.store.listLeases()).find((lease) => lease.run === run);
  if (held === undefined || adapters.liveness(held.owner) !== "dead") return;
  try {
    await (await acquireLease(adapters, run))[Symbol.asyncDispose]();
  } catch (error) {
    // A process that acquired it meanwhile continues the run.
    if (!(error instanceof HoldfastError) || error.code !== "LEASE_HELD") throw error;
  }
}

/** Sets new limits. A run that waits for them continues with the next resume. */
export async function raiseLimits(params: {
  readonly adapters: Adapters;
  readonly run: string;
  readonly limit: Partial<Budget["limit"]>;
}): Promise<Budget> {
  const { adapters, run } = params;
  await using lease = await acquireLease(adapters, run);
  const { state } = await knownRun(adapters.store, run);
  const { newest, top, position } = await loadRun(adapters, run);
  const budget: Budget = { ...position.budget, limit: { ...position.budget.limit, ...params.limit } };
  const sequence = top + 1;
  const files = await pinFilesAgain(adapters, newest, sequence);
  const waits = state.kind === "waiting" && state.for === "budget";
  const still = exceeded(budget);
  // The reason names the current limits, so that a user who raised one of two still sees the other.
  const entry =
    still.length === 0
      ? continuedEntry({})
      : waitingEntry({ for: "budget", reason: usedUp(budget, still), until: null });
  await adapters.store.commit({
    lease: lease.lease,
    entries: waits ? [entry] : [],
    checkpoint: {
      sequence,
      trigger: "manual",
      name: "limits raised",
      planes: {
        ...newest.planes,
        position: { ...position, budget },
        files,
      },
    },
  });
  return budget;
}

/** New options of a run's workflow. */
export interface OptionsChange {
  readonly options: JsonObject;
  /** The workflow's values, if the change affects them too. */
  readonly values?: JsonObject;
  /** Stage and iteration at which an ended run continues. null: it remains ended. */
  readonly continuesAt: { readonly stage: string; readonly iteration: number } | null;
  /** Explanation for the journal and the next stage. */
  readonly reason: string;
}

/** Whether the change reopens a run in this state. */
export function reopensRun(state: RunState, { continuesAt }: OptionsChange): boolean {
  return isEnded(state) && continuesAt !== null;
}

/** The planes after the change. A run that has ended continues at the given stage, as after a normal transition. */
export function changedPlanes(planes: Planes, state: RunState, change: OptionsChange): Planes {
  const { options, values = planes.context.values, continuesAt, reason } = change;
  const { position } = planes;
  return {
    ...planes,
    position: isEnded(state) && continuesAt !== null ? enter(position, { ...continuesAt, reason }) : position,
    context: { ...planes.context, values },
    config: { ...planes.config, inputs: options },
  };
}

/**
 * Changes the workflow's options for the rest of a run. A run that has not ended keeps its position. All of this is one
 * commit, so a kill leaves it done or not done. Returns the sequence of the new checkpoint. CONFLICT: the run has a newer
 * checkpoint than `top`, so the change may not fit it.
 */
export async function changeOptions(params: {
  readonly adapters: Adapters;
  readonly run: string;
  readonly change: OptionsChange;
  /** Sequence of the newest checkpoint that the caller has seen. Absent: any. */
  readonly top?: number;
}): Promise<number> {
  const { adapters, run, change } = params;
  await using lease = await acquireLease(adapters, run);
  const { state } = await knownRun(adapters.store, run);
  const { newest, top, position: current } = await loadRun(adapters, run);
  if (params.top !== undefined && params.top !== top) throw executedMeanwhile(run);
  const sequence = top + 1;
  const isReopened = reopensRun(state, change);
  if (isReopened) await clearSignals(adapters, run);
  const planes = changedPlanes({ ...newest.planes, position: current }, state, change);
  await adapters.store.commit({
    lease: lease.lease,
    entries: isReopened ? entriesOf(planes.position, change.reason) : [],
    checkpoint: {
      sequence,
      trigger: "manual",
      name: change.reason,
      planes: { ...planes, files: await pinFilesAgain(adapters, newest, sequence) },
    },
  });
  return sequence;
}

/** The plan of a resume no longer fits the run. */
export function executedMeanwhile(run: string): HoldfastError {
  return new HoldfastError({
    code: "CONFLICT",
    message: `Another process executed run ${run} after this resume was planned`,
    hint: "Resume it again; nothing was changed.",
    retry: "later",
  });
}

function enter(position: Position, to: Pick<Position, "stage" | "iteration" | "reason">): Position {
  return { ...position, ...to, stageAttempt: nextAttempt(position.stageAttempt) };
}

function entriesOf({ stageAttempt, stage, iteration }: Position, reason: string): readonly NewEntry[] {
  const entered: StageEntered = { stageAttempt: stageAttempt.number, stage, iteration };
  return [
    { kind: "run.reopened", body: { reason } },
    { kind: "stage.entered", body: entered },
  ];
}
