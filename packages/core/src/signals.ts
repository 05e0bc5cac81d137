// Signals to the process that executes a run: pause and abort, requested checkpoints, and checkpoints by timer.

import { MAX_TIMER_MS } from "@holdfast/platform/clock";
import type { CoreAdapters } from "./adapters.ts";
import type { NewEntry } from "./journal.ts";
import type { Lease } from "./lease.ts";
import { type RunOutcome, Stopped, type StoppedByUser, reasonOf } from "./progress.ts";
import { revertUnexpectedFiles } from "./restore-files.ts";
import type { RunSession, SaveRequest } from "./run-session.ts";
import { type RunSummary, isEnded } from "./run.ts";
import { type CheckpointRequest, type Signal, type StopSignal, type StoredSignal, stopSignalIn } from "./signal.ts";
import type { CreatedRun, Store } from "./store.ts";
import { waitingEntry } from "./waiting.ts";

interface SignalWatch extends AsyncDisposable {
  /** Removes the signal that caused this stop, once the stop is recorded. */
  handled(cause: Stopped): Promise<void>;
}

/** Handles the run's signals while this process executes it. A failure here never fails the run. */
export function watchSignals(
  runSession: RunSession,
  { lease, created }: { readonly lease: Lease; readonly created: CreatedRun | undefined },
): SignalWatch {
  const { store } = runSession.adapters;
  const { epoch } = lease;
  const causes = new Map<Error, StopSignal>();
  let current = "";
  let failed = false;
  let seen: string | undefined;
  let polling: Promise<void> | undefined;
  let answering: Promise<void> | undefined;

  function apply(signal: StopSignal | null): void {
    if ((signal?.id ?? "") === current) return;
    current = signal?.id ?? "";
    runSession.halt.unwish();
    if (signal === null) return;
    const stopped = new Stopped(outcomeOf(signal), { saved: false });
    causes.set(stopped, signal);
    if (signal.now) runSession.halt.stop(stopped);
    else {
      runSession.emit({ kind: "note", text: `${signal.by} asks for a ${signal.kind}: at the next safe point` });
      runSession.halt.wish(stopped);
    }
  }

  async function poll(): Promise<void> {
    const changes = store.changes?.();
    if (changes !== undefined && changes === seen) return;
    const signals = await store.listSignals(runSession.run.id);
    // A signal that is there is handled in steps; only silence lasts until something changes.
    seen = signals.length === 0 ? changes : undefined;
    apply(stopSignalIn(signals));
    const requests = signals.filter((signal) => signal.kind === "checkpoint");
    // Not awaited: a save can take minutes, and a signal to stop must be seen meanwhile.
    if (requests.length > 0)
      answering ??= answerAll(runSession, requests, epoch)
        .catch((error: unknown) => {
          runSession.emit({ kind: "note", text: `A requested checkpoint failed: ${reasonOf(error)}` });
        })
        .finally(() => {
          answering = undefined;
        });
  }

  function pollOnce(): void {
    polling ??= poll()
      .catch((error: unknown) => {
        if (!failed) runSession.emit({ kind: "note", text: `Signals cannot be read: ${reasonOf(error)}` });
        failed = true;
      })
      .finally(() => {
        polling = undefined;
      });
  }

  const timer = setInterval(pollOnce, SIGNAL_POLL_MS);
  timer.unref();
  // At once, so that even a short run removes requests that its earlier holders left.
  if (created === undefined) pollOnce();
  return {
    async handled(cause) {
      const signal = causes.get(cause);
      if (signal !== undefined) await withdrawSignal(store, signal).catch(() => false);
    },
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      await polling;
      await answering;
    },
  };
}

const SIGNAL_POLL_MS = 200;

/** The signal that no process has handled yet; abort comes before pause. */
export async function pendingSignal(store: Pick<Store, "listSignals">, run: string): Promise<StopSignal | null> {
  return stopSignalIn(await store.listSignals(run));
}

