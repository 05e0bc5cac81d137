import type { MemoryCheckpoint, MemoryRun } from "./world.ts";
import type { Checkpoint, CheckpointSummary } from "../../core/checkpoint/checkpoint.ts";
import { deepFreeze } from "../../core/deep-freeze.ts";
import { checkpointDropped, checkpointNotFound } from "../../core/refusals.ts";
import type { RunSummary } from "../../core/run/run.ts";
import { unfinishedTarget } from "../../core/journal/run-fold.ts";

export function sequencesDown(run: MemoryRun): readonly number[] {
  return [...run.checkpoints.keys()].sort((a, b) => b - a);
}

export function checkpointOf(run: MemoryRun, sequence: number): MemoryCheckpoint {
  const found = run.checkpoints.get(sequence);
  if (found !== undefined) return found;
  const stone = run.tombstones.get(sequence);
  const id = `${run.run.id}@${sequence}` as const;
  throw stone === undefined
    ? checkpointNotFound(id)
    : checkpointDropped({ id, droppedAt: stone.droppedAt, why: stone.why });
}

export function withMarks(run: MemoryRun, summary: CheckpointSummary): CheckpointSummary {
  const tags = [...run.tags].filter(([, sequence]) => sequence === summary.sequence).map(([name]) => name);
  const quarantined = run.quarantined.has(summary.sequence);
  return tags.length === 0 && !quarantined ? summary : deepFreeze({ ...summary, tags: tags.sort(), quarantined });
}

export function wholeOf(run: MemoryRun, sequence: number): Checkpoint {
  const { summary, planes } = checkpointOf(run, sequence);
  return Object.freeze({ ...withMarks(run, summary), planes });
}

export function summaryOfRun(run: MemoryRun): RunSummary {
  const newest = sequencesDown(run).find((sequence) => !run.quarantined.has(sequence));
  const latest = newest === undefined ? undefined : run.checkpoints.get(newest)?.summary;
  return deepFreeze({
    ...run.run,
    state: run.fold.state,
    unfinishedRestore: unfinishedTarget(run.fold),
    checkpoints: run.checkpoints.size,
    latest:
      latest === undefined
        ? null
        : { sequence: latest.sequence, createdAt: latest.createdAt, stage: latest.stage, iteration: latest.iteration },
    entries: run.entries.length,
  });
}
