import { HoldfastError } from "../error.ts";
import type { Graph, GraphEdge, GraphNode, NodeState, NodeStatus, Priority } from "./graph.ts";
import { batchesOf, checkGraph, predecessorsOf } from "./graph-order.ts";
import type { Json } from "../json.ts";
import {
  FRESH,
  causeOf,
  failedState,
  recoveredState,
  reopenedState,
  skippedState,
  startedState,
} from "./node-state.ts";

export type GraphEvent =
  | { readonly kind: "start"; readonly node: string; readonly at: string }
  | { readonly kind: "complete"; readonly node: string; readonly at: string; readonly result: Json }
  /** `final`: whatever retries are left, it is not to be tried again. */
  | {
      readonly kind: "fail";
      readonly node: string;
      readonly at: string;
      readonly error: Json;
      readonly final?: boolean;
    }
  /** Out of time: tried once more, whatever its retries; the second time it has failed. */
  | { readonly kind: "timeout"; readonly node: string; readonly at: string }
  | { readonly kind: "skip"; readonly node: string; readonly at: string; readonly reason: string }
  /** Failed, or unknown and now known not to have happened: pending afresh, and so is what was skipped for it. */
  | { readonly kind: "retry"; readonly node: string; readonly at: string }
  /**
   * Its process died. It never vanishes: what may be run twice, or has left nothing that is not known (`known`), is
   * pending again, and the start does not count; the rest is unknown until somebody finds out.
   */
  | { readonly kind: "recover"; readonly node: string; readonly at: string; readonly known?: boolean }
  /** Every failed node again, with what was skipped for one. */
  | { readonly kind: "replay"; readonly at: string }
  | {
      readonly kind: "add";
      readonly definition: GraphNode;
      readonly edges: readonly GraphEdge[];
      readonly at: string;
    }
  | { readonly kind: "approve"; readonly from: string; readonly to: string; readonly at: string };

/**
 * One event further. What cannot happen in this state is refused (USAGE), not ignored. A failure skips all that waits
 * for it, directly or through others; the failure of a critical node skips everything that has not begun.
 */
export function stepGraph(graph: Graph, event: GraphEvent): Graph {
  switch (event.kind) {
    case "approve":
      return approve(graph, event);
    case "replay":
      return replayFailed(graph, event.at);
    case "add":
      return addNode(graph, { node: event.definition, edges: event.edges, at: event.at });
    default:
      return stepNode(graph, event);
  }
}

type NodeEvent = Extract<GraphEvent, { readonly node: string }>;

function stepNode(graph: Graph, event: NodeEvent): Graph {
  const node = findNode(graph, event.node);
  const state = stateOf(graph, event.node);
  expectStatus(event, state);
  switch (event.kind) {
    case "start":
      if (!isFree(graph, predecessorsOf(graph).get(node.id)) || isUnapproved(graph, node.id))
        throw refused(event, "what it waits for is not complete");
      return withState(graph, node.id, startedState(state, event.at));
    case "complete":
      return withState(graph, node.id, { ...state, status: "complete", endedAt: event.at, result: event.result });
    case "fail":
    case "timeout": {
      const ended = failedState(node, state, event, abortedBy(graph) !== null);
      return settleSkips(withState(graph, node.id, ended), event.at);
    }
    case "skip":
      return settleSkips(
        withState(graph, node.id, skippedState(state, { reason: event.reason, cause: null, at: event.at })),
        event.at,
      );
    case "recover":
      return settleSkips(withState(graph, node.id, recoveredState(node, state, event)), event.at);
    case "retry":
      return reopen(graph, new Set([node.id]), event.at);
  }
}

/** Every failed node and all that was skipped for one becomes pending again; what a person skipped stays skipped. */
export function replayFailed(graph: Graph, at: string): Graph {
  const failed = graph.nodes.filter((node) => stateOf(graph, node.id).status === "failed");
  return reopen(graph, new Set(failed.map((node) => node.id)), at);
}

