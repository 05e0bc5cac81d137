// Crunch's checkpoint document: its shape, its graph, its file names and ids.

import {
  type Graph,
  type GraphEdge,
  type GraphNode,
  type NodeState,
  type NodeStatus,
  type Priority,
  batchesOf,
  validateGraph,
} from "@holdfast/core/graph";
import { stateOf } from "@holdfast/core/graph-state";
import {
  type Json,
  type JsonObject,
  type Shape,
  type TypeOf,
  count,
  dictionary,
  finite,
  flag,
  isJsonObject,
  json,
  jsonObject,
  list,
  object,
  sha256,
  text,
} from "@holdfast/core/json";
import { resumePoint } from "@holdfast/core/position";
import { canonicalJson } from "@holdfast/core/values";
import { type DocumentSource, invalidDocument, maybe, optional } from "./document.ts";
import type { ExternalFile, Remark } from "./format.ts";
import { parseJson, readText } from "./strict-json.ts";
import { type DocumentPlace, readYaml } from "./strict-yaml.ts";

/** The member with the full state of a run that Holdfast executes. Crunch's own readers ignore it. */
export const HOLDFAST_MEMBER = "holdfast";

/** The members in the order in which crunch writes them. */
export const CRUNCH_MEMBERS = [
  "checkpoint_id",
  "version",
  "created_at",
  "issue_number",
  "session_id",
  "workflow_state",
  "issue_snapshot",
  "team_state",
  "execution_graph",
  "agent_outputs",
  "acp_state",
  "knowledge_context",
  "files_modified",
  "recovery_info",
] as const;

export const RECOVERY_MEMBERS = ["can_resume", "resume_from", "prerequisites_met", "warnings"] as const;

const filled: Shape<string> = (value) =>
  typeof value === "string" && value.trim() !== "" ? null : { path: "", expected: "a text", actual: value };
const textOrNumber: Shape<string | number> = (value) =>
  text(value) === null || finite(value) === null ? null : { path: "", expected: "a version", actual: value };

const NODE_STATE = {
  status: text,
  result: optional(json),
  started_at: maybe(text),
  completed_at: maybe(text),
};

const nodeState = object(NODE_STATE);
type CrunchNodeState = TypeOf<typeof nodeState>;

const node = object({
  ...NODE_STATE,
  id: filled,
  agent: maybe(text),
  action: maybe(text),
  dependencies: maybe(list(text)),
  outputs: maybe(list(text)),
  priority: maybe(text),
  timeout_ms: maybe(count),
  status: optional(text),
});
type CrunchNode = TypeOf<typeof node>;

const edge = object({
  from: text,
  to: text,
  type: maybe(text),
  data_key: maybe(text),
  approval_required_from: maybe(text),
});
type CrunchEdge = TypeOf<typeof edge>;

const graph = object({
  graph_id: maybe(text),
  completed_batches: maybe(list(count)),
  current_batch: maybe(count),
  node_states: maybe(dictionary(nodeState)),
  nodes: maybe(list(node)),
  edges: maybe(list(edge)),
});
type CrunchGraph = TypeOf<typeof graph>;

/**
 * A complete checkpoint as crunch writes it. Three members are required: the id, the state, and the last member,
 * without which the file was probably cut.
 */
export const crunchDocument = object({
  checkpoint_id: filled,
  version: maybe(textOrNumber),
  created_at: maybe(text),
  issue_number: maybe(count),
  session_id: maybe(text),
  // Crunch has it only in the index. Holdfast also writes it here, so that the index can be rebuilt.
  trigger: maybe(text),
  workflow_state: object({
    current_phase: filled,
    current_state_label: maybe(text),
    phase_started_at: maybe(text),
    phase_attempt: maybe(count),
  }),
  issue_snapshot: maybe(
    object({
      title: maybe(text),
      body: maybe(text),
      labels: maybe(list(text)),
      assignees: maybe(list(json)),
      branch: maybe(text),
    }),
  ),
  team_state: maybe(jsonObject),
  execution_graph: maybe(graph),
  // Another name for the execution graph in crunch's documentation.
  graph_state: maybe(graph),
  agent_outputs: maybe(jsonObject),
  acp_state: maybe(jsonObject),
  knowledge_context: maybe(jsonObject),
  files_modified: maybe(list(jsonObject)),
  recovery_info: object({
    can_resume: flag,
    resume_from: maybe(text),
    prerequisites_met: maybe(flag),
    warnings: maybe(list(text)),
  }),
});

export type CrunchDocument = TypeOf<typeof crunchDocument>;

interface DecodedGraph {
  /** null if the document has no nodes: a graph without nodes would count as finished. */
  readonly graph: Graph | null;
  readonly remarks: readonly Remark[];
  /** Why the graph cannot be ordered. */
  readonly problem: string | null;
}

