import { HoldfastError } from "@holdfast/platform/error";
import type { CheckpointSummary, Trigger } from "./checkpoint.ts";
import type { RunState } from "./run.ts";

/** How many to keep: a number, or all of them. Never a sentinel. */
type Keep = number | "all";

export interface KeepRule {
  readonly keep: Keep;
  readonly per: "run" | "stage";
}

export interface RetentionPolicy {
  /** Newest N for each trigger and stage; a trigger not named here uses `defaultKeep`. */
  readonly perTrigger: Readonly<Partial<Record<Trigger, KeepRule>>>;
  readonly defaultKeep: KeepRule;
  /** Newest N of a run, whatever their triggers; of those, the rules above. null: the rules alone count. */
  readonly maxPerRun: number | null;
  /** What a number keeps goes when it is older than this; what "all" keeps stays. null: age never drops. */
  readonly maxAgeDays: number | null;
  /**
   * keep_latest: a done run keeps its latest, and what a person asked for (manual) by its own rule. latest_only: its
   * latest, and what is protected.
   */
  readonly onSuccess: "keep_latest" | "latest_only" | "by_rules";
  /** keep_recent: a fatal run keeps everything younger than `recentDays`, for whoever looks for the cause. */
  readonly onFailure: "keep_recent" | "by_rules";
  readonly recentDays: number;
  /**
   * Of a run whose newest checkpoint is younger, no rule above drops anything, whatever its status. Absent or null: the rules apply at once. Only
   * the size limit below still counts.
   */
  readonly minRunAgeDays?: number | null;
  /** Whole store; oldest droppable go first; null: no budget. */
  readonly maxBytes: number | null;
  readonly compressAfterDays: number | null;
}

export interface RetentionSubject {
  readonly run: string;
  readonly state: RunState;
  readonly checkpoints: readonly CheckpointSummary[];
  /** Sequences that retention may never touch and why the caller says so (only copy of unpushed work, live fork parent, …). */
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

/** Rules for a run that is old enough. Milestones and audit trail stay; safety nets are few and fresh. */
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
    // Each is the way back from one restore: ten undos deep.
    before_restore: { keep: 10, per: "run" },
    fork: { keep: "all", per: "run" },
    import: { keep: "all", per: "run" },
  },
  // automatic, iteration, timer, before_risky, before_external, error_recovery, restore
  defaultKeep: { keep: 5, per: "run" },
  maxPerRun: null,
  maxAgeDays: 30,
  onSuccess: "keep_latest",
  onFailure: "keep_recent",
  recentDays: 30,
  maxBytes: null,
  compressAfterDays: 7,
};

/** What a store keeps unless its user says otherwise: every run stays whole for 30 days after its newest checkpoint. */
export const storeRetention: RetentionPolicy = { ...defaultRetention, minRunAgeDays: 30 };

/**
 * As the published life cycle of loop checkpoints has it: the newest five of a run for thirty days, of a run that
 * succeeded the latest, of one that failed all that are recent. It says nothing of triggers, so none is treated better.
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
  compressAfterDays: 7,
};

export const RETENTION_PRESETS = { standard: storeRetention, loops: loopRetention } as const;

/** Throws CONFIG_INVALID. A policy may come from a file, where the type system cannot look. */
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
    ["compressAfterDays", policy.compressAfterDays],
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
 * What stays, what goes, and why. Never dropped, whatever the policy says: the newest checkpoint of a run, the newest
 * it can resume from, the best scored, tagged ones and pinned ones. Order is by sequence; time is only asked for age.
 *
 * A wrong clock never makes it drop more than a right one would. A checkpoint from the future has no age. One that is
 * stamped earlier than a checkpoint before it was taken after the clock was set back: its time is not believed, and
 * age does not drop it. The checkpoint that shows this (its witness) stays as long as it does. (A clock that was slow
 * from a run's first checkpoint on leaves no such trace.)
 *
 * Planning again after the plan was applied drops nothing more.
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

/** One checkpoint under judgement. Mutable only while a plan is being made. */
interface Judged {
  readonly checkpoint: CheckpointSummary;
  /** Milliseconds; never goes back along the run. Only orders what goes first when bytes are short. */
  readonly time: number;
  /** Set when age would drop this one, were its own stamp believed. */
  readonly witness: Judged | null;
  fate: Fate;
  /** How many that stay have this one as their witness. */
  leaners: number;
}

type Fate =
  | { readonly kind: "protected"; readonly why: string }
  /** `agedBy`: the age, in milliseconds, at which this reason would no longer hold. */
  | { readonly kind: "kept"; readonly why: string; readonly agedBy: number | null }
  | { readonly kind: "dropped"; readonly why: string };

/** In order of sequence. */
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
    const leans = !believed && fate.kind === "kept" && fate.agedBy !== null && now - own > fate.agedBy;
    const witness: Judged | null = leans ? youngest : null;
    if (witness !== null) witness.leaners += 1;
    const current: Judged = { checkpoint, time: Math.max(own, youngest?.time ?? own), witness, fate, leaners: 0 };
    if (believed) youngest = current;
    judged.push(current);
  }
  return judged;
}

/** The newest checkpoint is protected, so a plan that was applied does not make its run older. null: the rules count. */
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
  /** 0 for the newest of its group. */
  readonly rank: number;
  /** 0 for the newest of the run. */
  readonly place: number;
  readonly age: number;
}): Fate {
  const { subject, policy, checkpoint, rank: inGroup, place, age } = params;
  const recent = policy.recentDays * DAY;
  if (subject.state.kind === "fatal" && policy.onFailure === "keep_recent" && age <= recent) {
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

/** Place of each checkpoint in its group, newest first. By sequence: a clock has no say in it. */
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

/** A time that cannot be read counts as now: unreadable is not old. */
function timeOf(checkpoint: CheckpointSummary, now: number): number {
  const time = Date.parse(checkpoint.createdAt);
  return Number.isNaN(time) ? now : time;
}

/** Oldest first, until the rest fits. What would free nothing is left alone. */
function applyByteBudget(judged: readonly Judged[], maxBytes: number | null): void {
  if (maxBytes === null) return;
  const staying = judged.filter((one) => !goes(one));
  let total = staying.reduce((sum, one) => sum + one.checkpoint.size.added, 0);
  const drop = (one: Judged): void => {
    if (total <= maxBytes || one.fate.kind !== "kept" || one.leaners > 0 || one.checkpoint.size.added === 0) return;
    one.fate = { kind: "dropped", why: `the store is over its ${maxBytes} bytes and this is the oldest that may go` };
    total -= one.checkpoint.size.added;
    const { witness } = one;
    if (witness === null) return;
    witness.leaners -= 1;
    if (goes(witness)) total -= witness.checkpoint.size.added;
    else drop(witness);
  };
  for (const one of staying.toSorted(byTime)) drop(one);
}

function goes(one: Judged): boolean {
  return one.fate.kind === "dropped" && one.leaners === 0;
}

function decide(one: Judged): RetentionDecision {
  const { sequence, size } = one.checkpoint;
  if (goes(one)) return { action: "drop", sequence, why: one.fate.why, bytes: size.added };
  const reasons = one.fate.kind === "dropped" ? [] : [one.fate.why];
  if (one.leaners > 0) reasons.push("it shows that the clock was set back before a later one");
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
