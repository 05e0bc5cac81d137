// The status of a run: one discriminated union, computed from journal, lease and liveness. Also folds a journal into the state of its run.

import type { EntryKind, JournalEntry, RunEnded, RunPaused, RunReopened, RunWaiting } from "./journal.ts";
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
import { type PendingDecision, type RunState, type WaitingFor, isEnded } from "./run.ts";

/** The status of a run as the user sees it: computed from its journal, its lease and the liveness of the holder; never stored. */
export type RunStatus =
  /** A process with a recent heartbeat executes it. `ordered`: it received a signal and will stop at the next safe point. */
  | { readonly kind: "running"; readonly ordered: "pause" | "abort" | null }
  /** Running, in its last stage. */
  | { readonly kind: "completing" }
  /** Its process waits for a slot. */
  | { readonly kind: "queued" }
  /** Its process exists and has no recent heartbeat: it hangs or is suspended. No other process can acquire its lease. */
  | { readonly kind: "stale"; readonly since: string; readonly suspended: boolean }
  /** A process on another host holds it and had a recent heartbeat. */
  | { readonly kind: "elsewhere"; readonly host: string }
  /** Waits until its condition is met. `due`: the time has come. */
  | {
      readonly kind: "waiting";
      readonly on: Exclude<WaitingFor, "budget">;
      readonly until: string | null;
      readonly due: boolean;
    }
  | { readonly kind: "paused" }
  | { readonly kind: "budget_exhausted" }
  /** It ended at its own limits. */
  | { readonly kind: "limit_reached"; readonly reason: string }
  | { readonly kind: "completed"; readonly at: string }
  | { readonly kind: "failed"; readonly at: string; readonly reason: string }
  | { readonly kind: "aborted"; readonly reason: string }
  /**
   * Its process exited without releasing its lease. "presumed": it was on another host and has had no heartbeat for too long. `resume`
   * continues it.
   */
  | { readonly kind: "crashed"; readonly known: "certain" | "presumed" }
  /** Its process released the lease before the end. `resume` continues it. */
  | { readonly kind: "stopped" }
  /** Created, and no stage has begun. */
  | { readonly kind: "new" }
  /** Saved by hand: no workflow executes it. */
  | { readonly kind: "manual" };

export interface StatusFacts {
  readonly state: RunState;
  /** Whether the run is saved by hand, without a workflow. */
  readonly manual: boolean;
  /** Stage of its newest checkpoint; null: there is none. */
  readonly stage: string | null;
  /** Stages of its workflow in which the main work is already done; empty if unknown. */
  readonly completing: ReadonlySet<string>;
  readonly holder: {
    readonly lease: Lease;
    readonly liveness: OwnerLiveness;
    /** The operating system reports that the process is stopped. */
    readonly suspended: boolean;
  } | null;
  /** A signal that no process has handled yet. */
  readonly order: { readonly kind: "pause" | "abort"; readonly reason: string } | null;
  readonly now: number;
}

/** Computes the status. An end comes first, then a live holder, then signals, then the reason why no process executes it. */
export function statusOf(facts: StatusFacts): RunStatus {
  const { state } = facts;
  switch (state.kind) {
    case "done":
      return { kind: "completed", at: state.at };
    case "aborted":
      return { kind: "aborted", reason: state.reason };
    case "failed":
      return facts.stage === LIMIT
        ? { kind: "limit_reached", reason: state.reason }
        : { kind: "failed", at: state.at, reason: state.reason };
    case "active":
    case "waiting":
    case "paused":
      return held(facts) ?? unheld(facts, state);
  }
}

/** The end stage of a workflow that its own limits stopped. */
const LIMIT = "limit";

/** Null: no live process holds it. */
function held({ holder, order, completing, stage, manual, now }: StatusFacts): RunStatus | null {
  if (manual || holder === null || holder.liveness === "dead") return null;
  const { lease, suspended } = holder;
  // A heartbeat from the future was written under a wrong clock, and proves as little as an old one.
  const silence = Math.abs(now - Date.parse(lease.heartbeatAt));
  if (holder.liveness === "unknown")
    return silence <= DEFAULT_STALE_AFTER_MS ? { kind: "elsewhere", host: lease.owner.host } : null;
  if (suspended || !(silence <= SILENT_AFTER_MS)) return { kind: "stale", since: lease.heartbeatAt, suspended };
  if (lease.slot === "waiting") return { kind: "queued" };
  if (order !== null) return { kind: "running", ordered: order.kind };
  return stage !== null && completing.has(stage) ? { kind: "completing" } : { kind: "running", ordered: null };
}

function unheld(
  facts: StatusFacts,
  state: Extract<RunState, { readonly kind: "active" | "waiting" | "paused" }>,
): RunStatus {
  const { order, holder, stage, now } = facts;
  if (facts.manual) return { kind: "manual" };
  // The next process to acquire the run applies the signal first.
  if (order?.kind === "abort") return { kind: "aborted", reason: order.reason };
  if (order?.kind === "pause") return { kind: "paused" };
  if (state.kind === "paused") return { kind: "paused" };
  if (state.kind === "waiting") {
    const { for: on, until } = state;
    if (on === "budget") return { kind: "budget_exhausted" };
    return { kind: "waiting", on, until, due: until !== null && Date.parse(until) <= now };
  }
  if (stage === null) return { kind: "new" };
  if (holder === null) return { kind: "stopped" };
  return { kind: "crashed", known: holder.liveness === "dead" ? "certain" : "presumed" };
}

