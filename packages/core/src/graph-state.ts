// State transitions of a task graph: events, readiness, skipping, recovery after a crash, and the names of a graph's steps.
import { HoldfastError, usageError } from "@holdfast/platform/error";
import {
  type Graph,
  type GraphEdge,
  type GraphNode,
  type NodeState,
  type NodeStatus,
  type Priority,
  batchesOf,
  checkGraph,
  predecessorsOf,
} from "./graph.ts";
import {
  type Json,
  type Shape,
  count,
  dictionary,
  flag,
  json,
  jsonObject,
  list,
  nullable,
  object,
  oneOf,
  optional,
  tagged,
  text,
} from "./json.ts";

export type GraphEvent =
  | { readonly kind: "start"; readonly node: string; readonly at: string }
  | { readonly kind: "complete"; readonly node: string; readonly at: string; readonly result: Json }
  /** `final`: do not retry, even if retries are left. */
  | {
      readonly kind: "fail";
      readonly node: string;
      readonly at: string;
      readonly error: Json;
      readonly final?: boolean;
    }
  /** The node ran out of time. It is retried once, regardless of its retries; the second timeout is a failure. */
  | { readonly kind: "timeout"; readonly node: string; readonly at: string }
  | { readonly kind: "skip"; readonly node: string; readonly at: string; readonly reason: string }
  /** The node failed, or was unknown and is now known not to have run. It and the nodes skipped because of it become pending. */
  | { readonly kind: "retry"; readonly node: string; readonly at: string }
  /**
   * The node's process died. A node that is idempotent, or whose effects are all known (`known`), becomes pending
   * again, and the start does not count. Any other node is unknown until the user or the workflow finds out. It is
   * never dropped.
   */
  | { readonly kind: "recover"; readonly node: string; readonly at: string; readonly known?: boolean }
  /** Every failed node, and every node skipped because of one, becomes pending again. */
  | { readonly kind: "replay"; readonly at: string }
  | {
      readonly kind: "add";
      readonly definition: GraphNode;
      readonly edges: readonly GraphEdge[];
      readonly at: string;
    }
  | { readonly kind: "approve"; readonly from: string; readonly to: string; readonly at: string };

/**
 * Applies one event. An event that is impossible in this state throws USAGE and is not ignored. A failure skips all
 * nodes that depend on it, directly or indirectly. The failure of a critical node skips everything that has not
 * started.
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

/** Makes every failed node, and the nodes skipped because of one, pending again. Nodes that the user skipped remain skipped. */
export function replayFailed(graph: Graph, at: string): Graph {
  const failed = graph.nodes.filter((node) => stateOf(graph, node.id).status === "failed");
  return reopen(graph, new Set(failed.map((node) => node.id)), at);
}

/** Adds a node to a graph, also while it runs. Throws USAGE when the id is taken or an edge refers to a missing node. */
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
    throw usageError(
      `Node ${params.node.id} cannot be added with an edge to ${misplaced.to}: that node may have started`,
      "A new node may wait for others; existing nodes cannot be made to wait for it.",
    );
  }
  return settleSkips(grown, params.at);
}

/** Sort order, most urgent first. */
const PRIORITIES: Readonly<Record<Priority, number>> = { critical: 0, high: 1, normal: 2, low: 3 };

/** Nodes that may start now, most urgent first, then in definition order. Running nodes count against the limit. */
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

type GraphProgress =
  /** A node runs or can be started. */
  | { readonly kind: "active" }
  /** Nothing can continue until these are resolved or approved. */
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

function isOpenApproval(edge: GraphEdge): boolean {
  return edge.type === "approval" && edge.approvedAt === null;
}

function isFree(graph: Graph, predecessors: ReadonlySet<string> = new Set()): boolean {
  return [...predecessors].every((earlier) => stateOf(graph, earlier).status === "complete");
}

function isUnapproved(graph: Graph, id: string): boolean {
  return graph.edges.some((edge) => edge.to === id && isOpenApproval(edge));
}

