import { HoldfastError } from "@holdfast/platform/error";
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
  /** How often it may be started again after it failed. */
  readonly retries: number;
  /** May this be run again when we cannot tell whether it ran? */
  readonly idempotent: boolean;
  readonly outputs: readonly string[];
}

/** All three order their ends. An approval also holds `to` back until `by` has said yes. */
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
  /** How often it was started since it was last pending afresh. */
  readonly attempt: number;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  /** What it produced; `{error}` of its last failure; `{skipped, cause}` when skipped. */
  readonly result: Json;
  /** How often a start of it ended without success, ever: no replay sets it back, so names made from it are never given twice. Absent: never. */
  readonly tries?: number;
  /** How often it ran out of time since it was last pending afresh. Absent: never. */
  readonly timeouts?: number;
}

/** Definition and states together: a graph restored from a checkpoint can run on. */
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
  /** a → b → a, with the first one named again at the end. */
  | { readonly kind: "cycle"; readonly path: readonly string[] };

type GraphShape = Pick<Graph, "nodes" | "edges" | "states">;

/** Everything that is wrong, not only the first thing. A graph without problems can be ordered. */
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

/** Throws USAGE with every problem named. */
export function checkGraph(graph: GraphShape): void {
  const problems = validateGraph(graph);
  if (problems.length === 0) return;
  throw new HoldfastError({
    code: "USAGE",
    message: `The graph cannot be run: ${problems.map(describeProblem).join("; ")}`,
    hint: "Every node needs an id of its own, and every dependency must lead to a node that does not lead back.",
    data: { problems },
  });
}

/**
 * Which nodes each node waits for: its dependencies and all edges that lead to it, of every type. Derived each time
 * from the definition and never stored, so that no stored numbering can disagree with it.
 */
export function predecessorsOf(graph: GraphShape): ReadonlyMap<string, ReadonlySet<string>> {
  const before = new Map<string, Set<string>>();
  for (const node of graph.nodes) before.set(node.id, new Set(node.dependencies));
  for (const edge of graph.edges) before.get(edge.to)?.add(edge.from);
  return before;
}

/** Nodes that may run together, in layers; within a layer in the order of the definition. Throws USAGE when invalid. */
export function batchesOf(graph: GraphShape): readonly (readonly string[])[] {
  checkGraph(graph);
  return layers(graph).layers;
}

/** The chain of nodes that takes longest; nothing can end sooner than its total. Throws USAGE when invalid. */
export function criticalPath(params: {
  readonly graph: GraphShape;
  /** How long a node is reckoned to take. */
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

/** `stuck` are the nodes in or behind a cycle. Ids that do not exist hold nothing up: they are another problem. */
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

/** Walking backwards inside the stuck nodes never ends, so it must come round. */
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
