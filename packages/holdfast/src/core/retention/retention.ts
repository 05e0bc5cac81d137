import type { CheckpointSummary } from "../checkpoint/checkpoint.ts";
import { HoldfastError } from "../error.ts";
import type { RunState } from "../run/run.ts";
import type { Trigger } from "../checkpoint/trigger.ts";

/** How many to keep: a number, or all of them. Never a sentinel. */
export type Keep = number | "all";

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
