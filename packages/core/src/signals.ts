// Signals to the process that executes a run: pause and abort, requested checkpoints, and checkpoints by timer.

import { MAX_TIMER_MS } from "@holdfast/platform/clock";
import type { CoreAdapters } from "./adapters.ts";
import type { NewEntry } from "./journal.ts";
import type { Lease } from "./lease.ts";
import { type RunOutcome, Stopped, type StoppedByUser, reasonOf } from "./progress.ts";
import { revertUnexpectedFiles } from "./restore-files.ts";
import type { RunSession, SaveRequest } from "./run-session.ts";
import { type RunSummary, isEnded } from "./run.ts";
import type { CheckpointRequest, Signal, Signals } from "./signal-files.ts";
import { waitingEntry } from "./waiting.ts";

interface Orders extends AsyncDisposable {
  /** Removes the signal that caused this stop, once the stop is recorded. */
  settled(cause: Stopped): Promise<void>;
}

/** Handles pause and abort signals while this process executes the run. */
export function watchSignals(runSession: RunSession): Orders {
  const { requests } = runSession.adapters;
  if (requests === null) return { settled: NOTHING, [Symbol.asyncDispose]: NOTHING };
  const followed = new Map<Error, Signal>();
  let last = "";
  let troubled = false;
  let looking: Promise<void> | undefined;
  const look = async (): Promise<void> => {
    const order = await requests.orderFor(runSession.run.id);
    if ((order?.id ?? "") === last) return;
    last = order?.id ?? "";
    runSession.halt.unwish();
    if (order === null) return;
    const stopped = new Stopped(outcomeOf(order), { saved: false });
    followed.set(stopped, order);
    if (order.now) runSession.halt.stop(stopped);
    else {
      runSession.tell({ kind: "note", text: `${order.by} asks for a ${order.kind}: at the next safe point` });
      runSession.halt.wish(stopped);
    }
  };
  const timer = setInterval(() => {
    looking ??= look()
      .catch((error: unknown) => {
        if (!troubled) runSession.tell({ kind: "note", text: `Orders cannot be read: ${reasonOf(error)}` });
        troubled = true;
      })
      .finally(() => {
        looking = undefined;
      });
  }, SIGNAL_POLL_MS);
  timer.unref();
  return {
    async settled(cause) {
      const order = followed.get(cause);
      if (order !== undefined) await requests.settle(order).catch(() => undefined);
    },
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      await looking;
    },
  };
}

const SIGNAL_POLL_MS = 200;
const NOTHING = (): Promise<void> => Promise.resolve();

function outcomeOf({ kind, by, reason }: Signal): StoppedByUser {
  const said = reason === "" ? "" : `: ${reason}`;
  return kind === "abort"
    ? { kind: "aborted", reason: `aborted by ${by}${said}` }
    : { kind: "paused", reason: `paused by ${by}${said}` };
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
  const order = await adapters.requests?.orderFor(run.id);
  if (order === undefined || order === null) return null;
  const outcome = outcomeOf(order);
  const { state } = run;
  if (order.kind === "pause" && state.kind === "waiting") return outcome;
  if (!isEnded(state)) await adapters.store.commit({ lease, entries: [entryOf(outcome)] });
  await adapters.requests?.settle(order);
  if (outcome.kind === "aborted") await clearSignals(adapters, run.id);
  return outcome;
}

/** Removes the signals of an ended run. If the run is reopened, they do not apply to it. */
export async function clearSignals({ requests }: CoreAdapters, run: string): Promise<void> {
  for (const _kind of ["abort", "pause"]) {
    const order = (await requests?.orderFor(run)) ?? null;
    if (order !== null) await requests?.settle(order);
  }
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
      runSession.tell({ kind: "ended", outcome: "aborted", reason: outcome.reason });
      break;
    case "paused":
      await saveStopped(runSession, { trigger: "session_end", why: "paused", entries: [entryOf(outcome)] });
      runSession.tell(outcome);
      break;
    case "waiting":
      await saveStopped(runSession, {
        trigger: "session_end",
        why: "the session ended",
        entries: [waitingEntry(outcome)],
      });
      runSession.tell(outcome);
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

/** Answers checkpoint requests while this process executes the run. A failure here never fails the run. */
export function answerRequests(runSession: RunSession, epoch: number): AsyncDisposable {
  const { requests } = runSession.adapters;
  if (requests === null) return { [Symbol.asyncDispose]: () => Promise.resolve() };
  const tell = (error: unknown): void =>
    runSession.tell({ kind: "note", text: `A checkpoint that was asked for failed: ${reasonOf(error)}` });
  let looking: Promise<void> | undefined = requests.sweep({ run: runSession.run.id, epoch }).catch(tell).finally(rest);
  function rest(): void {
    looking = undefined;
  }
  const timer = setInterval(() => {
    if (mayAsk(runSession)) looking ??= answerAll(runSession, requests, epoch).catch(tell).finally(rest);
  }, LOOK_MS);
  timer.unref();
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      await looking;
    },
  };
}

