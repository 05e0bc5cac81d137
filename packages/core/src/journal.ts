// The journal: entry kinds and bodies, the hash chain, and facts that are derived from entries (working time, commits).
import type { CheckpointParent, Trigger } from "./checkpoint.ts";
import type { GraphEvent } from "./graph-state.ts";
import type { Graph } from "./graph.ts";
import { type Digest, type Json, type JsonObject, isJsonArray, isJsonObject, sha256 } from "./json.ts";
import type { Amounts, CallErrors, ErrorVerdict, RecordTokens, StageAttempt } from "./position.ts";
import type { PendingDecision, Run, WaitingFor } from "./run.ts";
import { canonicalJson } from "./values.ts";

/**
 * One entry of a run's history. Entries are numbered 1, 2, 3 … without gaps, and each hash covers the previous one:
 *
 * hash = H("holdfast-entry-1\n" + previous + "\n" + canonical JSON of {run, entry, kind, at, epoch, body}).
 *
 * The body of a checkpoint's entry holds the digest of its planes, not the planes. So the chain can be recomputed after
 * the checkpoint was dropped. `previous` of the first entry is H(canonical JSON of the run's birth record).
 */
export interface JournalEntry {
  readonly run: string;
  readonly entry: number;
  readonly kind: EntryKind;
  readonly at: string;
  /** Lease epoch of the writer. 0 for entries that need no lease (tags, drops, run creation). */
  readonly epoch: number;
  readonly body: JsonObject;
  /** H(canonical JSON of body). For a checkpoint, its digest, which equals the entry's hash. */
  readonly digest: Digest;
  readonly hash: Digest;
}

/** Kinds that Holdfast interprets. A workflow's own kinds have the prefix `x.` and are stored unchanged. */
export const ENTRY_KINDS = [
  "run.created",
  "run.waiting",
  "run.paused",
  "run.continued", // a run that waited or was paused continues
  "run.ended",
  "run.resumed", // a process resumes a run whose last process died: running calls are lost
  "run.reopened", // an ended run continues by force from a chosen checkpoint
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
  "step.session", // the session that an agent reported, so that a crash does not lose the conversation; null: dropped
  "call.recorded", // request and response of an agent, a command or the forge, in recorded runs
  "step.interrupted", // an agent call that was stopped and reported its usage
  "step.adopted", // a call whose process died had finished, and its result is adopted
  "step.lost", // usage of a call that died with its process, from the agent's own record
  "effect.intended",
  "effect.settled",
  "effect.unknown",
  "effect.undoing", // the user asked to undo a done effect
  "effect.undone", // the target reports that it is undone, or keeps it
  "graph.set", // the graph of this stage attempt at its start
  "graph.moved", // events of the graph's nodes
  "files.settled", // the newest checkpoint holds the files as the steps that may change them left them
  "yolo.allowed", // the user allows agents to use tools without asking from now on
  "note",
] as const;

export type EntryKind = (typeof ENTRY_KINDS)[number] | `x.${string}`;

export interface NewEntry {
  readonly kind: Exclude<EntryKind, "checkpoint">;
  readonly body: JsonObject;
}

export type RunEnded =
  | { readonly outcome: "done" }
  | { readonly outcome: "failed"; readonly reason: string }
  | { readonly outcome: "aborted"; readonly reason: string };
/** `counts`: the usage of the lost calls is still to be determined. */
export type RunResumed = { readonly counts: boolean };
export type FilesSettled = { readonly sequence: number };
export type RunReopened = { readonly reason: string };
export type RunWaiting = {
  readonly for: WaitingFor;
  readonly reason: string;
  readonly until: string | null;
  /** The question that the user must answer. Absent: there is none. */
  readonly decision?: PendingDecision;
};
export type RunPaused = { readonly reason: string };
/** `by`: name of the user who answered. `note`: why. */
export type RunContinued = {
  readonly decision?: string;
  readonly answer?: string;
  readonly by?: string;
  readonly note?: string;
};

