// Captures and validates the arguments of store methods, folds the entries of a commit, and says why a write is refused. All stores share it.

import { HoldfastError, describeValue, usageError } from "@holdfast/platform/error";
import { type CheckpointId, type CheckpointParent, type Planes, TRIGGERS, type Trigger } from "./checkpoint.ts";
import { choiceHint } from "./options.ts";
import { EFFECT_KINDS, type Effect, checkIntent, stepEffect } from "./effects.ts";
import { ENTRY_KINDS, type EntryKind } from "./journal.ts";
import { type Json, type JsonObject, deepFreeze, isJsonObject } from "./json.ts";
import { type Lease, type LeasePlan, type SlotLease, planSlot } from "./lease.ts";
import { RUN_ID, type Run, type Work } from "./run.ts";
import { RUN_KINDS, type RunFold, stepRun } from "./status.ts";
import type { CommitBody, NewCheckpoint } from "./store.ts";
import { canonicalJson, capture } from "./values.ts";

/**
 * A commit as captured in the call: the caller can no longer change it. `E` is what a store adds to each entry, `P` how it keeps the planes.
 */
export interface CapturedCommit<E, P> {
  readonly entries: readonly CapturedEntry<E>[];
  readonly checkpoint: CapturedCheckpoint<P> | null;
}

export interface CapturedEntry<E> {
  readonly kind: EntryKind;
  /** Canonical JSON of the body. */
  readonly text: string;
  /** The frozen body. */
  readonly body: () => JsonObject;
  readonly own: E;
}

export interface CapturedCheckpoint<P> {
  readonly sequence: number | null;
  readonly trigger: Trigger;
  readonly name: string | null;
  readonly parent: CheckpointParent | null;
  readonly planes: P;
  readonly facts: PlaneFacts;
}

/** The callbacks read what they are given before they return. */
export function captureCommit<E, P>(
  commit: CommitBody,
  store: {
    readonly entry: (body: JsonObject, json: string) => E;
    readonly planes: (live: Planes) => P;
  },
): CapturedCommit<E, P> {
  const { entries = [], checkpoint } = commit;
  return {
    entries: entries.map((entry) => captureEntry(entry, store.entry)),
    checkpoint: checkpoint === undefined ? null : captureCheckpoint(checkpoint, store.planes),
  };
}

function captureEntry<E>(
  { kind, body }: NonNullable<CommitBody["entries"]>[number],
  own: (body: JsonObject, json: string) => E,
): CapturedEntry<E> {
  checkEntryKind(kind);
  if (!isJsonObject(body)) throw usageError(`The body of ${kind} is not an object`, "Give an object.");
  const text = canonicalJson(body);
  let parsed: JsonObject | undefined;
  return { kind, text, body: () => (parsed ??= parseBody(text)), own: own(body, text) };
}

/** Of the canonical JSON of an object. */
function parseBody(text: string): JsonObject {
  const value: JsonObject = JSON.parse(text);
  return deepFreeze(value);
}

function captureCheckpoint<P>(checkpoint: NewCheckpoint, own: (live: Planes) => P): CapturedCheckpoint<P> {
  checkTrigger(checkpoint.trigger);
  const { name, parent, sequence, planes } = checkpoint;
  const facts = planeFacts(planes);
  return {
    sequence: sequence === undefined ? null : checkSequence(sequence),
    trigger: checkpoint.trigger,
    name: name === undefined ? null : checkName(name),
    parent: parent === undefined ? null : { id: parent.id, digest: parent.digest },
    planes: own(planes),
    facts,
  };
}

/** Folds a commit's entries into the state of the run; null when none concerns it. Throws USAGE for a body that could not be read later. */
export function foldRunEntries(params: {
  readonly run: string;
  readonly at: string;
  readonly entries: readonly CapturedEntry<unknown>[];
  /** Number of the entry before the first of these. */
  readonly after: number;
  readonly current: () => RunFold;
}): RunFold | null {
  const { run, at, entries } = params;
  let fold: RunFold | null = null;
  for (const [i, { kind, body }] of entries.entries()) {
    if (!RUN_KINDS.has(kind)) continue;
    fold = step(fold ?? params.current(), { run, entry: params.after + 1 + i, kind, at, body: body() });
  }
  return fold === null ? null : deepFreeze(fold);
}

