/** Computes the view of a task graph that `status`, `show` and the live view display: node states, times, critical path. */
import {
  type Graph,
  type GraphNode,
  type NodeState,
  type NodeStatus,
  type Priority,
  batchesOf,
  criticalPath,
  describeProblem,
  predecessorsOf,
  validateGraph,
} from "@holdfast/core/graph";
import { stateOf } from "@holdfast/core/graph-state";
import { type Json, isJsonObject } from "@holdfast/core/json";
import { resumePoint } from "@holdfast/core/position";

/** `interrupted`: the node's state is running, but the process that ran it is gone. */
export const NODE_CONDITIONS = [
  "complete",
  "running",
  "interrupted",
  "failed",
  "unknown",
  "skipped",
  "queued",
  "pending",
] as const;
export type NodeCondition = (typeof NODE_CONDITIONS)[number];

/**
 * `so_far`: the node still runs. `at_least`: measured up to the last sign of life, because the real end was not
 * recorded.
 */
export interface Elapsed {
  readonly milliseconds: number;
  readonly kind: "whole" | "so_far" | "at_least";
}

export interface NodePicture {
  readonly id: string;
  readonly agent: string;
  readonly action: string;
  readonly priority: Priority;
  /** 1-based. */
  readonly batch: number;
  readonly state: NodeCondition;
  /** How often the node was started. */
  readonly attempts: number;
  readonly startedAt: string | null;
  readonly endedAt: string | null;
  /** null: the node has not started, or its end is unknown. */
  readonly elapsed: Elapsed | null;
  readonly critical: boolean;
  readonly waitsFor: readonly string[];
  /** Why it failed or was skipped. */
  readonly reason: string | null;
}

/** A task graph with all derived facts computed, for display and for programs. */
export interface GraphPicture {
  readonly id: string;
  readonly batches: readonly (readonly string[])[];
  /** In the order of the definition. */
  readonly nodes: readonly NodePicture[];
  readonly counts: Readonly<Record<NodeCondition, number>>;
  /** The chain that takes longest. Nodes that have not run count with the mean of the measured nodes. */
  readonly criticalPath: { readonly nodes: readonly string[]; readonly milliseconds: number };
  readonly elapsed: Elapsed | null;
  readonly resumePoint: string | null;
  /** Approvals that are still missing and whose target nodes have not started. */
  readonly approvals: readonly { readonly from: string; readonly to: string; readonly by: string }[];
  /** Problems of the definition (of an import, for example). If there are any, all nodes are in one batch. */
  readonly problems: readonly string[];
}

export interface Moment {
  /** Whether a process works on the run now. */
  readonly live: boolean;
  /** Milliseconds since the epoch. */
  readonly now: number;
  /** The last time at which the run was alive, according to its journal. */
  readonly seenAt: string | null;
}

/** Never throws: a graph that cannot be executed can still be shown. */
export function pictureGraph(graph: Graph, moment: Moment): GraphPicture {
  const problems = validateGraph(graph).map(describeProblem);
  const whole = problems.length === 0;
  const unique = [...new Map(graph.nodes.map((node) => [node.id, node])).values()];
  const batches = whole ? batchesOf(graph) : [unique.map(({ id }) => id)];
  const elapsed = new Map(unique.map(({ id }) => [id, elapsedOf(stateOf(graph, id), moment)]));
  const critical = whole ? criticalPath({ graph, cost: costOf(graph, elapsed) }) : { nodes: [], total: 0 };
  const onPath = new Set(critical.nodes);
  const batchOf = new Map(batches.flatMap((batch, at) => batch.map((id) => [id, at + 1] as const)));
  const before = predecessorsOf(graph);
  const nodes = unique.map((node): NodePicture => {
    const state = stateOf(graph, node.id);
    return {
      id: node.id,
      agent: node.agent,
      action: node.action,
      priority: node.priority,
      batch: batchOf.get(node.id) ?? 1,
      state: conditionOf(state.status, moment),
      attempts: attemptsOf(state),
      startedAt: state.startedAt,
      endedAt: state.endedAt,
      elapsed: elapsed.get(node.id) ?? null,
      critical: onPath.has(node.id),
      waitsFor: [...(before.get(node.id) ?? [])],
      reason: reasonOf(state.result),
    };
  });
  return {
    id: graph.id,
    batches,
    nodes,
    counts: countConditions(nodes),
    criticalPath: { nodes: critical.nodes, milliseconds: critical.total },
    elapsed: elapsedOfAll(nodes, moment),
    resumePoint: whole ? resumePoint(graph) : null,
    approvals: graph.edges.flatMap((edge) =>
      edge.type === "approval" && edge.approvedAt === null && isWaiting(stateOf(graph, edge.to).status)
        ? [{ from: edge.from, to: edge.to, by: edge.by }]
        : [],
    ),
    problems,
  };
}

