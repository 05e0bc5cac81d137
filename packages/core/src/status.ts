// The status of a run: one discriminated union, computed from journal, lease and liveness. Also folds a journal into the state of its run.

import {
  type EntryKind,
  type JournalEntry,
  type RunWaiting,
  readBody,
  runEnded,
  runPaused,
  runReopened,
} from "./journal.ts";
import {
  type JsonObject,
  type Shape,
  count,
  flag,
  jsonObject,
  list,
  nullable,
  object,
  oneOf,
  optional,
  parseShape,
  tagged,
  text,
} from "./json.ts";
import { DEFAULT_STALE_AFTER_MS, type Lease, type OwnerLiveness, SILENT_AFTER_MS } from "./lease.ts";
import { checkArgument } from "./options.ts";
import { type PendingDecision, type RunState, type WaitingFor, isEnded } from "./run.ts";

/** The process that holds a run. */
export type Holder = Pick<Lease["owner"], "label" | "pid" | "host"> & Pick<Lease, "epoch" | "takenAt" | "heartbeatAt">;

/**
 * The status of a run as every command, `--json` and the library show it: computed from its journal, its lease and the liveness of the
 * holder; never stored.
 */
export type RunStatus =
  | {
      readonly kind: "running";
      readonly holder: Holder;
      /** The process prepares the run and does not hold its lease yet. */
      readonly starting: boolean;
      /** The work is done; the run is in one of its last stages. */
      readonly finishing: boolean;
      /** A signal that the process has not handled yet. */
      readonly stopping: "pause" | "abort" | null;
      /** The last heartbeat, if it is overdue: the process hangs. No other process can acquire its lease. */
      readonly silentSince: string | null;
      /** The operating system has stopped the process. */
      readonly suspended: boolean;
      /** False: the process is on another host, so this host cannot check whether it is alive. */
      readonly hostKnown: boolean;
    }
  /** Its process waits for a slot. `position` in the queue, from 1; null: unknown. */
  | { readonly kind: "queued"; readonly holder: Holder; readonly position: number | null }
  /** It was submitted, and no worker executes it yet. `holdfast queue` shows its place. */
  | { readonly kind: "queued"; readonly holder: null; readonly position: null }
  /** `due`: the time has come. */
  | {
      readonly kind: "waiting";
      readonly for: WaitingFor;
      readonly reason: string;
      readonly until: string | null;
      readonly due: boolean;
      readonly question: PendingDecision | null;
    }
  /** No process executes it, and `resume` continues it. `reason`: why the user paused it; null: its process stopped before the end. */
  | { readonly kind: "paused"; readonly reason: string | null; readonly started: boolean }
  /** Its process exited without releasing its lease. Not certain: it was on another host, and its heartbeat is long overdue. */
  | { readonly kind: "crashed"; readonly certain: boolean; readonly holder: Holder }
  /** Checkpoints that a user or a program saved: no workflow executes it. `holder`: the live process that saves now. */
  | { readonly kind: "saved"; readonly holder: Holder | null }
  | { readonly kind: "done"; readonly at: string }
  /** `limit`: it reached its own limit, which `resume` can raise. */
  | { readonly kind: "failed"; readonly at: string; readonly reason: string; readonly limit: boolean }
  /** `at`: null while only the signal exists; the next process to acquire the run applies it. */
  | { readonly kind: "aborted"; readonly at: string | null; readonly reason: string };

export const STATUS_KINDS = [
  "running",
  "queued",
  "waiting",
  "paused",
  "crashed",
  "saved",
  "done",
  "failed",
  "aborted",
] as const satisfies readonly RunStatus["kind"][];

/** What a status is computed from. */
export interface StatusFacts {
  readonly state: RunState;
  /** Whether the run is saved by hand, without a workflow. */
  readonly manual: boolean;
  /** Stage of its newest checkpoint; null: there is none. */
  readonly stage: string | null;
  /** Whether this stage comes after the workflow's main work. */
  readonly finishing: boolean;
  readonly holder: {
    readonly lease: Lease;
    readonly liveness: OwnerLiveness;
    /** The operating system reports that the process is stopped. */
    readonly suspended: boolean;
  } | null;
  /** A signal that no process has handled yet. */
  readonly signal: { readonly kind: "pause" | "abort"; readonly reason: string } | null;
  /** Whether it was submitted to workers. */
  readonly submitted: boolean;
  readonly now: number;
  /** The same moment by the clock that heartbeats are written with. It differs from `now` if a machine's clock is wrong. */
  readonly leaseNow: number;
}

