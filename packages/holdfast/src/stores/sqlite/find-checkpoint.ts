import type { Handle } from "./handle.ts";
import type { CheckpointColumns, LogRow } from "./log.ts";
import { checkpointId } from "./summary.ts";
import type { Tombstones } from "./sweep/tombstones.ts";
import { HoldfastError } from "@holdfast/platform/error";
import { checkpointDropped, checkpointNotFound } from "@holdfast/core/store";
import type { Run } from "@holdfast/core/run";

export interface FoundCheckpoint {
  readonly row: LogRow;
  readonly columns: CheckpointColumns;
}

/** CHECKPOINT_NOT_FOUND, or CHECKPOINT_DROPPED with what the tombstone says. */
export function findCheckpoint(
  handle: Pick<Handle, "places" | "log">,
  tombstones: Tombstones,
  run: { readonly no: number; readonly run: Run },
  sequence: number,
): FoundCheckpoint {
  const id = checkpointId(run.run.id, sequence);
  const pos = handle.places.mark(run.no, sequence);
  if (pos === undefined) {
    const stone = tombstones.get(run.no, sequence);
    if (stone === undefined) throw checkpointNotFound(id);
    throw checkpointDropped({ id, droppedAt: new Date(stone.at).toISOString(), why: stone.why });
  }
  return checkpointAt(handle, pos);
}

export function checkpointAt(handle: Pick<Handle, "log">, pos: number): FoundCheckpoint {
  const row = handle.log.get(pos);
  if (row?.checkpoint) return { row, columns: row.checkpoint };
  throw new HoldfastError({
    code: "STORE_CORRUPT",
    message: `The log has no checkpoint at position ${pos} although its index says so`,
    hint: "Run `holdfast verify` to see what is still whole.",
    data: { pos },
  });
}
