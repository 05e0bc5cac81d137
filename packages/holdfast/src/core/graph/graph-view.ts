import { HoldfastError } from "../error.ts";
import type { Graph, GraphEdge, GraphNode, NodeState, NodeStatus } from "./graph.ts";
import { batchesOf } from "./graph-order.ts";
import { abortedBy, isOpenApproval, isWaiting, progressOf, readyNodes, stateOf } from "./graph-state.ts";
import type { GraphProgress } from "./graph-state.ts";

/** Read access to a graph while it runs. */
export interface GraphView {
  readonly running: number;
  readonly batches: number;
  /** What may start now; no more than the limit leaves room for. */
  ready(params: { readonly limit: number }): readonly string[];
  progress(): GraphProgress;
  /** What must be decided outside of the graph: nodes with an unknown outcome, and approvals that hold back a waiting node. */
  waitingFor(): { readonly unknown: readonly string[]; readonly approvals: readonly GraphEdge[] };
  failed(): readonly string[];
  /** Running or queued. */
  underWay(): readonly string[];
  has(id: string): boolean;
  node(id: string): GraphNode;
  state(id: string): NodeState;
  /** Ids of a batch (1-based, derived from the dependencies), in the order of the definition. */
  batch(number: number): readonly string[];
  batchOf(id: string): number;
  /** Has everything in the batch ended: complete, failed or skipped? */
  isOver(batch: number): boolean;
  abortedBy(): string | null;
  /** Nodes of later batches are not ready then. Not part of the graph: a process that continues the run sets it again. */
  setGate(batch: number): void;
  graph(): Graph;
}

/** A view of whatever graph `read` returns at the time of each call. */
export function viewGraph(read: () => Graph): GraphView {
  let gate = Infinity;
  let known: { readonly nodes: Graph["nodes"]; readonly edges: Graph["edges"]; readonly batches: Batches } | undefined;
  const batches = (): Batches => {
    const graph = read();
    if (known?.nodes !== graph.nodes || known.edges !== graph.edges)
      known = { nodes: graph.nodes, edges: graph.edges, batches: numberBatches(graph) };
    return known.batches;
  };
  const having = (...statuses: readonly NodeStatus[]): readonly string[] => {
    const graph = read();
    return statuses.flatMap((status) =>
      graph.nodes.filter(({ id }) => stateOf(graph, id).status === status).map(({ id }) => id),
    );
  };
  const node = (id: string): GraphNode => {
    const graph = read();
    const found = graph.nodes.find((one) => one.id === id);
    if (found !== undefined) return found;
    throw new HoldfastError({ code: "USAGE", message: `Graph ${graph.id} has no node ${JSON.stringify(id)}` });
  };
  const view: GraphView = {
    get running() {
      return having("running").length;
    },
    get batches() {
      return batches().members.length;
    },
    ready({ limit }) {
      const all = readyNodes(read(), { limit: Infinity });
      const open = gate === Infinity ? all : all.filter((id) => view.batchOf(id) <= gate);
      return open.slice(0, Math.max(0, limit - view.running));
    },
    progress: () => progressOf(read()),
    waitingFor() {
      const graph = read();
      const holds = (edge: GraphEdge): boolean => isOpenApproval(edge) && isWaiting(stateOf(graph, edge.to));
      return { unknown: having("unknown"), approvals: graph.edges.filter(holds) };
    },
    failed: () => having("failed"),
    underWay: () => having("running", "queued"),
    has: (id) => read().nodes.some((one) => one.id === id),
    node,
    state: (id) => stateOf(read(), node(id).id),
    batch: (number) => batches().members[number - 1] ?? [],
    batchOf: (id) => batches().numbers.get(node(id).id) ?? 0,
    isOver: (number) => view.batch(number).every((id) => ENDED.has(stateOf(read(), id).status)),
    abortedBy: () => abortedBy(read()),
    setGate(batch) {
      gate = batch;
    },
    graph: read,
  };
  return view;
}

const ENDED: ReadonlySet<NodeStatus> = new Set<NodeStatus>(["complete", "failed", "skipped"]);

interface Batches {
  readonly members: readonly (readonly string[])[];
  readonly numbers: ReadonlyMap<string, number>;
}

function numberBatches(graph: Graph): Batches {
  const members = batchesOf(graph);
  return { members, numbers: new Map(members.flatMap((ids, index) => ids.map((id) => [id, index + 1] as const))) };
}
