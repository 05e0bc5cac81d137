import type { Json, JsonObject } from "../json.ts";

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