/** Decodes a graph. Everything except nodes, edges and states is kept under crunch's names. */
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

/** Batch numbers are derived if the graph is defined, and otherwise copied. */
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
      text: `"${state.status}" is not a status of crunch: read as unknown`,
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
    // The document does not say that the node may run twice.
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
  // The value has been checked and comes from a JSON document, so the cast is safe.
  const entries = Object.entries(crunch as JsonObject);
  return Object.fromEntries(entries.filter(([key]) => !OURS.has(key)));
}

interface ReadCrunch {
  readonly document: JsonObject;
  readonly remarks: readonly Remark[];
  readonly source: DocumentSource;
  /** YAML needs no closing bracket, so a text that ends within a line may have been cut. */
  readonly endsWithinLine: boolean;
  readonly placeOf: ((pointer: string) => DocumentPlace) | null;
}

/** Reads YAML, or the JSON that crunch wrote before 2026. */
export function readCrunch(file: ExternalFile): ReadCrunch {
  const source: DocumentSource = { format: "crunch-yaml", file: file.path };
  const { text, remarks } = readText(file, source.format);
  if (isJson(file.path, text)) {
    const document = parseJson(text, source);
    if (!isJsonObject(document)) throw invalidDocument(source, { path: "", why: "there is no object" });
    return { document, remarks, source, endsWithinLine: false, placeOf: null };
  }
  const yaml = readYaml(text, source);
  if (!isJsonObject(yaml.value)) throw invalidDocument(source, { path: "", why: "there is no mapping", line: 1 });
  return {
    document: yaml.value,
    remarks: [...remarks, ...yaml.remarks],
    source,
    endsWithinLine: !text.endsWith("\n"),
    placeOf: yaml.placeOf,
  };
}

/** YAML can start with a brace too; in JSON a quote or a closing brace follows the first one. */
function isJson(path: string, text: string): boolean {
  return isJsonName(path) || /^\s*\{\s*["}]/.test(text.slice(0, 1000));
}

/** File names in a crunch directory; a compressed file has an additional extension. */

const CHECKPOINT = /\.(?:ya?ml|json)(?:\.gz|\.lz4)?$/i;

export function isIndexFile(name: string): boolean {
  return /^index\.(?:ya?ml|json)$/i.test(name);
}

export function isCheckpointFile(name: string): boolean {
  return CHECKPOINT.test(name);
}

/** The id that a file name implies. */
export function idFromFileName(name: string): string {
  return name.replace(CHECKPOINT, "");
}

/** Crunch wrote JSON before 2026. A file without this extension is YAML. */
export function isJsonName(path: string): boolean {
  return /\.json(?:\.gz|\.lz4)?$/i.test(path);
}

/** The id of a written document, from its path. */
export function idFromPath(path: string): string {
  return idFromFileName(checkpointFileName(path));
}

export function checkpointFileName(path: string): string {
  return path.split(/[/\\]/).at(-1) ?? path;
}

/**
 * Accepts every known form: CP-enrich-20250114T103000-a3f2b1, CP-enrich-20250114-a3f2, CP-20250114-a3f2, CP-impl,
 * CP-before-batch-1. Other ids are read too, with a remark.
 */
export function isCrunchId(id: string): boolean {
  return /^CP-[A-Za-z0-9][\w.-]*$/.test(id);
}

/** An id becomes a file name, so it must not lead to another directory on any system. */
export function isFileName(id: string): boolean {
  // oxlint-disable-next-line no-control-regex
  return id.length <= 200 && id.trim() !== "" && !/[/\\\u0000-\u001F\u007F]/.test(id) && !/^\.{1,2}$/.test(id);
}

/**
 * Builds an id for a checkpoint without one. It derives from the content, so that the same checkpoint always gets the
 * same id.
 */
export function makeId(params: {
  readonly phase: string;
  readonly createdAt: string | null;
  readonly document: JsonObject;
}): string {
  const phase = params.phase.replaceAll(/[^A-Za-z0-9_-]/g, "-").slice(0, 40) || "none";
  const time = params.createdAt === null ? [] : [params.createdAt.replaceAll(/[-:]|\.\d+Z$/g, "")];
  return ["CP", phase, ...time, sha256(canonicalJson(params.document)).slice(0, 8)].join("-");
}

/** The default recovery information: resume at a node if there is one, else at the phase. */
export function defaultRecovery(position: { readonly stage: string; readonly graph: Graph | null }): JsonObject {
  const { graph, stage } = position;
  const node = graph === null ? null : resumePoint(graph);
  return { can_resume: true, resume_from: node ?? stage, prerequisites_met: true, warnings: [] };
}
