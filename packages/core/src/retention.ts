// Decides which checkpoints of a store to keep and which to drop, and why.

import { HoldfastError } from "@holdfast/platform/error";
import type { CheckpointSummary, Trigger } from "./checkpoint.ts";
import { type RunState, isFailedOrAborted } from "./run.ts";

/** How many to keep: a number, or all. There is no sentinel value. */
type Keep = number | "all";

export interface KeepRule {
  readonly keep: Keep;
  readonly per: "run" | "stage";
}

export interface RetentionPolicy {
  /** The newest N for each trigger and stage; a trigger that is not named here uses `defaultKeep`. */
  readonly perTrigger: Readonly<Partial<Record<Trigger, KeepRule>>>;
  readonly defaultKeep: KeepRule;
  /** Only the newest N of a run are candidates for the rules above, whatever their triggers. Null: the rules alone decide. */
  readonly maxPerRun: number | null;
  /** Drops older checkpoints that a number keeps, but not those that "all" keeps. Null: age never drops. */
  readonly maxAgeDays: number | null;
  /**
   * keep_latest: a done run keeps its latest checkpoint, and manual ones by their own rule. latest_only: it keeps its latest and the
   * protected ones.
   */
  readonly onSuccess: "keep_latest" | "latest_only" | "by_rules";
  /** keep_recent: a fatal run keeps everything younger than `recentDays`, so that the user can find the cause. */
  readonly onFailure: "keep_recent" | "by_rules";
  readonly recentDays: number;
  /**
   * The rules above drop nothing of a run whose newest checkpoint is younger, whatever its status. Absent or null: the rules apply at once.
   * The size limit below applies in any case.
   */
  readonly minRunAgeDays?: number | null;
  /** Limit for the whole store, in bytes: the oldest droppable checkpoints go first. Null: no limit. */
  readonly maxBytes: number | null;
}

export interface RetentionSubject {
  readonly run: string;
  readonly state: RunState;
  readonly checkpoints: readonly CheckpointSummary[];
  /** Sequences that retention must never drop, with the caller's reason (only copy of unpushed work, parent of a live fork, …). */
  readonly pinned: ReadonlyMap<number, string>;
  readonly resumable: ReadonlySet<number>;
}

export type RetentionDecision =
  | { readonly action: "keep"; readonly sequence: number; readonly why: string }
  | { readonly action: "drop"; readonly sequence: number; readonly why: string; readonly bytes: number };

export interface RetentionPlan {
  readonly run: string;
  readonly decisions: readonly RetentionDecision[];
}

/** Rules for a run that is old enough. Milestones and the audit trail are kept; of automatic safety checkpoints, only a few recent ones. */
export const defaultRetention: RetentionPolicy = {
  perTrigger: {
    manual: { keep: "all", per: "run" },
    stage: { keep: "all", per: "stage" },
    batch_complete: { keep: 3, per: "stage" },
    agent_complete: { keep: 1, per: "stage" },
    artifact_complete: { keep: 3, per: "stage" },
    conflict_start: { keep: "all", per: "run" },
    conflict_resolved: { keep: "all", per: "run" },
    interrupt: { keep: 1, per: "run" },
    session_end: { keep: 1, per: "run" },
    // Each one undoes one restore: ten levels of undo.
    before_restore: { keep: 10, per: "run" },
    fork: { keep: "all", per: "run" },
    import: { keep: "all", per: "run" },
  },
  // Applies to automatic, iteration, timer, before_risky, before_external, error_recovery and restore.
  defaultKeep: { keep: 5, per: "run" },
  maxPerRun: null,
  maxAgeDays: 30,
  onSuccess: "keep_latest",
  onFailure: "keep_recent",
  recentDays: 30,
  maxBytes: null,
};

/** The default of a store: every run stays complete for 30 days after its newest checkpoint. */
export const storeRetention: RetentionPolicy = { ...defaultRetention, minRunAgeDays: 30 };

/**
 * The published life cycle of loop checkpoints. A run keeps its newest five for thirty days, its latest after success, and all recent ones
 * after failure. It does not mention triggers, so all are equal.
 */
