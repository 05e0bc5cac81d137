import type { Json, JsonObject } from "../../core/json.ts";
import { count, dictionary, finite, flag, json, jsonObject, list, nullable, object, text } from "../../core/shape.ts";
import type { Shape } from "../../core/shape.ts";

type Maybe<T> = T | null | undefined;

/**
 * A full checkpoint as crunch writes it. Three members must be there: what names it, where it stood, and the last one,
 * without which the file was most likely cut. YAML leaves an empty member null, so null is as good as absent.
 */
export interface CrunchDocument {
  readonly checkpoint_id: string;
  readonly version?: Maybe<string | number>;
  readonly created_at?: Maybe<string>;
  readonly issue_number?: Maybe<number>;
  readonly session_id?: Maybe<string>;
  /** Not in crunch, which tells it in the index alone; written by us so that the index can be rebuilt. */
  readonly trigger?: Maybe<string>;
  readonly workflow_state: CrunchState;
  readonly issue_snapshot?: Maybe<CrunchIssue>;
  readonly team_state?: Maybe<JsonObject>;
  readonly execution_graph?: Maybe<CrunchGraph>;
  /** What another page of crunch calls the execution graph. */
  readonly graph_state?: Maybe<CrunchGraph>;
  readonly agent_outputs?: Maybe<JsonObject>;
  readonly acp_state?: Maybe<JsonObject>;
  readonly knowledge_context?: Maybe<JsonObject>;
  readonly files_modified?: Maybe<readonly JsonObject[]>;
  readonly recovery_info: CrunchRecovery;
}

export interface CrunchState {
  readonly current_phase: string;
  readonly current_state_label?: Maybe<string>;
  readonly phase_started_at?: Maybe<string>;
  readonly phase_attempt?: Maybe<number>;
}

export interface CrunchIssue {
  readonly title?: Maybe<string>;
  readonly body?: Maybe<string>;
  readonly labels?: Maybe<readonly string[]>;
  readonly assignees?: Maybe<readonly Json[]>;
  readonly branch?: Maybe<string>;
}

export interface CrunchNodeState {
  readonly status: string;
  readonly result?: Json | undefined;
  readonly started_at?: Maybe<string>;
  readonly completed_at?: Maybe<string>;
}

export interface CrunchNode extends Partial<CrunchNodeState> {
  readonly id: string;
  readonly agent?: Maybe<string>;
  readonly action?: Maybe<string>;
  readonly dependencies?: Maybe<readonly string[]>;
  readonly outputs?: Maybe<readonly string[]>;
  readonly priority?: Maybe<string>;
  readonly timeout_ms?: Maybe<number>;
}

export interface CrunchEdge {
  readonly from: string;
  readonly to: string;
  readonly type?: Maybe<string>;
  readonly data_key?: Maybe<string>;
  readonly approval_required_from?: Maybe<string>;
}

export interface CrunchGraph {
  readonly graph_id?: Maybe<string>;
  readonly completed_batches?: Maybe<readonly number[]>;
  readonly current_batch?: Maybe<number>;
  readonly node_states?: Maybe<Readonly<Record<string, CrunchNodeState>>>;
  readonly nodes?: Maybe<readonly CrunchNode[]>;
  readonly edges?: Maybe<readonly CrunchEdge[]>;
}

export interface CrunchRecovery {
  readonly can_resume: boolean;
  readonly resume_from?: Maybe<string>;
  readonly prerequisites_met?: Maybe<boolean>;
  readonly warnings?: Maybe<readonly string[]>;
}

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

function maybe<T>(shape: Shape<T>): Shape<Maybe<T>> {
  return (value) => (value === undefined || value === null ? null : shape(value));
}

const filled: Shape<string> = (value) =>
  typeof value === "string" && value.trim() !== "" ? null : { path: "", expected: "a text", actual: value };
const textOrNumber: Shape<string | number> = (value) =>
  text(value) === null || finite(value) === null ? null : { path: "", expected: "a version", actual: value };

const nodeState = object<CrunchNodeState>({
  status: text,
  result: (value) => (value === undefined ? null : json(value)),
  started_at: maybe(text),
  completed_at: maybe(text),
});

const node = object<CrunchNode>({
  id: filled,
  agent: maybe(text),
  action: maybe(text),
  dependencies: maybe(list(text)),
  outputs: maybe(list(text)),
  priority: maybe(text),
  timeout_ms: maybe(count),
  status: (value) => (value === undefined ? null : text(value)),
  result: (value) => (value === undefined ? null : json(value)),
  started_at: maybe(text),
  completed_at: maybe(text),
});

const edge = object<CrunchEdge>({
  from: text,
  to: text,
  type: maybe(text),
  data_key: maybe(text),
  approval_required_from: maybe(text),
});

const graph = object<CrunchGraph>({
  graph_id: maybe(text),
  completed_batches: maybe(list(count)),
  current_batch: maybe(count),
  node_states: maybe(dictionary(nodeState)),
  nodes: maybe(list(node)),
  edges: maybe(list(edge)),
});

export const crunchDocument = object<CrunchDocument>({
  checkpoint_id: filled,
  version: maybe(textOrNumber),
  created_at: maybe(text),
  issue_number: maybe(count),
  session_id: maybe(text),
  trigger: maybe(text),
  workflow_state: object<CrunchState>({
    current_phase: filled,
    current_state_label: maybe(text),
    phase_started_at: maybe(text),
    phase_attempt: maybe(count),
  }),
  issue_snapshot: maybe(
    object<CrunchIssue>({
      title: maybe(text),
      body: maybe(text),
      labels: maybe(list(text)),
      assignees: maybe(list(nullable(json))),
      branch: maybe(text),
    }),
  ),
  team_state: maybe(jsonObject),
  execution_graph: maybe(graph),
  graph_state: maybe(graph),
  agent_outputs: maybe(jsonObject),
  acp_state: maybe(jsonObject),
  knowledge_context: maybe(jsonObject),
  files_modified: maybe(list(jsonObject)),
  recovery_info: object<CrunchRecovery>({
    can_resume: flag,
    resume_from: maybe(text),
    prerequisites_met: maybe(flag),
    warnings: maybe(list(text)),
  }),
});
