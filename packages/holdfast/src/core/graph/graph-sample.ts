import type { Graph, GraphEdge, GraphNode } from "./graph.ts";

/** For the tests of graphs: nodes that hold little but what a case is about. */
export function sampleNode(
  id: string,
  dependencies: readonly string[] = [],
  changes: Partial<GraphNode> = {},
): GraphNode {
  return {
    id,
    agent: "dev",
    action: "implement",
    dependencies,
    priority: "normal",
    timeoutMs: null,
    retries: 0,
    idempotent: true,
    outputs: [],
    ...changes,
  };
}

export function sampleGraph(nodes: readonly GraphNode[], edges: readonly GraphEdge[] = []): Graph {
  return { id: "g", nodes, edges, states: {}, meta: {} };
}
