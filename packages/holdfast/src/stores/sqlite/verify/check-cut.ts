import type { Handle } from "../handle.ts";
import { readWitness } from "../witness/witness.ts";
import type { Testimony } from "../witness/witness.ts";
import { HoldfastError } from "../../../core/error.ts";

/** Of so many newest runs the end is compared at every opening; of all of them by verify. */
const LOOK_AT = 1024;

/**
 * STORE_CUT when the database is behind what the witness saw. A witness that is gone or damaged blocks nobody. The
 * witness is read first: others go on committing, and a look at the database from before would be behind it.
 */
export function checkCut(handle: Handle): void {
  const file = readWitness(handle.layout.witness);
  if (file.kind !== "read" || file.storeId !== handle.storeId) return;
  const newest = [...file.runs.entries()].slice(-LOOK_AT);
  handle.transactions.read(() => {
    for (const [no, testimony] of newest) {
      if (agrees(handle, no, testimony)) continue;
      const why = contradiction(handle, no, testimony);
      if (why !== null) throw cut(handle, why, no);
    }
  });
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

function cut(handle: Handle, why: string, run: number): HoldfastError {
  const { directory, witness } = handle.layout;
  return new HoldfastError({
    code: "STORE_CUT",
    message: `The store ${directory} is older or shorter than it was: ${why}`,
    hint: `Restore the whole directory from one backup. To accept the loss and go on with what is there, remove ${witness}.`,
    data: { location: directory, run },
  });
}
