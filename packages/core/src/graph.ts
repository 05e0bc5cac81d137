// The task graph: its types, validation, order of execution and critical path.
import { usageError } from "@holdfast/platform/error";
import type { Json, JsonObject } from "./json.ts";

export type NodeStatus = "pending" | "queued" | "running" | "complete" | "failed" | "skipped" | "unknown";
export type Priority = "critical" | "high" | "normal" | "low";

export interface GraphNode {
  readonly id: string;
  readonly agent: string;
  readonly action: string;
  readonly dependencies: readonly string[];
  readonly priority: Priority;
  readonly timeoutMs: number | null;
  /** How often the node may be restarted after a failure. */
  readonly retries: number;
  /** True when the node may run again if it is unknown whether it ran. */
  readonly idempotent: boolean;
  readonly outputs: readonly string[];
}

/** Every edge orders its ends. An approval also blocks `to` until `by` has approved. */
export type GraphEdge =
  | { readonly from: string; readonly to: string; readonly type: "data"; readonly key: string }
  | { readonly from: string; readonly to: string; readonly type: "sequence" }
  | {
      readonly from: string;
      readonly to: string;
      readonly type: "approval";
      readonly by: string;
      readonly approvedAt: string | null;
    };

export interface NodeState {
  readonly status: NodeStatus;
  /** Number of starts since the node last became pending. */
  readonly attempt: number;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  /** The node's output; `{error}` of its last failure; `{skipped, cause}` when skipped. */
  readonly result: Json;
  /** Total number of unsuccessful starts. It is never reset, not even by a replay, so names built from it are unique. Absent: 0. */
  readonly tries?: number;
  /** Number of timeouts since the node last became pending. Absent: 0. */
  readonly timeouts?: number;
}

/** Definition and states together, so that a graph restored from a checkpoint can continue. */
export interface Graph {
  readonly id: string;
  readonly nodes: readonly GraphNode[];
  readonly edges: readonly GraphEdge[];
  /** A node without a state is pending. */
  readonly states: Readonly<Record<string, NodeState>>;
  readonly meta: JsonObject;
}

type GraphProblem =
  | { readonly kind: "duplicate_node"; readonly node: string }
  | { readonly kind: "unknown_node"; readonly node: string; readonly wantedBy: string }
  /** a → b → a: the first node is repeated at the end. */
  | { readonly kind: "cycle"; readonly path: readonly string[] };

type GraphShape = Pick<Graph, "nodes" | "edges" | "states">;

/** Returns every problem, not only the first one. A graph without problems can be ordered. */
export function validateGraph(graph: GraphShape): readonly GraphProblem[] {
  const problems: GraphProblem[] = [];
  const ids = new Set<string>();
  for (const { id } of graph.nodes) {
    if (ids.has(id)) problems.push({ kind: "duplicate_node", node: id });
    ids.add(id);
  }
  const want = (node: string, wantedBy: string): void => {
    if (!ids.has(node)) problems.push({ kind: "unknown_node", node, wantedBy });
  };
  for (const node of graph.nodes) for (const dependency of node.dependencies) want(dependency, `node ${node.id}`);
  for (const edge of graph.edges) {
    want(edge.from, `the ${edge.type} edge to ${edge.to}`);
    want(edge.to, `the ${edge.type} edge from ${edge.from}`);
  }
  for (const id of Object.keys(graph.states)) want(id, "the states");
  const { stuck } = layers(graph);
  if (stuck.size > 0) problems.push({ kind: "cycle", path: findCycle(graph, stuck) });
  return problems;
}

/** Throws USAGE with all problems. */
export function checkGraph(graph: GraphShape): void {
  const problems = validateGraph(graph);
  if (problems.length === 0) return;
  throw usageError(
    `The graph cannot be run: ${problems.map(describeProblem).join("; ")}`,
    "Every node needs an id of its own, and every dependency must lead to a node that does not lead back.",
    { problems },
  );
}

/**
 * The nodes that each node waits for: its dependencies, and the sources of all edges to it. It is computed each time
 * and never stored, so that no stored order can contradict the definition.
 */