/** Bodies of stage and step entries. state.ts reduces them to the run's state. */
export type StageEntered = { readonly stageAttempt: number; readonly stage: string; readonly iteration: number };
export type StageEnded = {
  readonly stageAttempt: number;
  readonly stage: string;
  readonly event: string;
  readonly reason: string;
  /** null: the stage was an end stage. */
  readonly next: string | null;
  readonly score: number | null;
};
/** Only for steps that change files, and for agent calls (`estimate` is not null). A plain step has a single entry. */
export type StepStarted = {
  readonly stageAttempt: number;
  readonly step: string;
  readonly files: boolean;
  readonly estimate: Amounts | null;
  readonly counted?: RecordTokens;
  /** The continuation that an interrupted session got instead of the call's prompt. */
  readonly sent?: string;
  /** Name of the side worktree in which the agent call works. */
  readonly sideWorktree?: string;
};
export type StepInterrupted = { readonly stageAttempt: number; readonly step: string; readonly spent: Amounts };
export type StepAdopted = { readonly stageAttempt: number; readonly step: string };
/** A call that died with its process. Its usage comes from the agent's own session record. */
export type StepLost = {
  readonly stageAttempt: number;
  readonly step: string;
  readonly spent: Amounts;
  /** Amount assumed for the limits if the usage is unknown. */
  readonly held?: Amounts;
};
export type StepFinished = {
  readonly stageAttempt: number;
  readonly step: string;
  readonly result: Json;
  readonly spent: Amounts | null;
  /** `result` is an event that the workflow's `reduce` has applied to its values. */
  readonly recorded?: boolean;
};
export type StepFailed = {
  readonly stageAttempt: number;
  readonly step: string;
  readonly reason: string;
  readonly spent: Amounts | null;
  /** For an agent call: the rule that decided what follows, and the call's error state from now on. */
  readonly verdict?: ErrorVerdict;
  readonly errors?: CallErrors;
  /** Code of the error, if it had one. */
  readonly code?: string;
};
export type StepSession = { readonly stageAttempt: number; readonly step: string; readonly session: string | null };
export type GraphSet = { readonly stageAttempt: number; readonly graph: Graph };
export type GraphMoved = { readonly stageAttempt: number; readonly events: readonly GraphEvent[] };

/** What an entry's hash covers in addition to the previous hash. */
interface Link {
  readonly run: string;
  readonly entry: number;
  readonly kind: EntryKind;
  readonly at: string;
  readonly epoch: number;
  /** Canonical JSON of the entry's body. */
  readonly body: string;
}

/** The keys are written in canonical order by hand, because this runs for every entry. */
export function entryHash(previous: Digest, link: Link): Digest {
  return sha256(
    `holdfast-entry-1\n${previous}\n{"at":"${link.at}","body":${link.body},"entry":${link.entry},"epoch":${link.epoch},"kind":${kindText(link.kind)},"run":"${link.run}"}`,
  );
}

function kindText(kind: EntryKind): string {
  return kind === "checkpoint" ? '"checkpoint"' : JSON.stringify(kind);
}

/** Digest of the run's birth record, to which the first entry is chained. */
export function birthDigest(run: Run): Digest {
  return sha256(canonicalJson(birthRecord(run)));
}

export function birthRecord(run: Run): JsonObject {
  return {
    id: run.id,
    createdAt: run.createdAt,
    workflow: run.workflow,
    work: run.work,
    forkedFrom: run.forkedFrom === null ? null : { id: run.forkedFrom.id, digest: run.forkedFrom.digest },
    labels: run.labels,
  };
}

/** The body of a checkpoint's entry without its parent. `root` represents the planes. */
export interface CheckpointHead {
  readonly sequence: number;
  readonly trigger: Trigger;
  readonly name: string | null;
  readonly stage: string;
  readonly iteration: number;
  readonly score: number | null;
  readonly tree: string | null;
  /** Bytes of the planes as canonical JSON, and bytes that this checkpoint added to the store. */
  readonly logical: number;
  readonly added: number;
  /** Digest of the planes as one value. */
  readonly root: Digest;
}

/** The canonical JSON of a checkpoint entry, written by hand because this runs for every checkpoint. */
export function checkpointBodyText(head: CheckpointHead, parent: CheckpointParent | null): string {
  const parentText = parent === null ? "null" : `{"digest":"${parent.digest}","id":"${parent.id}"}`;
  return `{"added":${head.added},"iteration":${head.iteration},"logical":${head.logical},"name":${text(head.name)},"parent":${parentText},"root":"${head.root}","score":${head.score},"sequence":${head.sequence},"stage":${text(head.stage)},"tree":${text(head.tree)},"trigger":"${head.trigger}"}`;
}