function abortedBy(graph: Graph): string | null {
  const critical = graph.nodes.find(
    (node) => node.priority === "critical" && stateOf(graph, node.id).status === "failed",
  );
  return critical?.id ?? null;
}

/** The only rule for skipping, applied after every relevant change: no node waits for one that will never complete. */
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
    throw usageError(`There is no approval between ${event.from} and ${event.to} in graph ${graph.id}`);
  }
  const edges = graph.edges.map((edge) =>
    edge.type === "approval" && given(edge) ? { ...edge, approvedAt: edge.approvedAt ?? event.at } : edge,
  );
  return { ...graph, edges };
}

function findNode(graph: Graph, id: string): GraphNode {
  const node = graph.nodes.find((one) => one.id === id);
  if (node !== undefined) return node;
  throw usageError(`Graph ${graph.id} has no node ${JSON.stringify(id)}`);
}

/** Throws USAGE for an event that is impossible in the node's status. */
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
  return usageError(`Node ${event.node} cannot ${event.kind}: ${why}`);
}

/** Read access to a graph while it runs. */
export interface GraphView {
  readonly running: number;
  readonly batches: number;
  /** Nodes that may start now. Running nodes count against the limit. */
  ready(params: { readonly limit: number }): readonly string[];
  progress(): GraphProgress;
  /** What must be decided outside of the graph: nodes with an unknown outcome, and approvals that block a waiting node. */
  waitingFor(): { readonly unknown: readonly string[]; readonly approvals: readonly GraphEdge[] };
  failed(): readonly string[];
  /** Nodes that are running or queued. */
  underWay(): readonly string[];
  has(id: string): boolean;
  node(id: string): GraphNode;
  state(id: string): NodeState;
  /** Ids of a batch (1-based, derived from the dependencies), in the order of the definition. */
  batch(number: number): readonly string[];
  batchOf(id: string): number;
  /** True when every node in the batch is complete, failed or skipped. */
  isOver(batch: number): boolean;
  abortedBy(): string | null;
  /** Blocks nodes of later batches. The gate is not part of the graph, so a process that resumes the run sets it again. */
  setGate(batch: number): void;
  graph(): Graph;
}

/** A view of the graph that `read` returns at the time of each call. */
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
  const node = (id: string): GraphNode => findNode(read(), id);
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

const FRESH: NodeState = Object.freeze({
  status: "pending",
  attempt: 0,
  startedAt: null,
  endedAt: null,
  result: null,
});

function startedState(state: NodeState, at: string): NodeState {
  return { ...state, status: "running", attempt: state.attempt + 1, startedAt: at, endedAt: null, result: null };
}

function failedState(
  node: GraphNode,
  state: NodeState,
  event: Extract<GraphEvent, { readonly kind: "fail" | "timeout" }>,
  aborted: boolean,
): NodeState {
  const timeouts = state.timeouts ?? 0;
  const late = event.kind === "timeout";
  // A timeout does not count as a failed attempt.
  const again = late ? timeouts === 0 : event.final !== true && state.attempt - timeouts <= node.retries;
  return {
    ...state,
    status: again && !aborted ? "pending" : "failed",
    endedAt: event.at,
    result: { error: late ? "timeout" : event.error },
    tries: (state.tries ?? 0) + 1,
    ...(late ? { timeouts: timeouts + 1 } : {}),
  };
}

/** A crash does not count as a failure. The restarted node is the same attempt and finds its finished steps by name. */
function recoveredState(
  node: GraphNode,
  state: NodeState,
  { known }: { readonly known?: boolean | undefined },
): NodeState {
  if (state.status === "queued") return { ...state, status: "pending" };
  if (!node.idempotent && known !== true) return { ...state, status: "unknown" };
  return { ...state, status: "pending", attempt: Math.max(0, state.attempt - 1) };
}

function skippedState(
  state: NodeState,
  params: { readonly reason: string; readonly cause: string | null; readonly at: string },
): NodeState {
  const result = { skipped: params.reason, cause: params.cause };
  return { ...FRESH, status: "skipped", endedAt: params.at, result, ...triesOf(state) };
}