/** Computes the status. An end comes first, then a live holder, then signals, then the reason why no process executes it. */
export function statusOf(facts: StatusFacts): RunStatus {
  const { state } = facts;
  switch (state.kind) {
    case "done":
      return { kind: "done", at: state.at };
    case "aborted":
      return { kind: "aborted", at: state.at, reason: state.reason };
    case "failed":
      return { kind: "failed", at: state.at, reason: state.reason, limit: facts.stage === LIMIT };
    case "active":
    case "waiting":
    case "paused":
      return held(facts) ?? unheld(facts, state);
  }
}

/** The end stage of a workflow that its own limits stopped. */
const LIMIT = "limit";

/** Null: no live process holds it. */
function held({ holder, signal, finishing, manual, leaseNow }: StatusFacts): RunStatus | null {
  if (manual || holder === null || holder.liveness === "dead") return null;
  const { lease, suspended } = holder;
  // A heartbeat from the future was written under a wrong clock, and proves as little as an old one.
  const silence = Math.abs(leaseNow - Date.parse(lease.heartbeatAt));
  const hostKnown = holder.liveness === "alive";
  if (!hostKnown && !(silence <= DEFAULT_STALE_AFTER_MS)) return null;
  const silent = hostKnown && !(silence <= SILENT_AFTER_MS);
  if (lease.slot === "waiting" && hostKnown && !silent && !suspended)
    return { kind: "queued", holder: holderOf(lease), position: null };
  return {
    kind: "running",
    holder: holderOf(lease),
    starting: false,
    finishing,
    stopping: signal?.kind ?? null,
    silentSince: silent ? lease.heartbeatAt : null,
    suspended,
    hostKnown,
  };
}

function holderOf({ owner, epoch, takenAt, heartbeatAt }: Lease): Holder {
  const { label, pid, host } = owner;
  return { label, pid, host, epoch, takenAt, heartbeatAt };
}

function unheld(
  facts: StatusFacts,
  state: Extract<RunState, { readonly kind: "active" | "waiting" | "paused" }>,
): RunStatus {
  const { signal, holder, now } = facts;
  const started = facts.stage !== null;
  if (facts.manual)
    return { kind: "saved", holder: holder === null || holder.liveness === "dead" ? null : holderOf(holder.lease) };
  // The next process to acquire the run applies the signal first.
  if (signal?.kind === "abort") return { kind: "aborted", at: null, reason: signal.reason };
  if (signal?.kind === "pause") return { kind: "paused", reason: signal.reason, started };
  if (state.kind === "paused") return { kind: "paused", reason: state.reason, started };
  if (state.kind === "waiting") {
    const { for: what, reason, until, decision } = state;
    const due = until !== null && Date.parse(until) <= now;
    return { kind: "waiting", for: what, reason, until, due, question: decision ?? null };
  }
  if (holder === null && started && facts.submitted) return { kind: "queued", holder: null, position: null };
  if (holder === null || !started) return { kind: "paused", reason: null, started };
  return { kind: "crashed", certain: holder.liveness === "dead", holder: holderOf(holder.lease) };
}

/** Whether `resume` would continue it now, as it is. */
export function isResumable(status: RunStatus): boolean {
  switch (status.kind) {
    case "paused":
      return status.started;
    case "crashed":
      return true;
    case "waiting":
      if (status.for === "provider") return true;
      return status.for !== "you" && status.for !== "budget" && (status.until === null || status.due);
    default:
      return false;
  }
}

/** Whether a process may hold it, working or not. */
export function isHeld(
  status: RunStatus,
): status is Extract<RunStatus, { readonly kind: "running" | "queued"; readonly holder: Holder }> {
  checkArgument("isHeld()", "the status", status, "object");
  return status.kind === "running" || (status.kind === "queued" && status.holder !== null);
}

/** Whether its files may be a mixture: a restore began and did not finish. While a live process holds the run, it may still finish. */
export function isHalfRestored(run: {
  readonly unfinishedRestore: string | null;
  readonly status: RunStatus;
}): boolean {
  const { unfinishedRestore, status } = run;
  const isSaving = status.kind === "saved" && status.holder !== null;
  return unfinishedRestore !== null && !isHeld(status) && !isSaving;
}

export function waitsForYou(
  status: RunStatus,
): status is Extract<RunStatus, { readonly kind: "waiting" }> & { readonly for: "you" } {
  checkArgument("waitsForYou()", "the status", status, "object");
  return status.kind === "waiting" && status.for === "you";
}