function step(fold: RunFold, entry: Parameters<typeof stepRun>[1]): RunFold {
  try {
    return stepRun(fold, entry);
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    throw new HoldfastError({
      code: "USAGE",
      message: error.message,
      hint: "Nothing was written. Give the entry the body that its kind asks for.",
      data: error.data,
      cause: error,
    });
  }
}

type Entry = Parameters<typeof stepEffect>[1];

/** Folds a commit's entries into the effect ledger; throws CONFLICT when one does not fit. Changes nothing. */
export function foldEffects(params: {
  readonly run: string;
  readonly at: string;
  readonly entries: readonly CapturedEntry<unknown>[];
  /** Number of the entry before the first of these. */
  readonly after: number;
  readonly current: (key: string) => Effect | undefined;
}): readonly Effect[] {
  const { run, at } = params;
  const folded = new Map<string, Effect>();
  for (const [i, entry] of params.entries.entries()) {
    const { kind } = entry;
    if (!EFFECT_KINDS.has(kind)) continue;
    const body = entry.body();
    const key = typeof body["key"] === "string" ? body["key"] : "";
    if (key === "") throw effectConflict({ run, why: "the entry names no effect key" });
    const before = folded.get(key) ?? params.current(key);
    const change = fittingStep(before, { run, entry: params.after + 1 + i, kind, at, body });
    if (change !== null) folded.set(key, deepFreeze(change));
  }
  return [...folded.values()];
}

/** What would be corruption in a journal is the caller's mistake while nothing is written yet. */
function fittingStep(before: Effect | undefined, entry: Entry): Effect | null {
  try {
    checkFit(before, entry);
    return stepEffect(() => before, entry);
  } catch (error) {
    if (!(error instanceof HoldfastError) || error.code !== "STORE_CORRUPT") throw error;
    throw effectConflict({ run: entry.run, why: error.message });
  }
}

/** The fold ignores entries after "done"; a writer of such an entry gets an error instead. */
function checkFit(before: Effect | undefined, entry: Entry): void {
  if (entry.kind === "effect.intended") {
    const wish = stepEffect(() => undefined, entry);
    if (wish !== null) checkIntent(before, wish);
  } else if (before !== undefined && !fits(before, entry)) {
    const why = `${before.key} is ${before.state.kind}, which ${entry.kind} cannot follow`;
    throw effectConflict({ run: entry.run, why });
  }
}

function fits({ state }: Effect, { kind, body }: Entry): boolean {
  switch (kind) {
    case "effect.undoing":
      return state.kind === "done" || state.kind === "undoing";
    case "effect.undone":
      return state.kind === "undoing";
    default:
      if (state.kind === "done") return body["outcome"] === "done";
      return state.kind !== "undoing" && state.kind !== "undone";
  }
}

/** The checks below reject what untyped callers can get wrong, before anything is queued. */

export function checkRunId(run: unknown): string {
  if (typeof run === "string" && RUN_ID.test(run)) return run;
  throw usageError(
    `${describeValue(run)} is not a run id`,
    "A run id has 1 to 63 lower-case letters, digits and inner hyphens.",
  );
}

/** Returns the other runs without duplicates and without `run` itself. */
export function othersOf(run: string, others: readonly string[]): readonly string[] {
  return [...new Set(others.map(checkRunId))].filter((one) => one !== run);
}

/** Kinds that only the store itself writes: they record its own methods. */
const OWN_KINDS: ReadonlySet<string> = new Set([
  "run.created",
  "lease.taken",
  "lease.released",
  "checkpoint",
  "checkpoint.dropped",
  "checkpoint.quarantined",
  "tag.added",
  "tag.removed",
]);
const COMMITTABLE: ReadonlySet<string> = new Set(ENTRY_KINDS.filter((kind) => !OWN_KINDS.has(kind)));

function checkEntryKind(kind: string): void {
  if (COMMITTABLE.has(kind) || /^x\.[^\p{C}]{1,200}$/u.test(kind)) return;
  const why = OWN_KINDS.has(kind) ? "is written by the store alone" : "is not an entry kind";
  throw usageError(`${describeValue(kind)} ${why}`, "Kinds of your own begin with `x.`.");
}

