import type { CheckpointSummary } from "../../core/checkpoint/checkpoint.ts";
import type { Trigger } from "../../core/checkpoint/trigger.ts";
import { checkpointPlace, secondPlace } from "./places.ts";
import type { Placed } from "./places.ts";
import { foreignTrigger } from "./triggers.ts";

export type FiledCheckpoint = Pick<
  CheckpointSummary,
  "sequence" | "iteration" | "createdAt" | "trigger" | "tags" | "quarantined"
>;

export interface LoopFile<T> {
  readonly checkpoint: T;
  /** Below the root: `.aiwg/ralph/loops/…` or `.aiwg/checkpoints/…`. */
  readonly path: string;
}

/**
 * Which checkpoints of a run are files of the layout, and under which names, in the order in which to write them.
 *
 * In a loop's directory `iteration-NNN` is the newest checkpoint of that iteration. An earlier one that a person asked for, that was
 * taken before a risk or for a recovery, or that has a tag, stands beside it as `checkpoint-N-TIME`; of the others the newer one says all.
 * A run that went back to an earlier iteration has left those after it: they stand beside too, so that the highest `iteration-NNN` is always
 * the run's newest checkpoint. Without a loop id every checkpoint is a file of its own.
 *
 * What stands beside comes first: whoever is stopped in between has a checkpoint twice, and never not at all.
 */
export function planLoopFiles<T extends FiledCheckpoint>(params: {
  readonly loopId: string | null;
  readonly workflowId: string;
  readonly checkpoints: readonly T[];
}): readonly LoopFile<T>[] {
  const { loopId, workflowId } = params;
  const whole = params.checkpoints
    .filter(({ quarantined }) => !quarantined)
    .toSorted((a, b) => a.sequence - b.sequence);
  const placed = (checkpoint: T): Placed => ({
    loopId,
    workflowId,
    iteration: checkpoint.iteration,
    createdAt: checkpoint.createdAt,
    trigger: foreignTrigger(checkpoint.trigger),
    compression: "gzip",
  });
  if (loopId === null) return named(whole, placed, checkpointPlace);
  const { holders, beside } = sortOut(whole);
  return [
    ...named(beside, placed, (one) => secondPlace(one) ?? checkpointPlace(one)),
    ...holders.map((checkpoint) => ({ checkpoint, path: checkpointPlace(placed(checkpoint)) })),
  ];
}

/** Both in the order of sequences; of the holders that is the order of iterations, too. */
function sortOut<T extends FiledCheckpoint>(
  ordered: readonly T[],
): { readonly holders: readonly T[]; readonly beside: readonly T[] } {
  let holders: readonly T[] = [];
  const beside: T[] = [];
  for (const checkpoint of ordered) {
    const { iteration } = checkpoint;
    beside.push(...holders.filter((one) => one.iteration > iteration || (one.iteration === iteration && stays(one))));
    holders = [...holders.filter((one) => one.iteration < iteration), checkpoint];
  }
  return { holders, beside: beside.toSorted((a, b) => a.sequence - b.sequence) };
}

const STAYING: ReadonlySet<Trigger> = new Set(["manual", "before_risky", "error_recovery", "before_restore"]);

function stays({ trigger, tags }: FiledCheckpoint): boolean {
  return tags.length > 0 || STAYING.has(trigger);
}

/** Two of one millisecond would have one name: the later is named as if it were a millisecond younger, and so on. */
function named<T extends FiledCheckpoint>(
  checkpoints: readonly T[],
  placedOf: (checkpoint: T) => Placed,
  nameOf: (placed: Placed) => string,
): readonly LoopFile<T>[] {
  const taken = new Set<string>();
  return checkpoints.map((checkpoint) => {
    const placed = placedOf(checkpoint);
    const time = Date.parse(placed.createdAt);
    const at = Number.isNaN(time) ? 0 : time;
    for (let later = 0; ; later += 1) {
      const path = nameOf({ ...placed, createdAt: new Date(at + later).toISOString() });
      if (taken.has(path)) continue;
      taken.add(path);
      return { checkpoint, path };
    }
  });
}
