import type { Graph, GraphEdge, GraphNode, NodeState, NodeStatus, Priority } from "../../core/graph/graph.ts";
import { batchesOf, validateGraph } from "../../core/graph/graph-order.ts";
import { stateOf } from "../../core/graph/graph-state.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import type { Remark } from "../format.ts";
import type { CrunchEdge, CrunchGraph, CrunchNode, CrunchNodeState } from "./crunch-document.ts";

export interface DecodedGraph {
  /** null when it names no node: a graph without nodes would count as finished. */
  readonly graph: Graph | null;
  readonly remarks: readonly Remark[];
  /** What makes it impossible to order. */
  readonly problem: string | null;
}

/** Everything of a graph but its nodes and their states is kept under the names that crunch gives it. */
export function decodeGraph(crunch: CrunchGraph, path: string): DecodedGraph {
  const states = new Map(Object.entries(crunch.node_states ?? {}));
  for (const node of crunch.nodes ?? []) {
    const { status } = node;
    if (status !== undefined && !states.has(node.id)) states.set(node.id, { ...node, status });
  }
  const defined = new Map((crunch.nodes ?? []).map((node) => [node.id, node]));
  const ids = [...new Set([...defined.keys(), ...states.keys()])];
  if (ids.length === 0) return { graph: null, remarks: [], problem: null };
  const remarks: Remark[] = [];
  if (defined.size === 0) {
    const text =
      "it has the states of the nodes only: what waits for what is not known, and running nodes are uncertain";
    remarks.push({ path, text });
  }
  const graph: Graph = {
    id: crunch.graph_id ?? "",
    nodes: ids.map((id) => nodeOf(id, defined.get(id))),
    edges: (crunch.edges ?? []).map(edgeOf),
    states: Object.fromEntries(
      [...states].map(([id, state]) => [id, decodeState(state, `${path}/node_states/${id}`, remarks)]),
    ),
    meta: restOf(crunch),
  };
  if (defined.size !== (crunch.nodes ?? []).length) return { graph, remarks, problem: "two nodes have the same id" };
  const [problem] = validateGraph(graph);
  return {
    graph,
    remarks,
    problem: problem === undefined ? null : `the graph has a ${problem.kind.replace("_", " ")}`,
  };
}

/** Batches are derived where the definition is there, and else told as they were. */
export function encodeGraph(graph: Graph): JsonObject {
  const defined = isDefined(graph);
  const states: [string, Json][] = graph.nodes
    .filter((node) => !defined || Object.hasOwn(graph.states, node.id))
    .map((node) => [node.id, encodeState(stateOf(graph, node.id))]);
  const meta = Object.entries(graph.meta).filter(([key]) => !OURS.has(key));
  return {
    graph_id: graph.id,
    ...Object.fromEntries(meta),
    ...(defined ? batchNumbers(graph) : {}),
    node_states: Object.fromEntries(states),
    ...(defined ? { nodes: graph.nodes.map(encodeNode), edges: graph.edges.map(encodeEdge) } : {}),
  };
}

function isDefined(graph: Graph): boolean {
  const blank = JSON.stringify(encodeNode(nodeOf("", undefined)));
  return (
    graph.edges.length > 0 || graph.nodes.some((node) => JSON.stringify(encodeNode({ ...node, id: "" })) !== blank)
  );
}

function batchNumbers(graph: Graph): JsonObject {
  const isOver = (id: string): boolean => OVER.has(stateOf(graph, id).status);
  const numbered = batchesOf(graph).map((batch, index) => ({ number: index + 1, over: batch.every(isOver) }));
  const current = numbered.find((batch) => !batch.over)?.number ?? numbered.length;
  return {
    completed_batches: numbered.filter((batch) => batch.over).map((batch) => batch.number),
    current_batch: current,
  };
}

const OVER: ReadonlySet<NodeStatus> = new Set(["complete", "failed", "skipped"]);
const STATUSES: Readonly<Record<string, NodeStatus>> = {
  pending: "pending",
  queued: "queued",
  running: "running",
  complete: "complete",
  completed: "complete",
  failed: "failed",
  skipped: "skipped",
  unknown: "unknown",
};

function decodeState(state: CrunchNodeState, path: string, remarks: Remark[]): NodeState {
  const status = Object.hasOwn(STATUSES, state.status) ? STATUSES[state.status] : undefined;
  if (status === undefined) {
    remarks.push({
      path: `${path}/status`,
      text: `"${state.status}" is no status that crunch names: taken for unknown`,
    });
  }
  return {
    status: status ?? "unknown",
    attempt: state.started_at == null ? 0 : 1,
    startedAt: state.started_at ?? null,
    endedAt: state.completed_at ?? null,
    result: state.result ?? null,
  };
}

function encodeState(state: NodeState): JsonObject {
  return {
    status: state.status,
    ...(state.result === null ? {} : { result: state.result }),
    ...(state.startedAt === null ? {} : { started_at: state.startedAt }),
    ...(state.endedAt === null ? {} : { completed_at: state.endedAt }),
  };
}

function nodeOf(id: string, node: CrunchNode | undefined): GraphNode {
  return {
    id,
    agent: node?.agent ?? "",
    action: node?.action ?? "",
    dependencies: node?.dependencies ?? [],
    priority: priorityOf(node?.priority),
    timeoutMs: node?.timeout_ms ?? null,
    retries: 0,
    // Nobody said that it may be done twice.
    idempotent: false,
    outputs: node?.outputs ?? [],
  };
}

function priorityOf(word: string | null | undefined): Priority {
  const lower = word?.toLowerCase();
  return lower === "critical" || lower === "high" || lower === "low" ? lower : "normal";
}

function encodeNode(node: GraphNode): JsonObject {
  return {
    id: node.id,
    agent: node.agent,
    action: node.action,
    dependencies: node.dependencies,
    outputs: node.outputs,
    priority: node.priority.toUpperCase(),
    ...(node.timeoutMs === null ? {} : { timeout_ms: node.timeoutMs }),
  };
}

function edgeOf(edge: CrunchEdge): GraphEdge {
  const { from, to } = edge;
  if (edge.type === "data") return { from, to, type: "data", key: edge.data_key ?? "" };
  if (edge.type === "approval") {
    return { from, to, type: "approval", by: edge.approval_required_from ?? "", approvedAt: null };
  }
  return { from, to, type: "sequence" };
}

function encodeEdge(edge: GraphEdge): JsonObject {
  const { from, to, type } = edge;
  switch (type) {
    case "data":
      return { from, to, type, data_key: edge.key };
    case "sequence":
      return { from, to, type };
    case "approval":
      return { from, to, type, approval_required_from: edge.by };
  }
}

const OURS: ReadonlySet<string> = new Set(["graph_id", "node_states", "nodes", "edges"]);

function restOf(crunch: CrunchGraph): JsonObject {
  // Passed its shape and came out of a JSON document.
  const entries = Object.entries(crunch as JsonObject);
  return Object.fromEntries(entries.filter(([key]) => !OURS.has(key)));
}