/** False: it was handled or withdrawn before, or a newer signal has replaced it, which remains. */
export async function withdrawSignal(store: Pick<Store, "moveSignal">, { run, id }: Signal): Promise<boolean> {
  return await store.moveSignal({ run, id, from: "pending", to: null });
}

function outcomeOf({ kind, by, reason }: StopSignal): StoppedByUser {
  const because = reason === "" ? "" : `: ${reason}`;
  return kind === "abort"
    ? { kind: "aborted", reason: `aborted by ${by}${because}` }
    : { kind: "paused", reason: `paused by ${by}${because}` };
}

/**
 * Applies a signal to a run that no process executes, under our lease; null: there is none. A run that waits keeps its reason when it is
 * paused, so its signal remains until the user resumes the run.
 */
export async function applySignal(
  adapters: CoreAdapters,
  lease: Lease,
  run: RunSummary,
): Promise<StoppedByUser | null> {
  const { store } = adapters;
  const signal = await pendingSignal(store, run.id);
  if (signal === null) return null;
  const outcome = outcomeOf(signal);
  const { state } = run;
  if (signal.kind === "pause" && state.kind === "waiting") return outcome;
  if (!isEnded(state)) await store.commit({ lease, entries: [entryOf(outcome)] });
  await withdrawSignal(store, signal);
  if (outcome.kind === "aborted") await clearSignals(adapters, run.id);
  return outcome;
}

/** Removes the signals of an ended run. If the run is reopened, they do not apply to it. */
export async function clearSignals({ store }: Pick<CoreAdapters, "store">, run: string): Promise<void> {
  for (const signal of await store.listSignals(run))
    if (signal.kind !== "checkpoint") await withdrawSignal(store, signal);
}

function entryOf({ kind, reason }: StoppedByUser): NewEntry {
  return kind === "paused"
    ? { kind: "run.paused", body: { reason } }
    : { kind: "run.ended", body: { outcome: kind, reason } };
}

/** Saves the run when work was stopped from outside. */
export async function stopCleanly(runSession: RunSession, { outcome, saved }: Stopped): Promise<RunOutcome> {
  if (saved) return outcome;
  switch (outcome.kind) {
    case "interrupted":
      await saveStopped(runSession, { trigger: "interrupt", why: "interrupted", entries: [] });
      break;
    case "aborted":
      await saveStopped(runSession, { trigger: "interrupt", why: "aborted", entries: [entryOf(outcome)] });
      runSession.emit({ kind: "ended", outcome: "aborted", reason: outcome.reason });
      break;
    case "paused":
      await saveStopped(runSession, { trigger: "session_end", why: "paused", entries: [entryOf(outcome)] });
      runSession.emit(outcome);
      break;
    case "waiting":
      await saveStopped(runSession, {
        trigger: "session_end",
        why: "the session ended",
        entries: [waitingEntry(outcome)],
      });
      runSession.emit(outcome);
  }
  return outcome;
}

/** Saves the files as they are, the position with its half-done steps, and every effect with an unknown outcome. */
async function saveStopped(
  runSession: RunSession,
  params: {
    readonly trigger: "interrupt" | "session_end";
    readonly why: string;
    readonly entries: readonly NewEntry[];
  },
): Promise<void> {
  // A resume starts from this checkpoint and could no longer recognize unexpected files.
  await revertUnexpectedFiles(runSession);
  await runSession.save({
    trigger: params.trigger,
    prepare: () => [
      ...Object.values(runSession.state.effects)
        .filter(({ state }) => state.kind === "intended")
        .map(({ key }): NewEntry => ({ kind: "effect.unknown", body: { key, reason: params.why } })),
      ...params.entries,
    ],
  });
}

/** Journal entry in the same commit as the requested checkpoint; the requesting process finds the answer by it. */
const ANSWERED = "x.requested";

type StoredRequest = CheckpointRequest & Pick<StoredSignal, "state">;