export const loopRetention: RetentionPolicy = {
  perTrigger: {},
  defaultKeep: { keep: 5, per: "run" },
  maxPerRun: 5,
  maxAgeDays: 30,
  onSuccess: "latest_only",
  onFailure: "keep_recent",
  recentDays: 30,
  maxBytes: null,
};

export const RETENTION_PRESETS = { standard: storeRetention, loops: loopRetention } as const;

/** Throws CONFIG_INVALID. A policy may come from a file, where types do not help. */
export function checkRetention(policy: RetentionPolicy): void {
  const rules = { ...policy.perTrigger, defaultKeep: policy.defaultKeep };
  for (const [name, rule] of Object.entries(rules)) {
    if (rule.keep !== "all" && !isAmount(rule.keep, Number.isSafeInteger)) {
      throw invalid(`${name}.keep`, rule.keep, `Write "all" to keep all, 0 to keep none beyond the protected ones.`);
    }
  }
  if (policy.maxPerRun !== null && !isAmount(policy.maxPerRun, Number.isSafeInteger)) {
    throw invalid("maxPerRun", policy.maxPerRun, "Write a whole number from 0, or null for no limit.");
  }
  const amounts = [
    ["maxAgeDays", policy.maxAgeDays],
    ["recentDays", policy.recentDays],
    ["minRunAgeDays", policy.minRunAgeDays ?? null],
    ["maxBytes", policy.maxBytes],
  ] as const;
  for (const [name, amount] of amounts) {
    if (amount !== null && !isAmount(amount, Number.isFinite)) {
      throw invalid(name, amount, "Write a number from 0, or null for no limit.");
    }
  }
}

function isAmount(value: number, fits: (value: number) => boolean): boolean {
  return typeof value === "number" && fits(value) && value >= 0;
}

function invalid(name: string, value: unknown, hint: string): HoldfastError {
  return new HoldfastError({
    code: "CONFIG_INVALID",
    message: `The retention policy cannot use ${JSON.stringify(value)} for ${name}`,
    hint,
  });
}

const DAY = 86_400_000;

/**
 * Decides what to keep and what to drop, and why. It never drops a run's newest checkpoint, the newest that it can resume from, the best
 * scored, tagged ones and pinned ones. The order is by sequence; time only decides age. A wrong clock never drops more than a right one
 * would. A checkpoint from the future has no age. A checkpoint with an earlier time than one before it was taken after the clock was set
 * back. Its time is not trusted, and age does not drop it. The checkpoint that proves this (its `proof`) is kept as long. (A clock that
 * was slow from the first checkpoint on leaves no such proof.) Planning again after the plan was applied drops nothing more.
 */
export function planRetention(params: {
  readonly subjects: readonly RetentionSubject[];
  readonly policy: RetentionPolicy;
  /** Milliseconds since the epoch. */
  readonly now: number;
}): readonly RetentionPlan[] {
  checkRetention(params.policy);
  const judged = params.subjects.map((subject) => judge({ subject, policy: params.policy, now: params.now }));
  applyByteBudget(judged.flat(), params.policy.maxBytes);
  return params.subjects.map((subject, index) => ({
    run: subject.run,
    decisions: (judged[index] ?? []).map(decide).toReversed(),
  }));
}

/** One checkpoint and its decision. Mutable only while a plan is made. */
interface Judged {
  readonly checkpoint: CheckpointSummary;
  /** Milliseconds since the epoch; it never decreases along the run. It only orders what goes first when the store is too large. */
  readonly time: number;
  /** The checkpoint that proves a clock error. Set when age would drop this checkpoint if its own time were trusted. */
  readonly proof: Judged | null;
  fate: Fate;
  /** How many kept checkpoints have this one as their proof. */
  dependents: number;
}

type Fate =
  | { readonly kind: "protected"; readonly why: string }
  /** `agedBy`: the age, in milliseconds, from which this reason no longer holds. */
  | { readonly kind: "kept"; readonly why: string; readonly agedBy: number | null }
  | { readonly kind: "dropped"; readonly why: string };