/** Whether `resume` would continue it now, as it is. */
export function isResumable(standing: RunStatus): boolean {
  switch (standing.kind) {
    case "paused":
    case "crashed":
    case "stopped":
      return true;
    case "waiting":
      if (standing.on === "provider") return true;
      return standing.on !== "you" && (standing.until === null || standing.due);
    default:
      return false;
  }
}

/** Whether a process may hold it, working or not. */
export function isHeld({ kind }: RunStatus): boolean {
  return HELD.has(kind);
}

const HELD: ReadonlySet<RunStatus["kind"]> = new Set(["running", "completing", "queued", "stale", "elsewhere"]);

/** Whether a process executes it and may spend budget. */
export function isRunning(standing: RunStatus): boolean {
  return standing.kind === "running" || standing.kind === "completing" || standing.kind === "stale";
}

/** The part of a run's journal that concerns the run as a whole. */
export interface RunFold {
  readonly state: RunState;
  /** A restore that began and did not finish: the files may be a mixture of two checkpoints. */
  readonly unfinishedRestore: { readonly entry: number; readonly body: JsonObject } | null;
}

export const NEW_RUN: RunFold = { state: { kind: "active" }, unfinishedRestore: null };

type FoldedEntry = Pick<JournalEntry, "run" | "entry" | "kind" | "at" | "body">;

export function foldRun(entries: Iterable<FoldedEntry>): RunFold {
  let fold = NEW_RUN;
  for (const entry of entries) fold = stepRun(fold, entry);
  return fold;
}

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
      return ended ? fold : { ...fold, state: { kind: "paused", ...pausedBody(entry) } };
    case "run.continued":
      return ended ? fold : { ...fold, state: { kind: "active" } };
    case "run.ended":
      return ended ? fold : { ...fold, state: endState(entry) };
    case "run.reopened":
      parseShape({ shape: reopenedShape, value: entry.body, what: nameOf(entry) });
      return { ...fold, state: { kind: "active" } };
    case "restore.started":
      return { ...fold, unfinishedRestore: { entry: entry.entry, body: entry.body } };
    case "restore.finished":
      return { ...fold, unfinishedRestore: null };
    default:
      return fold;
  }
}

/** Whether stepRun handles this kind; any other kind leaves the fold unchanged. */
export function concernsRun(kind: EntryKind): boolean {
  return RUN_KINDS.has(kind);
}

const RUN_KINDS: ReadonlySet<EntryKind> = new Set<EntryKind>([
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

const endedShape: Shape<RunEnded> = tagged<RunEnded, "outcome">("outcome", {
  done: object({ outcome: oneOf({ done: true }) }),
  failed: object({ outcome: oneOf({ failed: true }), reason: text }),
  aborted: object({ outcome: oneOf({ aborted: true }), reason: text }),
});
const pausedShape: Shape<RunPaused> = object<RunPaused>({ reason: text });
const reopenedShape: Shape<RunReopened> = object<RunReopened>({ reason: text });
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
  active: object({ kind: oneOf({ active: true }) }),
  waiting: object({
    kind: oneOf({ waiting: true }),
    for: waitingFor,
    reason: text,
    until: nullable(text),
    decision: optional(decision),
  }),
  done: object({ kind: oneOf({ done: true }), at: text }),
  paused: object({ kind: oneOf({ paused: true }), reason: text }),
  failed: object({ kind: oneOf({ failed: true }), at: text, reason: text }),
  aborted: object({ kind: oneOf({ aborted: true }), at: text, reason: text }),
});
const foldShape: Shape<RunFold> = object<RunFold>({
  state: stateShape,
  unfinishedRestore: nullable(object({ entry: count, body: jsonObject })),
});

function endState(entry: FoldedEntry): RunState {
  const body = parseShape({ shape: endedShape, value: entry.body, what: nameOf(entry) });
  return body.outcome === "done"
    ? { kind: "done", at: entry.at }
    : { kind: body.outcome, at: entry.at, reason: body.reason };
}

function pausedBody(entry: FoldedEntry): RunPaused {
  return parseShape({ shape: pausedShape, value: entry.body, what: nameOf(entry) });
}

function waitingBody(entry: FoldedEntry): RunWaiting {
  const body = parseShape({ shape: waitingShape, value: entry.body, what: nameOf(entry) });
  const { for: what, reason, until } = body;
  const waiting = { for: what, reason, until };
  return body.decision === undefined ? waiting : { ...waiting, decision: body.decision };
}

function nameOf(entry: FoldedEntry): string {
  return `Journal entry ${entry.entry} of run ${entry.run} (${entry.kind})`;
}
