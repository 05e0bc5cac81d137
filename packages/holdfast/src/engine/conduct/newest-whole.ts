import type { Checkpoint } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import type { Store } from "../../ports/store.ts";
import { allCheckpoints } from "../upkeep/all-checkpoints.ts";

/**
 * The newest checkpoint that the store can give back, and the sequences of newer ones that it cannot. For those who look: one
 * damaged page must not hide everything else that is known of a run.
 */
export async function newestWhole(
  store: Store,
  run: string,
): Promise<{ readonly checkpoint: Checkpoint | undefined; readonly damaged: readonly number[] }> {
  const damaged: number[] = [];
  for await (const { sequence, quarantined } of allCheckpoints(store, run)) {
    try {
      if (!quarantined) return { checkpoint: await store.getCheckpoint({ run, sequence }), damaged };
    } catch (error) {
      if (!(error instanceof HoldfastError) || error.code !== "STORE_CORRUPT") throw error;
      damaged.push(sequence);
    }
  }
  return { checkpoint: undefined, damaged };
}
