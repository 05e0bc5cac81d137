import type { Graph, GraphEdge, GraphNode, NodeState } from "./graph.ts";
import type { GraphEvent } from "./graph-state.ts";
import {
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
} from "../shape.ts";
import type { Shape } from "../shape.ts";

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
  data: object({ from: text, to: text, type: oneOf({ data: true }), key: text }),
  sequence: object({ from: text, to: text, type: oneOf({ sequence: true }) }),
  approval: object({ from: text, to: text, type: oneOf({ approval: true }), by: text, approvedAt: nullable(text) }),
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
  start: object({ kind: oneOf({ start: true }), ...nodeMove }),
  complete: object({ kind: oneOf({ complete: true }), ...nodeMove, result: json }),
  fail: object({ kind: oneOf({ fail: true }), ...nodeMove, error: json, final: optional(flag) }),
  timeout: object({ kind: oneOf({ timeout: true }), ...nodeMove }),
  skip: object({ kind: oneOf({ skip: true }), ...nodeMove, reason: text }),
  retry: object({ kind: oneOf({ retry: true }), ...nodeMove }),
  recover: object({ kind: oneOf({ recover: true }), ...nodeMove, known: optional(flag) }),
  replay: object({ kind: oneOf({ replay: true }), at: text }),
  add: object({ kind: oneOf({ add: true }), definition: node, edges: list(edge), at: text }),
  approve: object({ kind: oneOf({ approve: true }), from: text, to: text, at: text }),
});