/** Answers the requests to this holder, and removes those to earlier ones, also what they had taken. */
async function answerAll(runSession: RunSession, requests: readonly StoredRequest[], epoch: number): Promise<void> {
  const { store } = runSession.adapters;
  for (const request of requests) {
    const { run, id, state } = request;
    if (request.epoch < epoch) await store.moveSignal({ run, id, from: state, to: null });
    else if (state === "pending" && mayAsk(runSession)) await answer(runSession, request);
  }
}

async function answer(runSession: RunSession, { run, id, name }: StoredRequest): Promise<void> {
  const { store } = runSession.adapters;
  if (!(await store.moveSignal({ run, id, from: "pending", to: "taken" }))) return;
  try {
    await saveFromOutside(runSession, {
      trigger: "manual",
      ...(name === null ? {} : { name }),
      prepare: ({ sequence }) => [{ kind: ANSWERED, body: { request: id, sequence } }],
    });
  } finally {
    await store.moveSignal({ run, id, from: "taken", to: null });
  }
}

export type CheckpointAnswer =
  | { readonly kind: "saved"; readonly sequence: number; readonly by: Lease }
  /** No process holds the run any more, and none saved: the caller can do it. */
  | { readonly kind: "free" }
  /** The holder is on another host, where its liveness is unknown. */
  | { readonly kind: "elsewhere"; readonly by: Lease }
  /** The holder is alive and does not answer: it does not execute a run, or is too busy. */
  | { readonly kind: "silent"; readonly by: Lease }
  /** The holder tried and failed. */
  | { readonly kind: "failed"; readonly by: Lease };

export interface CheckpointRequestParams {
  readonly adapters: CoreAdapters;
  readonly run: string;
  readonly name: string | null;
  /** When aborted, the request is withdrawn. A request that was taken is still answered. */
  readonly signal: AbortSignal;
  /** How long to wait until a process has taken the request, in milliseconds. */
  readonly patienceMs: number;
  readonly onWaiting?: (by: Lease) => void;
}

/**
 * Requests a checkpoint from the process that holds the run, and waits until the store has it. After a kill at any point the checkpoint is
 * taken once or not at all. The answer is in the same journal commit as the checkpoint, and only the holder of the requested epoch can
 * write it.
 */
export async function requestCheckpoint(params: CheckpointRequestParams): Promise<CheckpointAnswer> {
  const { adapters, run, name, signal } = params;
  const { store } = adapters;
  const id = `${adapters.random()}-${adapters.random()}`.toLowerCase();
  const journal = new Answers(adapters, run, id, (await store.getRun(run))?.entries ?? 0);
  for (;;) {
    const lease = await store.getLease(run);
    const alive = lease === undefined ? "dead" : adapters.liveness(lease.owner);
    if (lease === undefined || alive === "dead") return FREE;
    if (alive === "unknown") return { kind: "elsewhere", by: lease };
    const request: CheckpointRequest = { kind: "checkpoint", id, run, epoch: lease.epoch, name };
    await store.putSignal(request);
    try {
      const answered = await waitFor({ ...params, request, lease, journal });
      if (answered !== "left") return answered;
    } finally {
      await withdrawSignal(store, request);
    }
    signal.throwIfAborted();
  }
}

const FREE: CheckpointAnswer = { kind: "free" };

