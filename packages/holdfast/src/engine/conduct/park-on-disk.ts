import { HoldfastError } from "../../core/error.ts";
import type { RunParked } from "../../core/journal/journal.ts";
import type { Lease } from "../../core/lease/lease.ts";
import type { RunOutcome } from "../outcome.ts";
import type { Parts } from "../parts.ts";

/**
 * A full disk, of the store, of git or of the worktree: work has stopped as after a crash, so nothing is half on record. One small entry often
 * still fits where files do not; then the run is parked and says so. Where not even that fits, the error does, and the run stays
 * as its journal has it. Either way, a resume goes on once there is room. Anything else is thrown on.
 */
export async function parkOnDisk(parts: Parts, lease: Lease, error: unknown): Promise<RunOutcome> {
  if (!(error instanceof HoldfastError) || error.code !== "DISK_FULL") throw error;
  const reason = `The disk is full: ${error.message}`;
  const body: RunParked = { on: "disk", reason, until: null };
  try {
    await parts.store.commit({ lease, entries: [{ kind: "run.parked", body: { ...body } }] });
  } catch {
    throw new HoldfastError({
      code: "DISK_FULL",
      message: error.message,
      hint: `Nothing that was finished is lost. Free some space, then: \`holdfast resume ${lease.run}\`.`,
      retry: "later",
      data: error.data,
      cause: error,
    });
  }
  return { kind: "parked", on: "disk", reason, until: null };
}