export function countConditions(nodes: Iterable<Pick<NodePicture, "state">>): Record<NodeCondition, number> {
  const counts = {
    complete: 0,
    running: 0,
    interrupted: 0,
    failed: 0,
    unknown: 0,
    skipped: 0,
    queued: 0,
    pending: 0,
  };
  for (const { state } of nodes) counts[state] += 1;
  return counts;
}

function conditionOf(status: NodeStatus, { live }: Moment): NodeCondition {
  return status === "running" && !live ? "interrupted" : status;
}

/** A replay restarts its own count, so earlier failed attempts are added. */
function attemptsOf({ status, attempt, tries = 0 }: NodeState): number {
  const current = status === "running" || status === "complete" || status === "unknown" ? 1 : 0;
  return Math.max(attempt, tries + current);
}

function isWaiting(status: NodeStatus): boolean {
  return status === "pending" || status === "queued";
}

function elapsedOf(state: NodeState, moment: Moment): Elapsed | null {
  const from = timeOf(state.startedAt);
  if (from === null) return null;
  switch (state.status) {
    case "complete":
    case "failed": {
      const to = timeOf(state.endedAt);
      return to === null ? null : span(from, to, "whole");
    }
    case "running":
      return untilNow(from, moment);
    case "pending":
    case "queued":
    case "skipped":
    case "unknown":
      return null;
  }
}

function untilNow(from: number, moment: Moment): Elapsed {
  return moment.live ? span(from, moment.now, "so_far") : span(from, timeOf(moment.seenAt) ?? from, "at_least");
}

/** From the first start to the last end. While nodes are left: up to now, or up to the last sign of life. */
function elapsedOfAll(nodes: readonly NodePicture[], moment: Moment): Elapsed | null {
  let from: number | null = null;
  let to: number | null = null;
  for (const node of nodes) {
    const started = timeOf(node.startedAt);
    const ended = timeOf(node.endedAt);
    if (started !== null && (from === null || started < from)) from = started;
    if (ended !== null && (to === null || ended > to)) to = ended;
  }
  if (from === null) return null;
  const over = nodes.every(({ state }) => state === "complete" || state === "failed" || state === "skipped");
  if (!over) return untilNow(from, { ...moment, seenAt: laterOf(moment.seenAt, to) });
  return span(from, to ?? from, "whole");
}

/** At least one millisecond, so that among nodes that took no time the chain with the most nodes is the longest. */
function costOf(graph: Graph, elapsed: ReadonlyMap<string, Elapsed | null>): (node: GraphNode) => number {
  const known = [...elapsed.values()].flatMap((one) => (one === null ? [] : [one.milliseconds]));
  const mean = known.length === 0 ? 1 : known.reduce((sum, one) => sum + one, 0) / known.length;
  return ({ id }) => {
    if (stateOf(graph, id).status === "skipped") return 0;
    return Math.max(1, Math.round(elapsed.get(id)?.milliseconds ?? mean));
  };
}

/** A clock that was set back must not produce a negative time. */
function span(from: number, to: number, kind: Elapsed["kind"]): Elapsed {
  return { milliseconds: Math.max(0, to - from), kind };
}

function timeOf(iso: string | null): number | null {
  const at = iso === null ? Number.NaN : Date.parse(iso);
  return Number.isNaN(at) ? null : at;
}

function laterOf(iso: string | null, at: number | null): string | null {
  const seen = timeOf(iso);
  return at === null || (seen !== null && seen > at) ? iso : new Date(at).toISOString();
}

function reasonOf(result: Json): string | null {
  if (!isJsonObject(result)) return null;
  const reason = result["error"] ?? result["skipped"];
  if (typeof reason === "string") return reason;
  if (isJsonObject(reason) && typeof reason["message"] === "string") return reason["message"];
  return reason === undefined || reason === null ? null : JSON.stringify(reason);
}
