import type { Handle } from "./handle.ts";
import type { Quarantine } from "./verify/quarantine.ts";
import { type RunRow, foldOf } from "./runs.ts";
import { checkpointAt } from "./find-checkpoint.ts";
import { deepFreeze } from "@holdfast/core/json";
import type { RunSummary } from "@holdfast/core/run";
import { unfinishedTarget } from "@holdfast/core/status";

export function summarise(handle: Handle, quarantine: Quarantine, row: RunRow): RunSummary {
  const newest = newestMark(handle, row.no);
  const fold = foldOf(row);
  return deepFreeze({
    ...row.run,
    state: fold.state,
    unfinishedRestore: unfinishedTarget(fold),
    checkpoints: newest - row.dropped,
    latest: latestOf(handle, quarantine, row.no),
    entries: handle.places.lastEntry(row.no)?.number ?? 0,
  });
}

function newestMark(handle: Handle, no: number): number {
  for (const { number: sequence } of handle.places.marksDown(no)) return sequence;
  return 0;
}

function latestOf(handle: Handle, quarantine: Quarantine, no: number): RunSummary["latest"] {
  for (const { number: sequence, pos } of handle.places.marksDown(no)) {
    if (quarantine.has(no, sequence)) continue;
    const { row, columns } = checkpointAt(handle, pos);
    return { sequence, createdAt: new Date(row.at).toISOString(), stage: columns.stage, iteration: columns.iteration };
  }
  return null;
}