const TRIGGER_SET: ReadonlySet<string> = new Set(TRIGGERS);

function checkTrigger(trigger: string): void {
  if (!TRIGGER_SET.has(trigger))
    throw usageError(`${describeValue(trigger)} is not a trigger`, choiceHint(trigger, TRIGGERS));
}

/** The few facts that lists show without reading the planes. */
export interface PlaneFacts {
  readonly stage: string;
  readonly iteration: number;
  readonly score: number | null;
  readonly tree: string | null;
}

export function planeFacts(planes: Planes): PlaneFacts {
  const { position, files } = planes;
  if (typeof position !== "object" || position === null) throw usageError("The planes lack a position", PLANES_HINT);
  const { stage, iteration, score } = position;
  const tree = files === null || files === undefined ? null : files.tree;
  if (
    typeof stage !== "string" ||
    !stage.isWellFormed() ||
    typeof iteration !== "number" ||
    (score !== null && typeof score !== "number")
  ) {
    throw usageError("The position lacks a stage, an iteration or a score", PLANES_HINT);
  }
  if (tree !== null && typeof tree !== "string") throw usageError("The files plane lacks its tree", PLANES_HINT);
  return { stage, iteration, score, tree };
}

const PLANES_HINT = "Start from the newest checkpoint's planes, or from empty ones.";

/** Checks the name that a user gave a checkpoint. */
function checkName(name: unknown): string {
  if (typeof name === "string" && name.length <= 1000 && name.isWellFormed()) return name;
  throw usageError("A checkpoint's name is a text of at most 1000 characters", "Shorten it.");
}

export function checkSequence(sequence: unknown): number {
  if (typeof sequence === "number" && Number.isSafeInteger(sequence) && sequence >= 1) return sequence;
  throw usageError(`${describeValue(sequence)} is not a checkpoint's sequence`, "Sequences are 1, 2, 3 …");
}

export function captureNewRun(run: NewRunArguments): Omit<Run, "createdAt"> {
  checkRunId(run.id);
  if (typeof run.workflow !== "string" || run.workflow === "")
    throw usageError("A run needs the name of its workflow", "Give `workflow`.");
  const { forkedFrom } = run;
  const work = capture(run.work);
  const labels = capture(run.labels ?? {});
  if (!isWork(work))
    throw usageError("A run needs its work", "An issue with its number, a task with its text, or none.");
  if (!isJsonObject(labels)) throw usageError("Labels must be an object", "Give names and values.");
  return {
    id: run.id,
    workflow: run.workflow,
    work,
    forkedFrom: forkedFrom === undefined ? null : Object.freeze({ id: forkedFrom.id, digest: forkedFrom.digest }),
    labels,
  };
}

interface NewRunArguments {
  readonly id: string;
  readonly workflow: string;
  readonly work: Work;
  readonly forkedFrom?: CheckpointParent;
  readonly labels?: JsonObject;
}

function isWork(value: Json): value is Work & JsonObject {
  if (!isJsonObject(value)) return false;
  switch (value["kind"]) {
    case "issue":
      return typeof value["number"] === "number";
    case "task":
      return typeof value["text"] === "string";
    default:
      return value["kind"] === "none";
  }
}

/** Whether two requests describe the same run. The time of a request is not part of it, so creating a run twice gives one run. */
export function sameBirth(a: Omit<Run, "createdAt">, b: Omit<Run, "createdAt">): boolean {
  return asked(a) === asked(b);
}

function asked(run: Omit<Run, "createdAt">): string {
  const { id, workflow, work, forkedFrom, labels } = run;
  return canonicalJson({
    id,
    workflow,
    work,
    forkedFrom: forkedFrom === null ? null : { id: forkedFrom.id, digest: forkedFrom.digest },
    labels,
  });
}

/** What a writer presents: enough to check whether its lease is still valid. */
export interface LeaseClaim {
  readonly run: string;
  readonly epoch: number;
  readonly token: string;
}

export function claimOf(lease: Lease): LeaseClaim {
  return { run: lease.run, epoch: lease.epoch, token: lease.owner.token };
}

