// Signals: messages from other processes to the process that executes a run. The store holds each until it is handled or withdrawn.

import {
  type Shape,
  type TypeOf,
  anyOf,
  asRecord,
  count,
  deepFreeze,
  flag,
  nullable,
  object,
  parseShape,
  text,
} from "./json.ts";

export type Signal = StopSignal | CheckpointRequest;

/** Pause or abort. It is for the process that executes the run, now or next. */
const STOP = object({
  /** Random; distinguishes it from the next signal of its kind. */
  id: text,
  run: text,
  /** "pause": stop until the user resumes the run. "abort": end it for good. */
  kind: anyOf(["pause", "abort"]),
  /** The sender, for the journal. */
  by: text,
  at: text,
  reason: text,
  /** Do not wait for the next safe point. */
  now: flag,
});
export type StopSignal = TypeOf<typeof STOP>;

/** A request for a checkpoint, from a process that does not hold the run's lease. */
const REQUEST = object({
  id: text,
  run: text,
  kind: anyOf(["checkpoint"]),
  /** Epoch of the lease whose holder is asked. Only that holder answers: a request that outlives the lease is stale. */
  epoch: count,
  name: nullable(text),
});
export type CheckpointRequest = TypeOf<typeof REQUEST>;

/** "taken": the lease holder has begun to handle it, so it cannot be withdrawn. */
export type SignalState = "pending" | "taken";
export type StoredSignal = Signal & { readonly state: SignalState };

function shapeOf(kind: unknown): Shape<Signal> {
  return kind === "checkpoint" ? REQUEST : STOP;
}

/** Copies what a caller sends; USAGE for a signal that no holder could read. */
export function captureSignal(signal: Signal): Signal {
  return deepFreeze({
    ...parseShape({ shape: shapeOf(signal.kind), value: signal, what: "The signal", code: "USAGE" }),
  });
}

/** A signal as a store holds it: what identifies it, and the rest as JSON. */
export interface SignalRecord {
  readonly run: string;
  readonly id: string;
  readonly kind: string;
  readonly body: string;
}

/** Null: damaged, or of a kind that this version does not know. */
export function parseSignal({ run, id, kind, body }: SignalRecord): Signal | null {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return null;
  }
  const shape = shapeOf(kind);
  const signal = { ...asRecord(value), run, id, kind };
  return shape(signal) === null ? parseShape({ shape, value: signal, what: "The signal" }) : null;
}

/**
 * What a holder does about a damaged record. Its kind is known, and stopping is the safe interpretation. A request without an epoch is for
 * no holder, so it is removed as stale. An unknown kind is ignored.
 */
export function salvageSignal({ run, id, kind }: SignalRecord): Signal | null {
  if (kind === "checkpoint") return { run, id, kind, epoch: NO_EPOCH, name: null };
  if (kind !== "pause" && kind !== "abort") return null;
  return { run, id, kind, by: "an unknown sender", at: UNKNOWN_TIME, reason: "the signal is damaged", now: false };
}

/** Below every epoch of a lease. */
const NO_EPOCH = 0;
const UNKNOWN_TIME = new Date(0).toISOString();

/** The signal that decides what the run does: abort comes before pause. */
export function stopSignalIn(signals: readonly Signal[]): StopSignal | null {
  const stops = signals.filter((signal) => signal.kind !== "checkpoint");
  return stops.find(({ kind }) => kind === "abort") ?? stops[0] ?? null;
}
