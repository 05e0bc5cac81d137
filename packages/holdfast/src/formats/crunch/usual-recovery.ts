import type { Graph } from "../../core/graph.ts";
import { readyNodes, stateOf } from "../../core/graph-state.ts";
import type { JsonObject } from "../../core/json.ts";

/**
 * How a run goes on when nothing speaks against it. A node's id where there is one: a place in a numbering, as crunch
 * has it, means nothing once the graph has changed. What had begun comes before what may begin.
 */
export function usualRecovery(position: { readonly stage: string; readonly graph: Graph | null }): JsonObject {
  const { graph, stage } = position;
  const [begun] = graph === null ? [] : graph.nodes.filter(({ id }) => BEGUN.has(stateOf(graph, id).status));
  const [ready] = graph === null ? [] : readyNodes(graph, { limit: Number.POSITIVE_INFINITY });
  return { can_resume: true, resume_from: begun?.id ?? ready ?? stage, prerequisites_met: true, warnings: [] };
}

const BEGUN: ReadonlySet<string> = new Set(["running", "unknown"]);