/** Equal to canonical JSON for strings without lone surrogates, which capture refuses. */
function text(value: string | null): string {
  return value === null ? "null" : JSON.stringify(value);
}

/** Reads a string from an entry's body leniently: a missing value or another type gives "". */
export function textOf(body: JsonObject, key: string): string {
  const value = body[key];
  return typeof value === "string" ? value : "";
}

export function numberOf(body: JsonObject, key: string): number {
  const value = body[key];
  return typeof value === "number" ? value : 0;
}

/**
 * True when only a checkpoint can restore what this entry reports: values, an agent's conversation, the graph. Plain
 * steps are restored from the journal.
 */
export function isUnsavedChange({ kind, body }: Pick<JournalEntry, "kind" | "body">): boolean {
  if (kind === "graph.set" || kind === "graph.moved") return true;
  return kind === "step.finished" && (body["recorded"] === true || body["spent"] !== null);
}

type TimedEntry = Pick<JournalEntry, "kind" | "at" | "epoch" | "body">;

/**
 * Milliseconds of work according to the journal: the time between entries of one lease, and up to the last heartbeat of
 * a holder that died. Time in which the run waited or was stopped does not count. A clock that was set back counts as
 * 0.
 */
export function workingTime(entries: readonly TimedEntry[]): number {
  return entries.reduce(addWork, NO_WORK).total;
}

/** Working time, entry by entry. */
export interface WorkedTime {
  readonly total: number;
  /** At the newest checkpoint. Its budget has the time until then. */
  readonly saved: number;
  readonly last: { readonly epoch: number; readonly at: number } | null;
}

export const NO_WORK: WorkedTime = { total: 0, saved: 0, last: null };

export function addWork(worked: WorkedTime, entry: TimedEntry): WorkedTime {
  // Tags and drops need no lease and are not work.
  if (entry.epoch === 0) return worked;
  const { last } = worked;
  const at = Date.parse(entry.at);
  const seen = entry.kind === "lease.taken" ? lastSeen(entry, last?.epoch) : at;
  const continues = last !== null && (entry.kind === "lease.taken" || entry.epoch === last.epoch);
  const total = worked.total + (continues && seen !== null ? Math.max(0, seen - last.at) : 0);
  return { total, saved: entry.kind === "checkpoint" ? total : worked.saved, last: { epoch: entry.epoch, at } };
}

/** Last heartbeat of the previous holder. null: it released the lease, or it did not write the preceding entries. */
function lastSeen({ body }: TimedEntry, epoch: number | undefined): number | null {
  const { from } = body;
  if (!isJsonObject(from) || from["epoch"] !== epoch) return null;
  const seen = Date.parse(String(from["heartbeatAt"]));
  return Number.isFinite(seen) ? seen : null;
}

/** What the run itself did after its newest checkpoint, so that these differences are not attributed to others. */
export interface SinceCheckpoint {
  /** A step that changes files was started, so the current files and branch are its partial work. */
  readonly changesFiles: boolean;
  /** Such a step was started after the checkpoint. */
  readonly startsFiles: boolean;
  /** Commits that finished steps and settled effects mention. */
  readonly commits: ReadonlySet<string>;
  /** `commits`, and those that earlier steps of the stage attempt mention. The stage knows and handles them itself. */
  readonly seen: ReadonlySet<string>;
}

export function foldSince(params: {
  /** The stage attempt of the checkpoint. */
  readonly stageAttempt: StageAttempt;
  readonly entries: Iterable<Pick<JournalEntry, "kind" | "body">>;
}): SinceCheckpoint {
  // A step that the checkpoint lists as running was interrupted. If it failed since, it may have left files behind.
  let startsFiles = false;
  let changesFiles = Object.values(params.stageAttempt.running ?? {}).some((step) => step.files);
  const commits = new Set<string>();
  for (const { kind, body } of params.entries) {
    if (kind === "step.started" && body["files"] === true) startsFiles = changesFiles = true;
    const value = kind === "step.finished" ? body["result"] : kind === "effect.settled" ? body["receipt"] : null;
    for (const commit of commitsIn(value)) commits.add(commit);
  }
  const seen = new Set([...commits, ...commitsIn(params.stageAttempt.steps)]);
  return { changesFiles, startsFiles, commits, seen };
}

/** Every string in the value that has the form of a git object id. */
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
