import type { Checkpoint } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";
import type { Graph } from "../../core/graph/graph.ts";
import { pictureGraph } from "../../core/graph/graph-picture.ts";
import type { GraphPicture, Moment } from "../../core/graph/graph-picture.ts";
import type { JournalEntry } from "../../core/journal/journal.ts";
import { loadState } from "../../core/state.ts";
import type { StateEntry } from "../../core/state.ts";
import type { RunHandle } from "../../engine/run-handle.ts";
import { conditionOf } from "./run-condition.ts";
import type { Condition } from "./run-condition.ts";

/**
 * The graph of a run alone, with the picture that `status` gives of it; null when it has none. Asks neither git nor the journal before the newest
 * checkpoint, so that a live view can look often.
 */
export async function readGraph(
  handle: RunHandle,
  now: number,
): Promise<{ readonly graph: Graph; readonly picture: GraphPicture } | null> {
  const [run, holder, { checkpoint }] = await Promise.all([handle.summary(), handle.holder(), handle.newestWhole()]);
  if (checkpoint === undefined) return null;
  const since = await Array.fromAsync(handle.log({ after: checkpoint.entry }));
  const graph = graphNow(checkpoint, since);
  if (graph === null) return null;
  const lastEntryAt = since.findLast(isSignOfLife)?.at ?? checkpoint.createdAt;
  const condition = conditionOf({ run, holder, question: null, worked: true });
  return { graph, picture: pictureGraph(graph, momentOf({ condition, now, lastEntryAt })) };
}

/** Tags and drops need no lease: anybody may have written them. */
export function isSignOfLife({ epoch }: Pick<JournalEntry, "epoch">): boolean {
  return epoch > 0;
}

/** The graph as it stands now: that of the newest checkpoint, and what the journal tells since. Looking must not fail. */
export function graphNow(
  newest: Pick<Checkpoint, "run" | "sequence" | "planes">,
  since: readonly StateEntry[],
): Graph | null {
  const { position } = newest.planes;
  try {
    const entries = since.filter(({ kind }) => GRAPH_KINDS.has(kind));
    const { state } = loadState({ run: newest.run, checkpoint: newest, entries, effects: [], apply: null });
    return state.position.graph;
  } catch (error) {
    // An entry that cannot be read is for verify to tell.
    if (error instanceof HoldfastError) return position.graph;
    throw error;
  }
}

/** A newer checkpoint that cannot be used means that the entries do not count. */
const GRAPH_KINDS: ReadonlySet<string> = new Set(["graph.set", "graph.moved", "checkpoint"]);

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
