// Sample and random graphs for tests.

import fc from "fast-check";
import type { Graph, GraphEdge, GraphNode, Priority } from "@holdfast/core/graph";

/** A node for tests of graphs, with defaults for everything that a case does not need. */
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

/** For property tests: any small graph, with every kind of edge, priority, retry and idempotence. */
export function someGraph(params: { readonly maxNodes: number }): fc.Arbitrary<Graph> {
  return fc
    .array(
      fc.record({
        to: fc.array(fc.nat(), { maxLength: 3 }),
        priority: fc.constantFrom(...PRIORITIES),
        retries: fc.nat(1),
        idempotent: fc.boolean(),
      }),
      { minLength: 1, maxLength: params.maxNodes },
    )
    .map((all) =>
      sampleGraph(
        all.map(({ to, ...more }, index) =>
          sampleNode(nodeName(index), index === 0 ? [] : to.slice(1).map((one) => nodeName(one % index)), more),
        ),
        all.flatMap(({ to }, index) => edgeTo(index, to[0])),
      ),
    );
}

const PRIORITIES: readonly Priority[] = ["critical", "high", "normal", "normal", "low"];

/** One name is "__proto__", which a careless object lookup would mistake for its prototype. */
function nodeName(index: number): string {
  return index === 1 ? "__proto__" : `n${index}`;
}

function edgeTo(index: number, seed: number | undefined): readonly GraphEdge[] {
  if (index === 0 || seed === undefined) return [];
  const ends = { from: nodeName(seed % index), to: nodeName(index) };
  return [seed % 2 === 0 ? { ...ends, type: "sequence" } : { ...ends, type: "approval", by: "qa", approvedAt: null }];
}
