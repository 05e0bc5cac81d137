import type { Handle } from "../handle.ts";
import type { Layout } from "../layout.ts";
import { type Testimony, readWitness } from "../witness/witness.ts";
import { HoldfastError } from "@holdfast/platform/error";
import type { CutRun } from "@holdfast/core/store";

/** Of so many newest runs the end is compared at every opening; of all of them by verify. */
const LOOK_AT = 1024;

/**
 * Runs of which the database is behind what the witness saw. A witness that is gone or damaged blocks no reader. The
 * witness is read first: other processes commit meanwhile, and a look at the database from before would be behind it.
 * `damaged`: what becomes of a run that cannot be read; a reader skips it, and finds the damage when it reads the run.
 */
export function findCuts(handle: Handle, damaged: "throw" | "skip"): readonly CutRun[] {
  const file = readWitness(handle.layout.witness);
  if (file.kind !== "read" || file.storeId !== handle.storeId) return [];
  const newest = [...file.runs.entries()].slice(-LOOK_AT);
  return handle.transactions.read(() =>
    newest.flatMap(([no, testimony]) => {
      try {
        const why = agrees(handle, no, testimony) ? null : contradiction(handle, no, testimony);
        if (why === null) return [];
        return [{ number: no, run: handle.runs.byNumber(no)?.run.id ?? null, why }];
      } catch (error) {
        if (damaged === "throw") throw error;
        return [];
      }
    }),
  );
}

function agrees(handle: Handle, no: number, testimony: Testimony): boolean {
  const pos = handle.places.entry(no, testimony.entry);
  return pos !== undefined && handle.log.hash(pos) === testimony.hash;
}

/** What the database says against the witness; null when it agrees. Only inside a read. */
export function contradiction(handle: Handle, no: number, testimony: Testimony): string | null {
  const row = handle.runs.byNumber(no);
  if (row === undefined) return `run number ${no} with ${testimony.entry} journal entries is gone`;
  const end = handle.places.lastEntry(no)?.number ?? 0;
  if (end < testimony.entry)
    return `the journal of ${row.run.id} ends with entry ${end}, but entry ${testimony.entry} was written`;
  return agrees(handle, no, testimony)
    ? null
    : `entry ${testimony.entry} of ${row.run.id} is not the one that was written`;
}

export function cutError({ directory, witness }: Layout, { why, number: run }: CutRun): HoldfastError {
  return new HoldfastError({
    code: "STORE_CUT",
    message: `The store ${directory} is older or shorter than it was: ${why}`,
    hint: `Restore the whole directory from one backup. To accept the loss and go on with what is there, remove ${witness}.`,
    data: { location: directory, run },
  });
}
