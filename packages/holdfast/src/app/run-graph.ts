import type { Checkpoint } from "../core/checkpoint.ts";
import { HoldfastError } from "../core/error.ts";
import type { Graph } from "../core/graph.ts";
import type { Moment } from "../core/graph-picture.ts";
import type { JournalEntry } from "../core/journal.ts";
import { foldProgress } from "../core/progress-fold.ts";
import type { Condition } from "./run-status.ts";

/** The graph as it stands now: that of the newest checkpoint, and what the journal tells since. Looking must not fail. */
export function graphNow(
  newest: Pick<Checkpoint, "sequence" | "planes">,
  since: readonly Pick<JournalEntry, "run" | "entry" | "kind" | "body">[],
): Graph | null {
  const { position } = newest.planes;
  try {
    return foldProgress({ position, sequence: newest.sequence, entries: since }).position.graph;
  } catch (error) {
    // An entry that cannot be read is for verify to tell.
    if (error instanceof HoldfastError) return position.graph;
    throw error;
  }
}

/** Nobody runs the nodes of a run that nobody carries, whatever their states say. */
export function momentOf(params: {
  readonly condition: Condition;
  readonly now: number;
  readonly lastEntryAt: string | null;
}): Moment {
  const { condition, now, lastEntryAt } = params;
  const live = condition.kind === "running" || condition.kind === "held";
  const heartbeat = condition.kind === "crashed" ? condition.lease.heartbeatAt : null;
  const later = heartbeat !== null && (lastEntryAt === null || Date.parse(heartbeat) > Date.parse(lastEntryAt));
  return { live, now, seenAt: later ? heartbeat : lastEntryAt };
}
