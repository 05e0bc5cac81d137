import type { Graph, Priority } from "./graph.ts";
import { predecessorsOf } from "./graph-order.ts";
import { stateOf } from "./graph-state.ts";

/**
 * The node that a resumed run goes on with: what was running or is unknown, or what nothing holds back, most urgent first, then in the order of the
 * definition. An id and no position, so that it means the same after nodes were added. null: all is over, or everything waits for an approval.
 */
export function resumePoint(graph: Graph): string | null {
  const before = predecessorsOf(graph);
  const held = new Set(
    graph.edges.filter((edge) => edge.type === "approval" && edge.approvedAt === null).map(({ to }) => to),
  );
  const isNext = (id: string): boolean => {
    const { status } = stateOf(graph, id);
    if (status === "running" || status === "unknown") return true;
    if ((status !== "pending" && status !== "queued") || held.has(id)) return false;
    return [...(before.get(id) ?? [])].every((earlier) => stateOf(graph, earlier).status === "complete");
  };
  let best: { readonly id: string; readonly rank: number } | null = null;
  for (const { id, priority } of graph.nodes) {
    const rank = RANKS[priority];
    if ((best === null || rank < best.rank) && isNext(id)) best = { id, rank };
  }
  return best?.id ?? null;
}

const RANKS: Readonly<Record<Priority, number>> = { critical: 0, high: 1, normal: 2, low: 3 };
