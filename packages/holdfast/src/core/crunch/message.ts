import { pureSha256 } from "../sha256.ts";
import type { Phase } from "./phase.ts";
import type { JsonObject } from "../json.ts";

// Type aliases, not interfaces: only those count as JSON objects to the compiler.

export type MessagePriority = "CRITICAL" | "HIGH" | "NORMAL" | "LOW";
export type ReplyStatus = "SUCCESS" | "PARTIAL" | "BLOCKED" | "FAILED";
export type Severity = "CRITICAL" | "HIGH" | "MEDIUM" | "LOW" | "INFO";

export type Finding = {
  readonly id: string;
  readonly severity: Severity;
  readonly category: string;
  readonly title: string;
  readonly description: string;
  /** file:line; empty when it concerns no place. */
  readonly location: string;
  readonly recommendation: string;
  /** 0 to 100. */
  readonly confidence: number;
};

export type RequestPayload = {
  readonly action: string;
  readonly node: string | null;
  /** What the agent is told, whole: a request that is sent again says the same. */
  readonly prompt: string;
  readonly context: JsonObject;
  readonly constraints: {
    readonly timeoutMs: number | null;
    readonly requiredOutputs: readonly string[];
    readonly forbiddenActions: readonly string[];
  };
};

export type ResponsePayload = {
  readonly status: ReplyStatus;
  readonly result: {
    readonly summary: string;
    readonly outputs: readonly string[];
    readonly filesModified: readonly string[];
    readonly filesCreated: readonly string[];
  };
  readonly findings: readonly Finding[];
  readonly metrics: { readonly durationMs: number; readonly tokens: number };
  readonly handoff: { readonly to: string; readonly reason: string } | null;
};

export type HandoffPayload = {
  readonly reason: string;
  readonly recommendedAgent: string;
  readonly contextTransfer: {
    readonly workCompleted: readonly string[];
    readonly remainingWork: readonly string[];
    readonly relevantFindings: readonly string[];
  };
  readonly urgency: "IMMEDIATE" | "NORMAL";
};

export type EscalatePayload = {
  readonly escalationType: "VETO" | "CONFLICT" | "BLOCKED" | "HUMAN_REQUIRED";
  readonly severity: "CRITICAL" | "HIGH";
  readonly reason: string;
  readonly decisionNeeded: string;
  readonly options: readonly { readonly option: string; readonly pros: string; readonly cons: string }[];
  readonly recommendation: string | null;
  readonly veto: { readonly target: string; readonly vulnerability: string; readonly alternative: string } | null;
};

export type BroadcastPayload = {
  readonly event: "CONTEXT_UPDATE" | "CHECKPOINT" | "PHASE_CHANGE" | "ABORT";
  readonly message: string;
  readonly data: JsonObject;
  readonly affects: readonly string[];
};

export type VotePayload = {
  readonly conflict: string;
  readonly round: number;
  readonly choice: string;
  readonly rationale: string;
  readonly evidence: readonly string[];
  /** 0 to 100. */
  readonly confidence: number;
  /** 0 to 1. */
  readonly relevance: number;
  readonly compromise: {
    readonly acceptable: boolean;
    readonly conditions: readonly string[];
    readonly hybrid: string | null;
  };
  readonly veto: { readonly severity: "CRITICAL" | "HIGH"; readonly target: string; readonly reason: string } | null;
  readonly escalate: EscalationWish | null;
};

/** Why an agent thinks that a person should decide although the rules would not ask for one. */
export type EscalationWish = "no_precedent" | "business_impact" | "explicit_request";

type Base = {
  readonly id: string;
  readonly from: string;
  /** An agent's name, "user", or "*" for everybody. */
  readonly to: string;
  /** The message that this one answers. */
  readonly correlation: string | null;
  readonly timestamp: string;
  readonly priority: MessagePriority;
  readonly metadata: {
    readonly issue: number;
    readonly phase: Phase;
    readonly attempt: number;
    readonly checkpoint: string | null;
  };
};

export type Message =
  | (Base & { readonly type: "REQUEST"; readonly payload: RequestPayload })
  | (Base & { readonly type: "RESPONSE"; readonly payload: ResponsePayload })
  | (Base & { readonly type: "HANDOFF"; readonly payload: HandoffPayload })
  | (Base & { readonly type: "ESCALATE"; readonly payload: EscalatePayload })
  | (Base & { readonly type: "BROADCAST"; readonly payload: BroadcastPayload })
  | (Base & { readonly type: "VOTE"; readonly payload: VotePayload });

export type MessageType = Message["type"];

/**
 * `MSG-{unix_ms}-{8 hex}`. `key` says which message of the run this is (visit, node, attempt, purpose); the same key at the
 * same time is the same message, so a repeated stage makes no second one.
 */
export function messageId(params: {
  readonly at: string;
  readonly from: string;
  readonly to: string;
  readonly key: string;
}): string {
  const hash = pureSha256(JSON.stringify([params.from, params.to, params.at, params.key])).slice(0, 8);
  return `MSG-${Date.parse(params.at)}-${hash}`;
}