export function predecessorsOf(graph: GraphShape): ReadonlyMap<string, ReadonlySet<string>> {
  const before = new Map<string, Set<string>>();
  for (const node of graph.nodes) before.set(node.id, new Set(node.dependencies));
  for (const edge of graph.edges) before.get(edge.to)?.add(edge.from);
  return before;
}

/** Layers of nodes that may run in parallel, each in definition order. Throws USAGE when the graph is invalid. */
export function batchesOf(graph: GraphShape): readonly (readonly string[])[] {
  checkGraph(graph);
  return layers(graph).layers;
}

/** The chain of nodes with the largest total cost, which bounds the duration from below. Throws USAGE when the graph is invalid. */
export function criticalPath(params: {
  readonly graph: GraphShape;
  /** Estimated cost of a node. */
  readonly cost: (node: GraphNode) => number;
}): { readonly nodes: readonly string[]; readonly total: number } {
  const byId = new Map(params.graph.nodes.map((node) => [node.id, node]));
  const before = predecessorsOf(params.graph);
  const longest = new Map<string, { readonly total: number; readonly via: string | null }>();
  let last: string | null = null;
  for (const id of batchesOf(params.graph).flat()) {
    const node = byId.get(id);
    if (node === undefined) continue;
    let via: string | null = null;
    for (const earlier of before.get(id) ?? []) {
      if (via === null || totalOf(longest, earlier) > totalOf(longest, via)) via = earlier;
    }
    longest.set(id, { total: totalOf(longest, via) + params.cost(node), via });
    if (last === null || totalOf(longest, id) > totalOf(longest, last)) last = id;
  }
  const nodes: string[] = [];
  for (let id = last; id !== null; id = longest.get(id)?.via ?? null) nodes.push(id);
  return { nodes: nodes.toReversed(), total: totalOf(longest, last) };
}

function totalOf(longest: ReadonlyMap<string, { readonly total: number }>, id: string | null): number {
  return id === null ? 0 : (longest.get(id)?.total ?? 0);
}

/** `stuck` contains the nodes in or behind a cycle. Missing ids do not block: they are reported as another problem. */
function layers(graph: GraphShape): { readonly layers: string[][]; readonly stuck: ReadonlySet<string> } {
  const before = predecessorsOf(graph);
  const after = new Map<string, string[]>([...before.keys()].map((id) => [id, []]));
  const waiting = new Map<string, number>();
  for (const [id, earlier] of before) {
    const known = [...earlier].filter((one) => before.has(one));
    waiting.set(id, known.length);
    for (const one of known) after.get(one)?.push(id);
  }
  const place = new Map([...before.keys()].map((id, index) => [id, index]));
  const result: string[][] = [];
  let layer = [...before.keys()].filter((id) => waiting.get(id) === 0);
  while (layer.length > 0) {
    result.push(layer);
    const next: string[] = [];
    for (const id of layer) {
      waiting.delete(id);
      for (const later of after.get(id) ?? []) {
        const left = (waiting.get(later) ?? 0) - 1;
        waiting.set(later, left);
        if (left === 0) next.push(later);
      }
    }
    layer = next.sort((a, b) => (place.get(a) ?? 0) - (place.get(b) ?? 0));
  }
  return { layers: result, stuck: new Set(waiting.keys()) };
}

/** Walking backwards inside the stuck nodes never ends, so it must reach a node again. */
function findCycle(graph: GraphShape, stuck: ReadonlySet<string>): readonly string[] {
  const before = predecessorsOf(graph);
  const walked: string[] = [];
  const seen = new Map<string, number>();
  let [at] = stuck;
  while (at !== undefined) {
    const met = seen.get(at);
    if (met !== undefined) return [at, ...walked.slice(met).toReversed()];
    seen.set(at, walked.length);
    walked.push(at);
    at = [...(before.get(at) ?? [])].find((one) => stuck.has(one));
  }
  return walked;
}

export function describeProblem(problem: GraphProblem): string {
  switch (problem.kind) {
    case "duplicate_node":
      return `two nodes are called ${problem.node}`;
    case "unknown_node":
      return `${problem.wantedBy} names ${problem.node}, which is not a node`;
    case "cycle":
      return `${problem.path.join(" → ")} waits for itself`;
  }
}
