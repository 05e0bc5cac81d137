// Signals: messages from other processes to the process that executes a run. The store holds each until it is handled or withdrawn.

import { type Shape, asRecord, count, deepFreeze, flag, nullable, object, oneOf, parseShape, text } from "./json.ts";

export type Signal = StopSignal | CheckpointRequest;

/** Pause or abort. It is for the process that executes the run, now or next. */
export interface StopSignal {
  /** Random; distinguishes it from the next signal of its kind. */
  readonly id: string;
  readonly run: string;
  /** "pause": stop until the user resumes the run. "abort": end it for good. */
  readonly kind: "pause" | "abort";
  /** The sender, for the journal. */
  readonly by: string;
  readonly at: string;
  readonly reason: string;
  /** Do not wait for the next safe point. */
  readonly now: boolean;
}

/** A request for a checkpoint, from a process that does not hold the run's lease. */
export interface CheckpointRequest {
  readonly id: string;
  readonly run: string;
  readonly kind: "checkpoint";
  /** Epoch of the lease whose holder is asked. Only that holder answers: a request that outlives the lease is stale. */
  readonly epoch: number;
  readonly name: string | null;
}

/** "taken": the lease holder has begun to handle it, so it cannot be withdrawn. */
export type SignalState = "pending" | "taken";
export type StoredSignal = Signal & { readonly state: SignalState };

const STOP: Shape<StopSignal> = object<StopSignal>({
  id: text,
  run: text,
  kind: oneOf({ pause: true, abort: true }),
  by: text,
  at: text,
  reason: text,
  now: flag,
});
const REQUEST: Shape<CheckpointRequest> = object<CheckpointRequest>({
  id: text,
  run: text,
  kind: oneOf({ checkpoint: true }),
  epoch: count,
  name: nullable(text),
});

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