/** Makes a node pending again. An unknown attempt counts as over, so that the next one does not reuse its answers. */
function reopenedState(state: NodeState): NodeState {
  const tries = (state.tries ?? 0) + (state.status === "unknown" ? 1 : 0);
  return tries === 0 ? FRESH : { ...FRESH, tries };
}

function triesOf({ tries }: NodeState): { readonly tries?: number } {
  return tries === undefined ? {} : { tries };
}

function causeOf(state: NodeState): string | null {
  const { result } = state;
  if (typeof result !== "object" || result === null || !("cause" in result)) return null;
  return typeof result["cause"] === "string" ? result["cause"] : null;
}

/** Prefix of all steps of one attempt of a node. After a crash it is the same attempt; after a failure it is the next one. */
export function tryName(node: string, state: NodeState): string {
  return `node:${node}#${(state.tries ?? 0) + 1}`;
}

export function batchName(batch: number, round: number): string {
  return `batch:${batch}#${round}`;
}

export function approvalName(edge: { readonly from: string; readonly to: string }): string {
  return `approval:${edge.from} → ${edge.to}`;
}

export function graphName(name: string, part: string): string {
  return `graph:${name}/${part}`;
}

const PREFIXES = ["node:", "batch:", "approval:", "graph:"] as const;

/**
 * True for a step of a graph. A node that has ended does not run again with its stage, so no code asks for its steps. The
 * names distinguish them from steps that a changed stage no longer has.
 */
export function belongsToGraph(step: string): boolean {
  return PREFIXES.some((prefix) => step.startsWith(prefix));
}

/** Text of one event of a `graph.moved` entry: "build complete", "docs fail (no such file)", "a → b approve". */
export function graphMoveText(event: Json | GraphEvent): string {
  if (typeof event !== "object" || event === null) return "";
  const { kind, node, definition, error, reason, from, to } = event as Readonly<Record<string, unknown>>;
  const edge = typeof from === "string" && typeof to === "string" ? `${from} → ${to}` : undefined;
  const added = typeof definition === "object" && definition !== null && "id" in definition ? definition.id : undefined;
  const why = error ?? reason;
  return [node ?? edge ?? added, kind, typeof why === "string" && why !== "" ? `(${why})` : undefined]
    .filter((part) => typeof part === "string")
    .join(" ");
}

const node: Shape<GraphNode> = object<GraphNode>({
  id: text,
  agent: text,
  action: text,
  dependencies: list(text),
  priority: oneOf({ critical: true, high: true, normal: true, low: true }),
  timeoutMs: nullable(count),
  retries: count,
  idempotent: flag,
  outputs: list(text),
});

const edge: Shape<GraphEdge> = tagged<GraphEdge, "type">("type", {
  data: object({ from: text, to: text, key: text }),
  sequence: object({ from: text, to: text }),
  approval: object({ from: text, to: text, by: text, approvedAt: nullable(text) }),
});

const nodeState: Shape<NodeState> = object<NodeState>({
  status: oneOf({
    pending: true,
    queued: true,
    running: true,
    complete: true,
    failed: true,
    skipped: true,
    unknown: true,
  }),
  attempt: count,
  startedAt: nullable(text),
  endedAt: nullable(text),
  result: json,
  tries: optional(count),
  timeouts: optional(count),
});

export const graphShape: Shape<Graph> = object<Graph>({
  id: text,
  nodes: list(node),
  edges: list(edge),
  states: dictionary(nodeState),
  meta: jsonObject,
});

const nodeMove = { node: text, at: text };

export const graphEventShape: Shape<GraphEvent> = tagged<GraphEvent, "kind">("kind", {
  start: object(nodeMove),
  complete: object({ ...nodeMove, result: json }),
  fail: object({ ...nodeMove, error: json, final: optional(flag) }),
  timeout: object(nodeMove),
  skip: object({ ...nodeMove, reason: text }),
  retry: object(nodeMove),
  recover: object({ ...nodeMove, known: optional(flag) }),
  replay: object({ at: text }),
  add: object({ definition: node, edges: list(edge), at: text }),
  approve: object({ from: text, to: text, at: text }),
});