/** Returns the decisions in order of sequence. */
function judge(params: {
  readonly subject: RetentionSubject;
  readonly policy: RetentionPolicy;
  readonly now: number;
}): readonly Judged[] {
  const { subject, policy, now } = params;
  const checkpoints = subject.checkpoints.toSorted((a, b) => a.sequence - b.sequence);
  const protections = protect(subject, checkpoints);
  const ranks = rank(checkpoints, policy);
  const young = youngRun(checkpoints, policy, now);
  const judged: Judged[] = [];
  let youngest: Judged | null = null;
  for (const [index, checkpoint] of checkpoints.entries()) {
    const own = timeOf(checkpoint, now);
    const believed: boolean = youngest === null || own >= youngest.time;
    const why = protections.get(checkpoint.sequence);
    const fate: Fate =
      why === undefined
        ? (young ??
          judgeByRules({
            subject,
            policy,
            checkpoint,
            rank: ranks.get(checkpoint.sequence) ?? 0,
            place: checkpoints.length - 1 - index,
            age: believed ? now - own : 0,
          }))
        : { kind: "protected", why };
    const needsProof = !believed && fate.kind === "kept" && fate.agedBy !== null && now - own > fate.agedBy;
    const proof: Judged | null = needsProof ? youngest : null;
    if (proof !== null) proof.dependents += 1;
    const current: Judged = { checkpoint, time: Math.max(own, youngest?.time ?? own), proof, fate, dependents: 0 };
    if (believed) youngest = current;
    judged.push(current);
  }
  return judged;
}

/**
 * Keeps everything of a young run; null: the rules decide. The newest checkpoint is protected, so applying a plan does not make its run
 * older.
 */
function youngRun(ordered: readonly CheckpointSummary[], policy: RetentionPolicy, now: number): Fate | null {
  const days = policy.minRunAgeDays ?? null;
  if (days === null || ordered.length === 0) return null;
  const newest = Math.max(...ordered.map((checkpoint) => timeOf(checkpoint, now)));
  if (now - newest > days * DAY) return null;
  return { kind: "kept", why: `its run is younger than ${days} days`, agedBy: null };
}

function judgeByRules(params: {
  readonly subject: RetentionSubject;
  readonly policy: RetentionPolicy;
  readonly checkpoint: CheckpointSummary;
  /** Position in its group, 0 for the newest. */
  readonly rank: number;
  /** Position in the run, 0 for the newest. */
  readonly place: number;
  readonly age: number;
}): Fate {
  const { subject, policy, checkpoint, rank: inGroup, place, age } = params;
  const recent = policy.recentDays * DAY;
  if (isFailedOrAborted(subject.state) && policy.onFailure === "keep_recent" && age <= recent) {
    return { kind: "kept", why: `failed run: younger than ${policy.recentDays} days`, agedBy: recent };
  }
  const onlyLatest = subject.state.kind === "done" && policy.onSuccess !== "by_rules";
  if (onlyLatest && (checkpoint.trigger !== "manual" || policy.onSuccess === "latest_only")) {
    return { kind: "dropped", why: "the run is done: only its latest is kept" };
  }
  const { maxPerRun } = policy;
  if (maxPerRun !== null && place >= maxPerRun) {
    return { kind: "dropped", why: `beyond the newest ${maxPerRun} of the run` };
  }
  const rule = ruleFor(checkpoint, policy);
  const group = rule.per === "stage" ? `${checkpoint.trigger} of stage ${checkpoint.stage}` : checkpoint.trigger;
  if (rule.keep === "all") return { kind: "kept", why: `all ${group} are kept`, agedBy: null };
  if (inGroup >= rule.keep) return { kind: "dropped", why: `beyond the newest ${rule.keep} ${group}` };
  const limit = policy.maxAgeDays === null ? null : policy.maxAgeDays * DAY;
  if (limit !== null && age > limit) return { kind: "dropped", why: `older than ${policy.maxAgeDays} days` };
  return { kind: "kept", why: `among the newest ${rule.keep} ${group}`, agedBy: limit };
}