/** Adds to a graph, also while it runs. Throws USAGE when the id is taken or an end of an edge is not there. */
export function addNode(
  graph: Graph,
  params: { readonly node: GraphNode; readonly edges?: readonly GraphEdge[]; readonly at: string },
): Graph {
  const grown: Graph = {
    ...graph,
    nodes: [...graph.nodes, params.node],
    edges: [...graph.edges, ...(params.edges ?? [])],
  };
  checkGraph(grown);
  const misplaced = params.edges?.find((edge) => edge.to !== params.node.id);
  if (misplaced !== undefined) {
    throw new HoldfastError({
      code: "USAGE",
      message: `Node ${params.node.id} cannot be added with an edge to ${misplaced.to}: that node may have started`,
      hint: "A new node may wait for others; existing nodes cannot be made to wait for it.",
    });
  }
  return settleSkips(grown, params.at);
}

/** How urgent, the most urgent first. */
const PRIORITIES: Readonly<Record<Priority, number>> = { critical: 0, high: 1, normal: 2, low: 3 };

/** What may start now, most urgent first, then in the order of the definition; no more than the limit leaves room for. */
export function readyNodes(graph: Graph, params: { readonly limit: number }): readonly string[] {
  const before = predecessorsOf(graph);
  const unapproved = new Set(graph.edges.filter(isOpenApproval).map(({ to }) => to));
  const running = graph.nodes.filter((node) => stateOf(graph, node.id).status === "running").length;
  return graph.nodes
    .filter(({ id }) => isWaiting(stateOf(graph, id)) && !unapproved.has(id) && isFree(graph, before.get(id)))
    .toSorted((a, b) => PRIORITIES[a.priority] - PRIORITIES[b.priority])
    .slice(0, Math.max(0, params.limit - running))
    .map((node) => node.id);
}

export type GraphProgress =
  /** Something runs, or may be started. */
  | { readonly kind: "active" }
  /** Nothing can go on before these are looked into or approved. */
  | { readonly kind: "waiting"; readonly unknown: readonly string[]; readonly approvals: readonly GraphEdge[] }
  | { readonly kind: "complete" }
  | { readonly kind: "failed"; readonly nodes: readonly string[]; readonly abortedBy: string | null };

export function progressOf(graph: Graph): GraphProgress {
  const having = (status: NodeStatus): readonly string[] =>
    graph.nodes.filter((node) => stateOf(graph, node.id).status === status).map((node) => node.id);
  if (having("running").length > 0 || readyNodes(graph, { limit: Number.POSITIVE_INFINITY }).length > 0) {
    return { kind: "active" };
  }
  const waiting = graph.nodes.filter((node) => isWaiting(stateOf(graph, node.id)));
  const unknown = having("unknown");
  if (waiting.length > 0 || unknown.length > 0) {
    const approvals = graph.edges.filter((edge) => isOpenApproval(edge) && waiting.some((node) => node.id === edge.to));
    return { kind: "waiting", unknown, approvals };
  }
  const nodes = having("failed");
  return nodes.length === 0 ? { kind: "complete" } : { kind: "failed", nodes, abortedBy: abortedBy(graph) };
}

export function stateOf(graph: Graph, id: string): NodeState {
  return Object.hasOwn(graph.states, id) ? (graph.states[id] ?? FRESH) : FRESH;
}

function withState(graph: Graph, id: string, state: NodeState): Graph {
  return { ...graph, states: { ...graph.states, [id]: state } };
}

export function isWaiting(state: NodeState): boolean {
  return state.status === "pending" || state.status === "queued";
}

export function isOpenApproval(edge: GraphEdge): boolean {
  return edge.type === "approval" && edge.approvedAt === null;
}

function isFree(graph: Graph, predecessors: ReadonlySet<string> = new Set()): boolean {
  return [...predecessors].every((earlier) => stateOf(graph, earlier).status === "complete");
}

