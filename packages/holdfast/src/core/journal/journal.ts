import type { CallErrors, ErrorVerdict } from "../error-policy/call-errors.ts";
import type { Graph } from "../graph/graph.ts";
import type { GraphEvent } from "../graph/graph-state.ts";
import type { Digest, Json, JsonObject } from "../json.ts";
import type { Amounts } from "../position/position.ts";
import type { RecordTokens } from "../position/visit.ts";
import type { ParkedOn, PendingDecision } from "../run/run.ts";

/**
 * One line of a run's history. Entries are numbered 1, 2, 3 … without gaps, and each hash covers the one before it:
 * hash = H("holdfast-entry-1\n" + previous + "\n" + canonical JSON of {run, entry, kind, at, epoch, body}).
 * The body of a checkpoint's entry holds the digest of its planes, not the planes, so that dropping the checkpoint
 * later leaves a chain that can still be re-computed.
 * `previous` of the first entry is H(canonical JSON of the run's birth record).
 */
export interface JournalEntry {
  readonly run: string;
  readonly entry: number;
  readonly kind: EntryKind;
  readonly at: string;
  /** Lease epoch under which it was written; 0 for entries that need no lease (tags, drops, run creation). */
  readonly epoch: number;
  readonly body: JsonObject;
  /** H(canonical JSON of body); of a checkpoint its own digest, which is the entry's hash. */
  readonly digest: Digest;
  readonly hash: Digest;
}

/** Kinds that Holdfast itself folds. Other kinds (a workflow's own) are `x.` prefixed and kept as they are. */
export const ENTRY_KINDS = [
  "run.created",
  "run.parked",
  "run.unparked",
  "run.ended",
  "run.resumed", // a process continues a run whose last process died: calls under way are lost
  "run.reopened", // a finished or fatal run taken up again, by force, from a chosen checkpoint
  "lease.taken",
  "lease.released",
  "checkpoint",
  "checkpoint.dropped",
  "checkpoint.quarantined",
  "tag.added",
  "tag.removed",
  "restore.started",
  "restore.finished",
  "stage.entered",
  "stage.ended",
  "step.started",
  "step.finished",
  "step.failed",
  "step.session", // an agent that can resume told its session, so that a crash need not lose the conversation; null: it is given up
  "call.recorded", // what an agent, a command or the forge was asked and said, of runs that are recorded
  "step.interrupted", // an agent call that was stopped and reported what it took
  "step.adopted", // a call that died with its process had finished: its result is used
  "step.lost", // a call that died with its process: what it took, as the agent's own record tells
  "effect.intended",
  "effect.settled",
  "effect.unknown",
  "graph.set", // this visit's graph, as it begins
  "graph.moved", // what happened to its nodes
  "files.settled", // the newest checkpoint's files are what the steps that may change files left
  "yolo.allowed", // the user lets agents act without asking from now on
  "note",
] as const;

export type EntryKind = (typeof ENTRY_KINDS)[number] | `x.${string}`;

export interface NewEntry {
  readonly kind: Exclude<EntryKind, "checkpoint">;
  readonly body: JsonObject;
}

export type RunEnded =
  | { readonly outcome: "done" }
  | { readonly outcome: "fatal"; readonly reason: string; readonly cause?: "aborted" };
/** `counts`: what the lost calls took is still to be found out. */
export type RunResumed = { readonly counts: boolean };
export type FilesSettled = { readonly sequence: number };
export type RunReopened = { readonly reason: string };
export type RunParked = {
  readonly on: ParkedOn;
  readonly reason: string;
  readonly until: string | null;
  /** The question that a person must answer; absent when there is none. */
  readonly decision?: PendingDecision;
};
/** `by`: who gave the answer. */
export type RunUnparked = { readonly decision?: string; readonly answer?: string; readonly by?: string };

/** Bodies of what a stage does; core/state.ts says what they add up to. */
export type StageEntered = { readonly visit: number; readonly stage: string; readonly iteration: number };
export type StageEnded = {
  readonly visit: number;
  readonly stage: string;
  readonly event: string;
  readonly reason: string;
  /** null: the stage was an end. */
  readonly next: string | null;
  readonly score: number | null;
};
/** Only of steps that change files, and of agent calls (`estimate` is not null): a plain step is one entry. */
export type StepStarted = {
  readonly visit: number;
  readonly step: string;
  readonly files: boolean;
  readonly estimate: Amounts | null;
  readonly counted?: RecordTokens;
  /** Name of the aside that an agent call works in. */
  readonly aside?: string;
};
export type StepInterrupted = { readonly visit: number; readonly step: string; readonly spent: Amounts };
export type StepAdopted = { readonly visit: number; readonly step: string };
/** A call whose end nobody saw, counted from the agent's own record of the session. */
export type StepLost = {
  readonly visit: number;
  readonly step: string;
  readonly spent: Amounts;
  /** Assumed for the limits, where its usage is unknown. */
  readonly held?: Amounts;
};
export type StepFinished = {
  readonly visit: number;
  readonly step: string;
  readonly result: Json;
  readonly spent: Amounts | null;
  /** `result` is an event that the workflow's own `reduce` has taken into its values. */
  readonly recorded?: boolean;
};
export type StepFailed = {
  readonly visit: number;
  readonly step: string;
  readonly reason: string;
  readonly spent: Amounts | null;
  /** Of an agent call: which rule decided what is done about it, and what its failures come to from now on. */
  readonly verdict?: ErrorVerdict;
  readonly errors?: CallErrors;
  /** Of the error, where it had one. */
  readonly code?: string;
};
export type StepSession = { readonly visit: number; readonly step: string; readonly session: string | null };
export type GraphSet = { readonly visit: number; readonly graph: Graph };
export type GraphMoved = { readonly visit: number; readonly events: readonly GraphEvent[] };