/** Chooses the slot for a lease; throws LOOP_LIMIT if none is free and the caller does not wait. */
export function chooseSlot(params: {
  readonly run: string;
  readonly plan: Exclude<LeasePlan, { readonly kind: "refuse" }>;
  readonly wish: { readonly limit: number | null; readonly wait: boolean };
  readonly priority: number;
  readonly others: readonly SlotLease[];
  readonly now: number;
  readonly staleAfterMs: number;
}): NonNullable<Lease["slot"]> {
  const { run, plan, wish, now } = params;
  const held = plan.kind === "held_by_us" ? plan.lease : null;
  // A run that has a slot keeps it, whatever the limit is now.
  if (held?.slot === "working") return "working";
  const since = held?.slot === "waiting" ? held.takenAt : new Date(now).toISOString();
  const slot = planSlot({ ...params, limit: wish.limit, since });
  if (slot.kind === "work") return "working";
  if (wish.wait) return "waiting";
  throw slotLimitReached({ run, limit: wish.limit, working: slot.working, ahead: slot.ahead });
}

/* Why a write is refused. */

function slotLimitReached(params: {
  readonly run: string;
  readonly limit: number | null;
  readonly working: readonly SlotLease[];
  readonly ahead: readonly SlotLease[];
}): HoldfastError {
  const { run, limit, working, ahead } = params;
  const who = working.map(({ lease }) => `${lease.run} (pid ${lease.owner.pid} on ${lease.owner.host})`);
  const by = who.length === 0 ? "" : `, by ${who.join(", ")}`;
  const next = ahead.length === 0 ? "" : `; next in the queue: ${ahead.map(({ lease }) => lease.run).join(", ")}`;
  return new HoldfastError({
    code: "LOOP_LIMIT",
    message: `${run} must wait for a slot: ${working.length} of ${limit ?? 0} in use${by}${next}`,
    hint: "Wait for a slot with --wait, exceed the limit with --force, or raise `loops.max` in holdfast.config.yaml. `holdfast status` shows all loops.",
    retry: "later",
    data: { run, limit, working: working.map(brief), waiting: ahead.map(brief) },
  });
}

function brief({ lease, priority }: SlotLease): object {
  const { pid, host } = lease.owner;
  return { run: lease.run, pid, host, priority, since: lease.takenAt, heartbeatAt: lease.heartbeatAt };
}

export function leaseLost(params: {
  readonly run: string;
  readonly epoch: number;
  readonly current: Lease | null;
}): HoldfastError {
  const { current } = params;
  const why = current === null ? "it was released" : `${current.owner.label} holds epoch ${current.epoch} now`;
  return new HoldfastError({
    code: "LEASE_LOST",
    message: `The lease on ${params.run} with epoch ${params.epoch} is no longer valid: ${why}`,
    hint: "Nothing was written. Acquire the lease again and read the journal before you continue.",
    data: { run: params.run, epoch: params.epoch, current },
  });
}

export function sequenceConflict(params: {
  readonly run: string;
  readonly expected: number;
  readonly next: number;
}): HoldfastError {
  return new HoldfastError({
    code: "CONFLICT",
    message: `The next checkpoint of ${params.run} is ${params.next}, not ${params.expected}`,
    hint: "Read the run's newest checkpoint and try again on top of it.",
    data: params,
  });
}

function effectConflict(params: { readonly run: string; readonly why: string }): HoldfastError {
  return new HoldfastError({
    code: "CONFLICT",
    message: `An effect of ${params.run} does not fit its ledger: ${params.why}`,
    hint: "Use another key for another payload, and record an intent before its outcome.",
    data: params,
  });
}

export function tagExists(params: {
  readonly run: string;
  readonly name: string;
  readonly sequence: number;
}): HoldfastError {
  return new HoldfastError({
    code: "TAG_EXISTS",
    message: `The tag ${params.name} of ${params.run} already names checkpoint ${params.sequence}`,
    hint: "Choose another name, or ask for the tag to be moved.",
    data: params,
  });
}

export function dropConflict(params: { readonly id: CheckpointId; readonly why: string }): HoldfastError {
  return new HoldfastError({
    code: "CONFLICT",
    message: `The checkpoint ${params.id} cannot be dropped: ${params.why}`,
    hint: "Nothing was dropped. Remove the tag first, or leave this checkpoint out.",
    data: { checkpoint: params.id, why: params.why },
  });
}
