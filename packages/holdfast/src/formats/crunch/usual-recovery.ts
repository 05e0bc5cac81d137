import type { Graph } from "../../core/graph.ts";
import { readyNodes } from "../../core/graph-state.ts";
import type { JsonObject } from "../../core/json.ts";

/**
 * How a run goes on when nothing speaks against it. A node's id where there is one: a place in a numbering, as crunch
 * has it, means nothing once the graph has changed.
 */
export function usualRecovery(position: { readonly stage: string; readonly graph: Graph | null }): JsonObject {
  const { graph, stage } = position;
  const [ready] = graph === null ? [] : readyNodes(graph, { limit: Number.POSITIVE_INFINITY });
  return { can_resume: true, resume_from: ready ?? stage, prerequisites_met: true, warnings: [] };
}
