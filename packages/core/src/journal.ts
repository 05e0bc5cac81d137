import type { CheckpointParent, Trigger } from "./checkpoint.ts";
import type { GraphEvent } from "./graph-state.ts";
import type { Graph } from "./graph.ts";
import { type Digest, type Hasher, type Json, type JsonObject, isJsonArray, isJsonObject } from "./json.ts";
import type { Amounts, CallErrors, ErrorVerdict, RecordTokens, StageAttempt } from "./position.ts";
import type { PendingDecision, Run, WaitingFor } from "./run.ts";
import { canonicalJson } from "./values/canonical-json.ts";

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
export type RunWaiting = {
  readonly on: WaitingFor;
  readonly reason: string;
  readonly until: string | null;
  /** The question that a person must answer; absent when there is none. */
  readonly decision?: PendingDecision;
};
/** `by`: who gave the answer. */
export type RunContinued = { readonly decision?: string; readonly answer?: string; readonly by?: string };

/** Bodies of what a stage does; state.ts says what they add up to. */
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

/** What an entry's hash covers, besides the hash before it. */
interface Link {
  readonly run: string;
  readonly entry: number;
  readonly kind: EntryKind;
  readonly at: string;
  readonly epoch: number;
  /** Canonical JSON of the entry's body. */
  readonly body: string;
}

/** The keys are written in canonical order by hand: this runs for every entry. */
export function entryHash(previous: Digest, link: Link, hasher: Hasher): Digest {
  return hasher(
    `holdfast-entry-1\n${previous}\n{"at":"${link.at}","body":${link.body},"entry":${link.entry},"epoch":${link.epoch},"kind":${kindText(link.kind)},"run":"${link.run}"}`,
  );
}

function kindText(kind: EntryKind): string {
  return kind === "checkpoint" ? '"checkpoint"' : JSON.stringify(kind);
}

/** What the first entry is chained to: the run's birth record. */
export function birthDigest(run: Run, hasher: Hasher): Digest {
  return hasher(canonicalJson(birthRecord(run)));
}

export function birthRecord(run: Run): JsonObject {
  return {
    id: run.id,
    createdAt: run.createdAt,
    workflow: run.workflow,
    work: run.work,
    forkedFrom: parentRecord(run.forkedFrom),
    labels: run.labels,
  };
}

/** The body of a checkpoint's entry, besides its parent: all of it but the planes, for which `root` stands. */
export interface CheckpointHead {
  readonly sequence: number;
  readonly trigger: Trigger;
  readonly name: string | null;
  readonly stage: string;
  readonly iteration: number;
  readonly score: number | null;
  readonly tree: string | null;
  /** Bytes of the planes as canonical JSON, and what this checkpoint added on disk when it was made. */
  readonly logical: number;
  readonly added: number;
  /** Digest of the planes as one value. */
  readonly root: Digest;
}

export function checkpointBody(head: CheckpointHead, parent: CheckpointParent | null): JsonObject {
  return {
    added: head.added,
    iteration: head.iteration,
    logical: head.logical,
    name: head.name,
    parent: parentRecord(parent),
    root: head.root,
    score: head.score,
    sequence: head.sequence,
    stage: head.stage,
    tree: head.tree,
    trigger: head.trigger,
  };
}

/** Canonical JSON of checkpointBody, written out by hand for the same reason as above. */
export function checkpointBodyText(head: CheckpointHead, parent: CheckpointParent | null): string {
  const parentText = parent === null ? "null" : `{"digest":"${parent.digest}","id":"${parent.id}"}`;
  return `{"added":${head.added},"iteration":${head.iteration},"logical":${head.logical},"name":${text(head.name)},"parent":${parentText},"root":"${head.root}","score":${head.score},"sequence":${head.sequence},"stage":${text(head.stage)},"tree":${text(head.tree)},"trigger":"${head.trigger}"}`;
}

/** Equal to canonical JSON for strings without lone surrogates, which capture refuses. */
function text(value: string | null): string {
  return value === null ? "null" : JSON.stringify(value);
}

function parentRecord(parent: CheckpointParent | null): JsonObject | null {
  return parent === null ? null : { id: parent.id, digest: parent.digest };
}

