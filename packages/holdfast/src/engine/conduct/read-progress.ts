import type { Checkpoint } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import type { Progress } from "../../core/journal/progress-fold.ts";
import type { Parts } from "../parts.ts";
import { readStanding } from "./standing.ts";

/** Replay: the newest checkpoint, and what the journal says since. Reads only. */
export async function readProgress(
  parts: Pick<Parts, "store">,
  run: string,
): Promise<{ readonly newest: Checkpoint; readonly top: number; readonly progress: Progress }> {
  const newest = await parts.store.latest(run);
  if (newest === undefined) {
    throw new HoldfastError({
      code: "NOTHING_TO_RESUME",
      message: `Run ${run} has no checkpoint to go on from`,
      hint: "Begin it again under the same id: what is there is kept.",
    });
  }
  const progress = await readStanding(parts.store, newest);
  const [top] = await parts.store.listCheckpoints({ run, limit: 1 });
  return { newest, top: top?.sequence ?? newest.sequence, progress };
}