const LOOK_MS = 200;

async function answerAll(runSession: RunSession, requests: Signals, epoch: number): Promise<void> {
  for (const request of await requests.waiting(runSession.run.id)) {
    if (request.epoch !== epoch) await requests.withdraw(request);
    else if (mayAsk(runSession) && (await requests.take(request))) await answer(runSession, requests, request);
  }
}

async function answer(runSession: RunSession, requests: Signals, request: CheckpointRequest): Promise<void> {
  const { id, name } = request;
  try {
    await saveFromOutside(runSession, {
      trigger: "manual",
      ...(name === null ? {} : { name }),
      prepare: ({ sequence }) => [{ kind: ANSWERED, body: { request: id, sequence } }],
    });
  } finally {
    await requests.finish(request);
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
  /** When aborted, the request is withdrawn. A request that was taken is answered all the same. */
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
  const { requests, store } = adapters;
  const id = `${adapters.random()}-${adapters.random()}`.toLowerCase();
  const journal = new Answers(adapters, run, id, (await store.getRun(run))?.entries ?? 0);
  for (;;) {
    const lease = await store.getLease(run);
    const alive = lease === undefined ? "dead" : adapters.liveness(lease.owner);
    if (lease === undefined || alive === "dead") return FREE;
    if (alive === "unknown") return { kind: "elsewhere", by: lease };
    const request = { id, run, epoch: lease.epoch, name };
    if (requests === null) {
      if (!(await leaves(params, lease))) return { kind: "silent", by: lease };
      continue;
    }
    await requests.ask(request);
    try {
      const asked = await waitFor({ ...params, requests, request, lease, journal });
      if (asked !== "left") return asked;
    } finally {
      await requests.withdraw(request);
    }
    signal.throwIfAborted();
  }
}

const FREE: CheckpointAnswer = { kind: "free" };

/** "left": this holder no longer has the lease, and the journal has no answer from it. */
async function waitFor(
  params: CheckpointRequestParams & {
    readonly requests: Signals;
    readonly request: CheckpointRequest;
    readonly lease: Lease;
    readonly journal: Answers;
  },
): Promise<CheckpointAnswer | "left"> {
  const { requests, request, lease, journal } = params;
  const began = performance.now();
  let told = false;
  for (;;) {
    params.signal.throwIfAborted();
    const state = await requests.stateOf(request);
    const held = await isHeld(params.adapters, lease);
    // Checked last, so that a commit from before the holder left is seen.
    const sequence = await journal.look();
    if (sequence !== null) return { kind: "saved", sequence, by: lease };
    if (!held) return "left";
    if (state === "gone") return { kind: "failed", by: lease };
    const waited = performance.now() - began;
    const patience = state === "taken" ? TAKEN_MS : params.patienceMs;
    if (waited > patience && (state === "taken" || (await requests.withdraw(request))))
      return { kind: "silent", by: lease };
    if (waited > NOTE_MS && !told) {
      told = true;
      params.onWaiting?.(lease);
    }
    await pause(params.signal);
  }
}

const NOTE_MS = 1000;
/** A snapshot of a very large worktree takes minutes. */
const TAKEN_MS = 600_000;
const POLL_MS = 50;

/** Used when there are no requests. A save takes milliseconds, so a short wait is better than a failure. */
async function leaves(params: CheckpointRequestParams, lease: Lease): Promise<boolean> {
  const began = performance.now();
  while (performance.now() - began < params.patienceMs) {
    if (!(await isHeld(params.adapters, lease))) return true;
    await pause(params.signal);
  }
  return false;
}

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

  async look(): Promise<number | null> {
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
  const look = (): void => {
    const unsaved = runSession.unsavedFor;
    if (saving !== undefined || unsaved === null || unsaved < checkpointEveryMs || !mayAsk(runSession)) return;
    saving = saveFromOutside(runSession, { trigger: "timer" })
      .catch((error: unknown) => runSession.tell({ kind: "note", text: `A checkpoint failed: ${reasonOf(error)}` }))
      .finally(() => {
        saving = undefined;
      });
  };
  // Polls more often than a save is due, because any other checkpoint restarts the period.
  const timer = setInterval(look, Math.max(1, Math.min(checkpointEveryMs / 4, TIMED_SAVE_POLL_MS, MAX_TIMER_MS)));
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