/** "left": this holder no longer has the lease, and the journal has no answer from it. */
async function waitFor(
  params: CheckpointRequestParams & {
    readonly request: CheckpointRequest;
    readonly lease: Lease;
    readonly journal: Answers;
  },
): Promise<CheckpointAnswer | "left"> {
  const { request, lease, journal } = params;
  const { store } = params.adapters;
  const began = performance.now();
  let reported = false;
  for (;;) {
    params.signal.throwIfAborted();
    const state = (await store.listSignals(request.run)).find(({ id }) => id === request.id)?.state;
    const held = await isHeld(params.adapters, lease);
    // Checked last, so that a commit from before the holder left is seen.
    const sequence = await journal.read();
    if (sequence !== null) return { kind: "saved", sequence, by: lease };
    if (!held) return "left";
    if (state === undefined) return { kind: "failed", by: lease };
    const waited = performance.now() - began;
    const patience = state === "taken" ? TAKEN_MS : params.patienceMs;
    if (waited > patience && (state === "taken" || (await withdrawSignal(store, request))))
      return { kind: "silent", by: lease };
    if (waited > NOTE_MS && !reported) {
      reported = true;
      params.onWaiting?.(lease);
    }
    await pause(params.signal);
  }
}

const NOTE_MS = 1000;
/** A snapshot of a very large worktree takes minutes. */
const TAKEN_MS = 600_000;
const POLL_MS = 50;

async function isHeld(adapters: CoreAdapters, { run, epoch }: Lease): Promise<boolean> {
  const now = await adapters.store.getLease(run);
  return now !== undefined && now.epoch === epoch && adapters.liveness(now.owner) !== "dead";
}

/** Reads the journal's answer to a request. */
class Answers {
  readonly #adapters: CoreAdapters;
  readonly #run: string;
  readonly #id: string;
  #after: number;

  constructor(adapters: CoreAdapters, run: string, id: string, after: number) {
    this.#adapters = adapters;
    this.#run = run;
    this.#id = id;
    this.#after = after;
  }

  async read(): Promise<number | null> {
    for await (const { kind, body, entry } of this.#adapters.store.readJournal({
      run: this.#run,
      after: this.#after,
    })) {
      this.#after = entry;
      const { request, sequence } = body;
      if (kind === ANSWERED && request === this.#id && typeof sequence === "number") return sequence;
    }
    return null;
  }
}

async function pause(signal: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = setTimeout(done, POLL_MS);
    function done(): void {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    }
    signal.addEventListener("abort", done, { once: true });
  });
  signal.throwIfAborted();
}

/**
 * Saves a checkpoint when the run has executed for this long without one, in any stage. It is a safety net, so its own failure fails
 * nothing. An idle run is not saved repeatedly.
 */
export function saveOnTimer(runSession: RunSession): AsyncDisposable {
  const { checkpointEveryMs } = runSession.adapters;
  if (checkpointEveryMs === null) return { [Symbol.asyncDispose]: () => Promise.resolve() };
  let saving: Promise<void> | undefined;
  const saveIfDue = (): void => {
    const unsaved = runSession.unsavedFor;
    if (saving !== undefined || unsaved === null || unsaved < checkpointEveryMs || !mayAsk(runSession)) return;
    saving = saveFromOutside(runSession, { trigger: "timer" })
      .catch((error: unknown) => runSession.emit({ kind: "note", text: `A checkpoint failed: ${reasonOf(error)}` }))
      .finally(() => {
        saving = undefined;
      });
  };
  // Polls more often than a save is due, because any other checkpoint restarts the period.
  const timer = setInterval(saveIfDue, Math.max(1, Math.min(checkpointEveryMs / 4, TIMED_SAVE_POLL_MS, MAX_TIMER_MS)));
  timer.unref();
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      await saving;
    },
  };
}

const TIMED_SAVE_POLL_MS = 15_000;
const PLACED_MS = 20;

/** Not while work is being stopped, since that saves by itself, nor while files are being placed. */
function mayAsk(runSession: RunSession): boolean {
  return runSession.halt.cause === undefined && runSession.placing === 0;
}

/** Saves a checkpoint in the middle of the stage's work. */
async function saveFromOutside(runSession: RunSession, request: SaveRequest): Promise<void> {
  for (const bring of runSession.beforeSave) await bring();
  // A placement may have begun while the agents were queried.
  while (runSession.placing > 0) await new Promise((resolve) => setTimeout(resolve, PLACED_MS));
  await runSession.save(request);
}
