// Compact samples of checkpoints and runs for tests of retention.

import type { CheckpointSummary, Trigger } from "@holdfast/core/checkpoint";
import type { RetentionPlan, RetentionSubject } from "@holdfast/core/retention";

export const DAY = 86_400_000;
export const NOW = Date.parse("2026-06-01T00:00:00Z");
export const iso = (ms: number): string => new Date(ms).toISOString();

export interface Some {
  readonly sequence: number;
  readonly trigger?: Trigger;
  readonly stage?: string;
  readonly days?: number;
  readonly score?: number | null;
  readonly tags?: readonly string[];
  readonly added?: number;
  readonly run?: string;
}

export function checkpoint(some: Some): CheckpointSummary {
  const run = some.run ?? "r";
  return {
    id: `${run}@${some.sequence}`,
    run,
    sequence: some.sequence,
    entry: some.sequence,
    parent: null,
    trigger: some.trigger ?? "automatic",
    name: null,
    createdAt: iso(NOW - (some.days ?? 0) * DAY),
    stage: some.stage ?? "impl",
    iteration: 1,
    score: some.score ?? null,
    tree: null,
    tags: some.tags ?? [],
    size: { logical: 1000, added: some.added ?? 100 },
    digest: "",
    quarantined: false,
  };
}

export function subject(checkpoints: readonly Some[], more: Partial<RetentionSubject> = {}): RetentionSubject {
  const summaries = checkpoints.map((some) => checkpoint({ ...some, run: more.run ?? some.run ?? "r" }));
  return {
    run: "r",
    state: { kind: "active" },
    checkpoints: summaries,
    pinned: new Map(),
    resumable: new Set(summaries.map((one) => one.sequence)),
    ...more,
  };
}

/** Sequences that the plan keeps. */
export function kept(plan: RetentionPlan | undefined): readonly number[] {
  return (plan?.decisions ?? []).filter((one) => one.action === "keep").map((one) => one.sequence);
}