function isUnapproved(graph: Graph, id: string): boolean {
  return graph.edges.some((edge) => edge.to === id && isOpenApproval(edge));
}

export function abortedBy(graph: Graph): string | null {
  const critical = graph.nodes.find(
    (node) => node.priority === "critical" && stateOf(graph, node.id).status === "failed",
  );
  return critical?.id ?? null;
}

/** The one rule of skipping, applied after every change that can matter: nothing waits for what will never come. */
function settleSkips(graph: Graph, at: string): Graph {
  const aborter = abortedBy(graph);
  const before = predecessorsOf(graph);
  const states = new Map(graph.nodes.map((node) => [node.id, stateOf(graph, node.id)]));
  for (const id of batchesOf(graph).flat()) {
    const state = states.get(id) ?? FRESH;
    if (!isWaiting(state)) continue;
    if (aborter !== null) {
      states.set(id, skippedState(state, { reason: `critical node ${aborter} failed`, cause: aborter, at }));
      continue;
    }
    const lost = [...(before.get(id) ?? [])].find((one) => isLost(states.get(one)));
    if (lost === undefined) continue;
    const lostState = states.get(lost) ?? FRESH;
    const reason = lostReason(lost, lostState);
    states.set(id, skippedState(state, { reason, cause: causeOf(lostState) ?? lost, at }));
  }
  return { ...graph, states: Object.fromEntries([...states].filter(([, state]) => state !== FRESH)) };
}

function isLost(state: NodeState | undefined): boolean {
  return state?.status === "failed" || state?.status === "skipped";
}

function lostReason(id: string, state: NodeState): string {
  return `${id} ${state.status === "failed" ? "failed" : "was skipped"}`;
}

function reopen(graph: Graph, ids: ReadonlySet<string>, at: string): Graph {
  let reopened = graph;
  for (const node of graph.nodes) {
    const state = stateOf(graph, node.id);
    const cause = state.status === "skipped" ? causeOf(state) : null;
    if (ids.has(node.id) || (cause !== null && ids.has(cause)))
      reopened = withState(reopened, node.id, reopenedState(state));
  }
  return settleSkips(reopened, at);
}

function approve(graph: Graph, event: Extract<GraphEvent, { kind: "approve" }>): Graph {
  const given = (edge: GraphEdge): boolean =>
    edge.type === "approval" && edge.from === event.from && edge.to === event.to;
  if (!graph.edges.some(given)) {
    throw new HoldfastError({
      code: "USAGE",
      message: `There is no approval between ${event.from} and ${event.to} in graph ${graph.id}`,
    });
  }
  const edges = graph.edges.map((edge) =>
    edge.type === "approval" && given(edge) ? { ...edge, approvedAt: edge.approvedAt ?? event.at } : edge,
  );
  return { ...graph, edges };
}

function findNode(graph: Graph, id: string): GraphNode {
  const node = graph.nodes.find((one) => one.id === id);
  if (node !== undefined) return node;
  throw new HoldfastError({ code: "USAGE", message: `Graph ${graph.id} has no node ${JSON.stringify(id)}` });
}

/** Refuses (USAGE) what cannot happen to a node that is as it is. */
function expectStatus(event: NodeEvent, state: NodeState): void {
  if (!POSSIBLE[event.kind].includes(state.status)) throw refused(event, `it is ${state.status}`);
}

const POSSIBLE: Readonly<Record<NodeEvent["kind"], readonly NodeStatus[]>> = {
  start: ["pending", "queued"],
  complete: ["running", "unknown"],
  fail: ["running", "unknown"],
  timeout: ["running", "unknown"],
  skip: ["pending", "queued", "unknown"],
  retry: ["failed", "unknown"],
  recover: ["running", "queued"],
};

function refused(event: { readonly kind: string; readonly node: string }, why: string): HoldfastError {
  return new HoldfastError({ code: "USAGE", message: `Node ${event.node} cannot ${event.kind}: ${why}` });
}
