// The harness of the store contract, and the sample data of its cases.

import assert from "node:assert/strict";
import { type Planes, emptyPlanes } from "@holdfast/core/checkpoint";
import type { JsonObject } from "@holdfast/core/json";
import type { Lease, LeaseOwner } from "@holdfast/core/lease";
import type { Committed, NewCheckpoint, Store } from "@holdfast/core/store";
import type { Clock } from "@holdfast/platform/clock";

/** One store under test, fresh for each case. */
export interface StoreHarness {
  /** Another handle on the same store. It acquires leases as `identity`, by default as this process. */
  open(identity?: OwnerIdentity): Promise<Store>;
  /** The clock of every handle. It moves only when a case sets it. */
  readonly clock: SetClock;
}

export type OwnerIdentity = Pick<LeaseOwner, "host" | "pid" | "started" | "boot">;

export interface StoreCase {
  readonly name: string;
  run(harness: StoreHarness): Promise<void>;
}

export interface SetClock extends Clock {
  set(iso: string): void;
}

export function createSetClock(iso = "2026-03-01T12:00:00.000Z"): SetClock {
  let now = Date.parse(iso);
  return {
    now: () => now,
    set(next) {
      now = Date.parse(next);
    },
  };
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

export function assertFrozen(value: unknown, path = "result"): void {
  if (typeof value !== "object" || value === null) return;
  assert.ok(Object.isFrozen(value), `${path} is not frozen`);
  for (const [key, part] of Object.entries(value)) assertFrozen(part, `${path}.${key}`);
}

interface SamplePlanes {
  readonly values?: JsonObject;
  readonly stage?: string;
  readonly iteration?: number;
  readonly score?: number | null;
  readonly tree?: string;
}

/** Planes that contain little besides what a case needs. */
export function samplePlanes(params: SamplePlanes = {}): Planes {
  const empty = emptyPlanes({ workflow: "sample", stage: params.stage ?? "work" });
  return {
    ...empty,
    position: { ...empty.position, iteration: params.iteration ?? 1, score: params.score ?? null },
    context: { ...empty.context, values: params.values ?? {} },
    files: params.tree === undefined ? null : sampleFiles(params.tree),
    inputs: { ...empty.inputs, task: "sample" },
  };
}

function sampleFiles(tree: string): NonNullable<Planes["files"]> {
  return {
    tree,
    snapshot: "c".repeat(40),
    ref: "refs/holdfast/sample/1",
    worktree: "/sample",
    head: null,
    branch: null,
    base: null,
    artifacts: [],
    artifactCount: 0,
    skipped: [],
    nested: [],
    index: null,
    operation: null,
  };
}

export async function leasedRun(store: Store, run = "sample"): Promise<Lease> {
  await store.createRun({ id: run, workflow: "sample", work: { kind: "none" } });
  return store.takeLease({ run, label: "sample writer" });
}

export function save(
  store: Store,
  lease: Lease,
  params: SamplePlanes & Partial<Omit<NewCheckpoint, "planes">> = {},
): Promise<Committed> {
  const { values, stage, iteration, score, tree, ...rest } = params;
  const planes = samplePlanes({
    ...(values === undefined ? {} : { values }),
    ...(stage === undefined ? {} : { stage }),
    ...(iteration === undefined ? {} : { iteration }),
    ...(score === undefined ? {} : { score }),
    ...(tree === undefined ? {} : { tree }),
  });
  return store.commit({ lease, checkpoint: { trigger: "manual", ...rest, planes } });
}
