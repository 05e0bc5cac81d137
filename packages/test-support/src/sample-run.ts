// Sample data for tests of views: one page, one run and one checkpoint, which a test changes as needed.

import { type Checkpoint, type CheckpointSummary, type Planes, emptyPlanes } from "@holdfast/core/checkpoint";
import type { RunSummary } from "@holdfast/core/run";
import type { Holder, RunStatus } from "@holdfast/core/status";
import type { Page } from "../../holdfast/src/cli/output/page.ts";

const NOW = Date.parse("2026-11-15T12:00:00Z");
export const PAGE: Page = { width: 80, color: false, terminal: true, now: NOW, offset: () => 0, program: "holdfast" };

export function sampleSummary(changes: Partial<CheckpointSummary> = {}): CheckpointSummary {
  const run = changes.run ?? "fix-login";
  const sequence = changes.sequence ?? 7;
  return {
    id: `${run}@${sequence}`,
    run,
    sequence,
    entry: 20,
    parent: { id: `${run}@${sequence - 1}`, digest: "ab".repeat(32) },
    trigger: "manual",
    name: null,
    createdAt: "2026-11-15T11:55:00.000Z",
    stage: "implement",
    iteration: 2,
    score: null,
    tree: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    tags: [],
    size: { logical: 2048, added: 512 },
    digest: "cd".repeat(32),
    quarantined: false,
    ...changes,
  };
}

export function samplePlanes(changes: Partial<Planes> = {}): Planes {
  const empty = emptyPlanes({ workflow: "impl", stage: "implement" });
  return {
    ...empty,
    position: { ...empty.position, iteration: 2 },
    context: { ...empty.context, values: { plan: "a", step: 3 } },
    ...changes,
  };
}

export function sampleCheckpoint(changes: Partial<Checkpoint> = {}): Checkpoint {
  return { ...sampleSummary(changes), planes: changes.planes ?? samplePlanes() };
}

export function sampleRun(changes: Partial<RunSummary> = {}): RunSummary {
  return {
    id: "fix-login",
    createdAt: "2026-11-15T10:00:00.000Z",
    workflow: "impl",
    work: { kind: "issue", number: 42 },
    forkedFrom: null,
    labels: {},
    unfinishedRestore: null,
    state: { kind: "active" },
    checkpoints: 7,
    latest: { sequence: 7, createdAt: "2026-11-15T11:55:00.000Z", stage: "implement", iteration: 2 },
    entries: 31,
    ...changes,
  };
}

export const sampleHolder: Holder = {
  label: "holdfast run 42",
  pid: 4711,
  host: "laptop",
  epoch: 3,
  takenAt: "2026-11-15T11:40:00.000Z",
  heartbeatAt: "2026-11-15T11:59:50.000Z",
};

type Running = Extract<RunStatus, { readonly kind: "running" }>;

export function sampleRunning(changes: Partial<Running> = {}): Running {
  const calm = { starting: false, finishing: false, stopping: null, silentSince: null, suspended: false } as const;
  return { kind: "running", holder: sampleHolder, ...calm, hostKnown: true, ...changes };
}