/** The words for a status: its kind, and the detail that changes what the user does next. */
export function statusWord(status: RunStatus): string {
  checkArgument("statusWord()", "the status", status, "object");
  switch (status.kind) {
    case "running":
      return runningWord(status);
    case "queued":
      return status.position === null ? "queued" : `queued: ${status.position}`;
    case "waiting":
      return `waiting for ${status.for === "ci" ? "CI" : status.for}${status.due ? ", due" : ""}`;
    case "paused":
      return status.started ? "paused" : "paused: not started";
    case "crashed":
      return status.certain ? "crashed" : "crashed: presumed";
    case "failed":
      return status.limit ? "failed: limit reached" : "failed";
    case "saved":
    case "done":
    case "aborted":
      return status.kind;
  }
}

function runningWord(status: Extract<RunStatus, { readonly kind: "running" }>): string {
  if (status.starting) return "running: starting";
  if (!status.hostKnown) return "running: other host";
  if (status.suspended) return "running: suspended";
  if (status.silentSince !== null) return "running: no heartbeat";
  if (status.stopping !== null) return status.stopping === "pause" ? "running: pausing" : "running: aborting";
  return status.finishing ? "running: finishing" : "running";
}

/** The part of a run's journal that concerns the run as a whole. */
export interface RunFold {
  readonly state: RunState;
  /** A restore that began and did not finish: the files may be a mixture of two checkpoints. */
  readonly unfinishedRestore: { readonly entry: number; readonly body: JsonObject } | null;
}

export const NEW_RUN: RunFold = { state: { kind: "active" }, unfinishedRestore: null };

type FoldedEntry = Pick<JournalEntry, "run" | "entry" | "kind" | "at" | "body">;

/**
 * Applies one entry, for stores that keep the fold next to the journal. An end remains until the run is reopened: a later end or wait
 * changes nothing, so the first reason is never lost.
 */
export function stepRun(fold: RunFold, entry: FoldedEntry): RunFold {
  const ended = isEnded(fold.state);
  switch (entry.kind) {
    case "run.waiting":
      return ended ? fold : { ...fold, state: { kind: "waiting", ...waitingBody(entry) } };
    case "run.paused":
      return ended ? fold : { ...fold, state: { kind: "paused", ...readBody(runPaused, entry) } };
    case "run.continued":
      return ended ? fold : { ...fold, state: { kind: "active" } };
    case "run.ended":
      return ended ? fold : { ...fold, state: endState(entry) };
    case "run.reopened":
      readBody(runReopened, entry);
      return { ...fold, state: { kind: "active" } };
    case "restore.started":
      return { ...fold, unfinishedRestore: { entry: entry.entry, body: entry.body } };
    case "restore.finished":
      return { ...fold, unfinishedRestore: null };
    default:
      return fold;
  }
}

/** The kinds that stepRun handles. Any other kind leaves the fold unchanged. */
export const RUN_KINDS: ReadonlySet<EntryKind> = new Set<EntryKind>([
  "run.waiting",
  "run.paused",
  "run.continued",
  "run.ended",
  "run.reopened",
  "restore.started",
  "restore.finished",
]);

/** Id of the checkpoint whose restore did not finish. */
export function unfinishedTarget(fold: RunFold): string | null {
  const target = fold.unfinishedRestore?.body["target"];
  return typeof target === "string" ? target : null;
}

/** Parses a fold that was stored next to the journal. */
export function parseRunFold(value: unknown, what: string): RunFold {
  return parseShape({ shape: foldShape, value, what });
}

const waitingFor: Shape<WaitingFor> = oneOf({
  you: true,
  quota: true,
  provider: true,
  forge: true,
  budget: true,
  ci: true,
  disk: true,
  session: true,
});
const decision: Shape<PendingDecision> = object<PendingDecision>({
  name: text,
  question: text,
  options: list(text),
  recheck: optional(flag),
});
const waitingShape: Shape<RunWaiting> = object<RunWaiting>({
  for: waitingFor,
  reason: text,
  until: nullable(text),
  decision: optional(decision),
});

const stateShape: Shape<RunState> = tagged<RunState, "kind">("kind", {
  active: object({}),
  waiting: waitingShape,
  done: object({ at: text }),
  paused: object({ reason: text }),
  failed: object({ at: text, reason: text }),
  aborted: object({ at: text, reason: text }),
});
const foldShape: Shape<RunFold> = object<RunFold>({
  state: stateShape,
  unfinishedRestore: nullable(object({ entry: count, body: jsonObject })),
});

function endState(entry: FoldedEntry): RunState {
  const body = readBody(runEnded, entry);
  return body.outcome === "done"
    ? { kind: "done", at: entry.at }
    : { kind: body.outcome, at: entry.at, reason: body.reason };
}

function waitingBody(entry: FoldedEntry): RunWaiting {
  const { for: what, reason, until, decision: asked } = readBody(waitingShape, entry);
  const waiting = { for: what, reason, until };
  return asked === undefined ? waiting : { ...waiting, decision: asked };
}