function protect(subject: RetentionSubject, ordered: readonly CheckpointSummary[]): ReadonlyMap<number, string> {
  const newest = ordered.at(-1);
  const resumable = ordered.findLast((checkpoint) => subject.resumable.has(checkpoint.sequence));
  let best: CheckpointSummary | null = null;
  for (const checkpoint of ordered) {
    if (checkpoint.score !== null && (best?.score == null || checkpoint.score > best.score)) best = checkpoint;
  }
  const protections = new Map<number, string>();
  for (const checkpoint of ordered) {
    const reasons: string[] = [];
    if (checkpoint === newest) reasons.push("the newest of the run");
    if (checkpoint === resumable) reasons.push("the newest to resume from");
    if (checkpoint === best) reasons.push(`the best score (${checkpoint.score})`);
    if (checkpoint.tags.length > 0) reasons.push(`tagged ${checkpoint.tags.join(", ")}`);
    const pin = subject.pinned.get(checkpoint.sequence);
    if (pin !== undefined) reasons.push(pin);
    if (reasons.length > 0) protections.set(checkpoint.sequence, reasons.join("; "));
  }
  return protections;
}

/** Position of each checkpoint in its group, newest first. Sequences decide, not times, so a wrong clock has no influence. */
function rank(ordered: readonly CheckpointSummary[], policy: RetentionPolicy): ReadonlyMap<number, number> {
  const seen = new Map<string, number>();
  const ranks = new Map<number, number>();
  for (const checkpoint of ordered.toReversed()) {
    const { per } = ruleFor(checkpoint, policy);
    const group = JSON.stringify([checkpoint.trigger, per === "stage" ? checkpoint.stage : null]);
    const place = seen.get(group) ?? 0;
    ranks.set(checkpoint.sequence, place);
    seen.set(group, place + 1);
  }
  return ranks;
}

function ruleFor(checkpoint: CheckpointSummary, policy: RetentionPolicy): KeepRule {
  return policy.perTrigger[checkpoint.trigger] ?? policy.defaultKeep;
}

/** A time that cannot be parsed counts as now: unreadable does not mean old. */
function timeOf(checkpoint: CheckpointSummary, now: number): number {
  const time = Date.parse(checkpoint.createdAt);
  return Number.isNaN(time) ? now : time;
}

/** Drops the oldest first, until the rest fits. Skips checkpoints that would free nothing. */
function applyByteBudget(judged: readonly Judged[], maxBytes: number | null): void {
  if (maxBytes === null) return;
  const staying = judged.filter((one) => !goes(one));
  let total = staying.reduce((sum, one) => sum + one.checkpoint.size.added, 0);
  const drop = (one: Judged): void => {
    if (total <= maxBytes || one.fate.kind !== "kept" || one.dependents > 0 || one.checkpoint.size.added === 0) return;
    one.fate = { kind: "dropped", why: `the store is over its ${maxBytes} bytes and this is the oldest that may go` };
    total -= one.checkpoint.size.added;
    const { proof } = one;
    if (proof === null) return;
    proof.dependents -= 1;
    if (goes(proof)) total -= proof.checkpoint.size.added;
    else drop(proof);
  };
  for (const one of staying.toSorted(byTime)) drop(one);
}

function goes(one: Judged): boolean {
  return one.fate.kind === "dropped" && one.dependents === 0;
}

function decide(one: Judged): RetentionDecision {
  const { sequence, size } = one.checkpoint;
  if (goes(one)) return { action: "drop", sequence, why: one.fate.why, bytes: size.added };
  const reasons = one.fate.kind === "dropped" ? [] : [one.fate.why];
  if (one.dependents > 0) reasons.push("it shows that the clock was set back before a later one");
  return { action: "keep", sequence, why: reasons.join("; ") };
}

function byTime(a: Judged, b: Judged): number {
  return (
    a.time - b.time || compareText(a.checkpoint.run, b.checkpoint.run) || a.checkpoint.sequence - b.checkpoint.sequence
  );
}

function compareText(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}
