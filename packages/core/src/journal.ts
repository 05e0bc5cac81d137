// The journal: entry kinds and bodies, the hash chain, and facts that are derived from entries (working time, commits).
import { type CheckpointParent, type Trigger, amountsShape } from "./checkpoint.ts";
import { graphEventShape, graphShape } from "./graph-state.ts";
import {
  type Digest,
  type Json,
  type JsonObject,
  type Shape,
  type TypeOf,
  count,
  flag,
  isJsonArray,
  isJsonObject,
  json,
  list,
  nullable,
  object,
  optional,
  parseShape,
  sha256,
  text,
  variants,
} from "./json.ts";
import { type StageAttempt, callErrorsShape, tokensShape, verdictShape } from "./position.ts";
import type { Run, RunState } from "./run.ts";
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

/** The bodies of entries, as they are read. state.ts, status.ts and effects.ts reduce them. */

export const runEnded = variants("outcome", {
  done: object({}),
  failed: object({ reason: text }),
  aborted: object({ reason: text }),
});
export const runReopened = object({ reason: text });
export const runPaused = object({ reason: text });
/** `until`: ISO 8601; null: no time is known. `decision`: the question that the user must answer; absent: there is none. */
export type RunWaiting = Omit<Extract<RunState, { readonly kind: "waiting" }>, "kind">;
/** `by`: name of the user who answered. `note`: why. */
export type RunContinued = {
  readonly decision?: string;
  readonly answer?: string;
  readonly by?: string;
  readonly note?: string;
};
export const runResumed = object({
  /** The usage of the lost calls is still to be determined. */
  counts: flag,
});
export type RunResumed = TypeOf<typeof runResumed>;
export const filesSettled = object({ sequence: count });

export const stageEntered = object({ stageAttempt: count, stage: text, iteration: count });
export type StageEntered = TypeOf<typeof stageEntered>;
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
export const stepStarted = object({
  stageAttempt: count,
  step: text,
  files: flag,
  estimate: nullable(amountsShape),
  counted: optional(tokensShape),
  /** The continuation that an interrupted session got instead of the call's prompt. */
  sent: optional(text),
  /** Name of the side worktree in which the agent call works. */
  sideWorktree: optional(text),
});
export type StepStarted = TypeOf<typeof stepStarted>;
export const stepInterrupted = object({ stageAttempt: count, step: text, spent: amountsShape });
export type StepInterrupted = TypeOf<typeof stepInterrupted>;
export const stepAdopted = object({ stageAttempt: count, step: text });
export type StepAdopted = TypeOf<typeof stepAdopted>;
/** A call that died with its process. Its usage comes from the agent's own session record. */
export const stepLost = object({
  stageAttempt: count,
  step: text,
  spent: amountsShape,
  /** Amount assumed for the limits if the usage is unknown. */
  held: optional(amountsShape),
});
export type StepLost = TypeOf<typeof stepLost>;
export const stepFinished = object({
  stageAttempt: count,
  step: text,
  result: json,
  spent: nullable(amountsShape),
  /** `result` is an event that the workflow's `reduce` has applied to its values. */
  recorded: optional(flag),
});
export type StepFinished = TypeOf<typeof stepFinished>;
export const stepFailed = object({
  stageAttempt: count,
  step: text,
  reason: text,
  spent: nullable(amountsShape),
  /** For an agent call: the rule that decided what follows, and the call's error state from now on. */
  verdict: optional(verdictShape),
  errors: optional(callErrorsShape),
  /** Code of the error, if it had one. */
  code: optional(text),
});
export type StepFailed = TypeOf<typeof stepFailed>;
export const stepSession = object({ stageAttempt: count, step: text, session: nullable(text) });
export type StepSession = TypeOf<typeof stepSession>;
export const graphSet = object({ stageAttempt: count, graph: graphShape });
export const graphMoved = object({ stageAttempt: count, events: list(graphEventShape) });

type NamedEntry = Pick<JournalEntry, "run" | "entry" | "kind">;

/** The body of an entry. STORE_CORRUPT with the path of what does not fit. */
export function readBody<T>(shape: Shape<T>, entry: NamedEntry & Pick<JournalEntry, "body">): T {
  return parseShape({ shape, value: entry.body, what: entryName(entry) });
}

/** An entry in a message. */
export function entryName({ run, entry, kind }: NamedEntry): string {
  return `Journal entry ${entry} of run ${run} (${kind})`;
}

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
  return `{"added":${head.added},"iteration":${head.iteration},"logical":${head.logical},"name":${nullableText(head.name)},"parent":${parentText},"root":"${head.root}","score":${head.score},"sequence":${head.sequence},"stage":${nullableText(head.stage)},"tree":${nullableText(head.tree)},"trigger":"${head.trigger}"}`;
}

/** Equal to canonical JSON for strings without lone surrogates, which capture refuses. */
function nullableText(value: string | null): string {
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
    if (isObjectId(value)) into.add(value);
  } else if (isJsonArray(value)) {
    for (const one of value) collect(one, into);
  } else if (isJsonObject(value)) {
    for (const one of Object.values(value)) collect(one, into);
  }
}

/** Whether a text has the form of a git object id. */
export function isObjectId(text: string): boolean {
  return /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(text);
}