/** Of an entry's body, for those who read a journal leniently: what is not there, or is something else, is empty. */
export function textOf(body: JsonObject, key: string): string {
  const value = body[key];
  return typeof value === "string" ? value : "";
}

export function numberOf(body: JsonObject, key: string): number {
  const value = body[key];
  return typeof value === "number" ? value : 0;
}

/**
 * Does this entry say that something came about which only a checkpoint could bring back: values, what an agent said, the graph? Finished plain steps are found
 * in the journal.
 */
export function isUnsavedChange({ kind, body }: Pick<JournalEntry, "kind" | "body">): boolean {
  if (kind === "graph.set" || kind === "graph.moved") return true;
  return kind === "step.finished" && (body["recorded"] === true || body["spent"] !== null);
}

type TimedEntry = Pick<JournalEntry, "kind" | "at" | "epoch" | "body">;

/**
 * Milliseconds that runs were worked on, as the journal tells: from entry to entry under one lease, and up to the last sign of life of a holder
 * that died. Nobody's time (parked, stopped) is not counted. A clock that was set back counts as nothing, never as less.
 */
export function workingTime(entries: readonly TimedEntry[]): number {
  let total = 0;
  let last: { readonly epoch: number; readonly at: number } | null = null;
  for (const entry of entries) {
    // Tags and drops need no lease and are nobody's work.
    if (entry.epoch === 0) continue;
    const at = Date.parse(entry.at);
    const seen: number | null = entry.kind === "lease.taken" ? lastSeen(entry, last?.epoch) : at;
    const goesOn = last !== null && (entry.kind === "lease.taken" || entry.epoch === last.epoch);
    if (goesOn && last !== null && seen !== null) total += Math.max(0, seen - last.at);
    last = { epoch: entry.epoch, at };
  }
  return total;
}

/** When the holder before was last heard of; null: it let go by itself, or it is not the one whose entries came before. */
function lastSeen({ body }: TimedEntry, epoch: number | undefined): number | null {
  const { from } = body;
  if (!isJsonObject(from) || from["epoch"] !== epoch) return null;
  const seen = Date.parse(String(from["heartbeatAt"]));
  return Number.isFinite(seen) ? seen : null;
}

/** What the run itself did after its newest checkpoint: differences that stem from it are nobody else's. */
export interface SinceCheckpoint {
  /** A step that changes files was begun: what the files and the branch are like now is its half work. */
  readonly changesFiles: boolean;
  /** Commits that finished steps and settled effects tell of. */
  readonly commits: ReadonlySet<string>;
  /** Those, and the ones that steps of the same visit had told of before: the stage knows them and deals with them itself. */
  readonly seen: ReadonlySet<string>;
}

export function foldSince(params: {
  /** Of the checkpoint. */
  readonly visit: StageAttempt;
  readonly entries: Iterable<Pick<JournalEntry, "kind" | "body">>;
}): SinceCheckpoint {
  // One that a checkpoint names as running was in its middle then; one that failed since may have left files behind.
  let changesFiles = Object.values(params.visit.running ?? {}).some((step) => step.files);
  const commits = new Set<string>();
  for (const { kind, body } of params.entries) {
    if (kind === "step.started" && body["files"] === true) changesFiles = true;
    const told = kind === "step.finished" ? body["result"] : kind === "effect.settled" ? body["receipt"] : null;
    for (const commit of commitsIn(told)) commits.add(commit);
  }
  const seen = new Set([...commits, ...commitsIn(params.visit.steps)]);
  return { changesFiles, commits, seen };
}

/** Every text in the value that has the form of a git object id. */
export function commitsIn(value: Json | undefined): ReadonlySet<string> {
  const found = new Set<string>();
  collect(value, found);
  return found;
}

function collect(value: Json | undefined, into: Set<string>): void {
  if (typeof value === "string") {
    if (OBJECT_ID.test(value)) into.add(value);
  } else if (isJsonArray(value)) {
    for (const one of value) collect(one, into);
  } else if (isJsonObject(value)) {
    for (const one of Object.values(value)) collect(one, into);
  }
}

const OBJECT_ID = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;
