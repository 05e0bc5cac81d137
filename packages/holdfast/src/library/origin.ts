import type { CheckpointStore } from "./checkpoint-store.ts";
import type { Checkpoint } from "./checkpoint.ts";

/** Which store a checkpoint was read from or saved in, so that what is restored from it goes on there. */
const origins = new WeakMap<Checkpoint, CheckpointStore>();

export function rememberOrigin(checkpoint: Checkpoint, store: CheckpointStore): Checkpoint {
  origins.set(checkpoint, store);
  return checkpoint;
}

/** null for those made by hand or from a document. */
export function originOf(checkpoint: Checkpoint): CheckpointStore | null {
  return origins.get(checkpoint) ?? null;
}
