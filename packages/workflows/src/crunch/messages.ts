// The messages that crunch agents exchange and the records of their conflicts, with the shapes that check them. The
// types are aliases because TypeScript does not accept an interface as a JSON object.

import {
  type JsonObject,
  type Shape,
  count,
  finite,
  flag,
  jsonObject,
  list,
  nullable,
  object,
  oneOf,
  sha256,
  tagged,
  text,
} from "@holdfast/core/json";
import type { Phase } from "./phases.ts";
import { PHASE_SHAPE } from "./team.ts";

export type MessagePriority = "CRITICAL" | "HIGH" | "NORMAL" | "LOW";
export type ReplyStatus = "SUCCESS" | "PARTIAL" | "BLOCKED" | "FAILED";
type Severity = "CRITICAL" | "HIGH" | "MEDIUM" | "LOW" | "INFO";

export type Finding = {
  readonly id: string;
  readonly severity: Severity;
  readonly category: string;
  readonly title: string;
  readonly description: string;
  /** file:line; empty if the finding has no location. */
  readonly location: string;
  readonly recommendation: string;
  /** From 0 to 100. */
  readonly confidence: number;
};

type RequestPayload = {
  readonly action: string;
  readonly node: string | null;
  /** The complete prompt, so that a request that is sent again is identical. */
  readonly prompt: string;
  readonly context: JsonObject;
  readonly constraints: {
    readonly timeoutMs: number | null;
    readonly requiredOutputs: readonly string[];
    readonly forbiddenActions: readonly string[];
  };
};

type ResponsePayload = {
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

type HandoffPayload = {
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

type VotePayload = {
  readonly conflict: string;
  readonly round: number;
  readonly choice: string;
  readonly rationale: string;
  readonly evidence: readonly string[];
  /** From 0 to 100. */
  readonly confidence: number;
  /** From 0 to 1. */
  readonly relevance: number;
  readonly compromise: {
    readonly acceptable: boolean;
    readonly conditions: readonly string[];
    readonly hybrid: string | null;
  };
  readonly veto: { readonly severity: "CRITICAL" | "HIGH"; readonly target: string; readonly reason: string } | null;
  readonly escalate: EscalationWish | null;
};

/** Why an agent wants the user to decide although the rules do not require it. */
type EscalationWish = "no_precedent" | "business_impact" | "explicit_request";

type Base = {
  readonly id: string;
  readonly from: string;
  /** An agent's name, "user", or "*" for all agents. */
  readonly to: string;
  /** The id of the message that this one answers. */
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
 * Builds `MSG-{unix_ms}-{8 hex}`. `key` identifies the message within the run (stage attempt, node, attempt, purpose).
 * The same key at the same time gives the same id, so a repeated stage creates no second message.
 */
export function messageId(params: {
  readonly at: string;
  readonly from: string;
  readonly to: string;
  readonly key: string;
}): string {
  const hash = sha256(JSON.stringify([params.from, params.to, params.at, params.key])).slice(0, 8);
  return `MSG-${Date.parse(params.at)}-${hash}`;
}

/** What an agent's answer recommends for a scope. */
export type Recommendation = {
  readonly agent: string;
  readonly node: string;
  /** The subject: a file, a component, a decision. Only recommendations with the same scope can conflict. */
  readonly scope: string;
  readonly choice: string;
  readonly rationale: string;
  /** From 0 to 100. */
  readonly confidence: number;
  /** Whether it can be acted on as written. A mere remark cannot, and conflicts with nothing. */
  readonly actionable: boolean;
};

export type VetoSeverity = "CRITICAL" | "HIGH";
export type VetoClaim = { readonly severity: VetoSeverity; readonly target: string; readonly reason: string };

export type Compromise = {
  readonly acceptable: boolean;
  readonly conditions: readonly string[];
  /** Another choice that the agent accepts; null: any choice of the others. */
  readonly hybrid: string | null;
};

/** An agent's position in one round of a debate. */
export type ConflictPosition = {
  readonly agent: string;
  readonly choice: string;
  readonly rationale: string;
  readonly evidence: readonly string[];
  readonly confidence: number;
  /** From 0 to 1: how well the subject matches the agent's expertise. */
  readonly relevance: number;
  readonly compromise: Compromise;
  readonly veto: VetoClaim | null;
  readonly escalate: EscalationWish | null;
};

export type EscalationReason = "high_veto" | "opposed_vetoes" | "close_vote" | "no_convergence" | EscalationWish;

export type Escalation = {
  readonly reason: EscalationReason;
  readonly question: string;
  readonly options: readonly string[];
  readonly at: string;
};

export type ConflictScore = {
  readonly agent: string;
  readonly choice: string;
  readonly score: number;
  readonly evidenceCount: number;
};

export type Resolution = {
  readonly how: "agreement" | "compromise" | "vote" | "veto" | "person";
  readonly choice: string;
  /** The agent whose choice won; null if no agent made that choice. */
  readonly winner: string | null;
  readonly reasoning: string;
  readonly conditions: readonly string[];
  readonly scores: readonly ConflictScore[];
  readonly vetoApplied: boolean;
  readonly userOverride: boolean;
  readonly dissent: readonly { readonly agent: string; readonly choice: string; readonly note: string }[];
  readonly at: string;
  /** The knowledge entry of this resolution, once it is captured. */
  readonly knowledge: string | null;
};

export type Conflict = {
  /** Format: CONF-{date and time}-{hash}. */
  readonly id: string;
  readonly topic: string;
  readonly phase: Phase;
  readonly detectedAt: string;
  readonly domains: readonly string[];
  readonly participants: readonly string[];
  readonly choices: readonly string[];
  readonly recommendations: readonly Recommendation[];
  /** The positions of each round; each round has at most one position per agent. */
  readonly rounds: readonly (readonly ConflictPosition[])[];
  readonly escalation: Escalation | null;
  readonly resolution: Resolution | null;
};

/** The number within 0 and `most`. */
export function clamp(value: number, most: number): number {
  return Math.min(Math.max(value, 0), most);
}

/** Compares choices and scopes without regard to case, white space and Unicode form. */
export function equalText(one: string, other: string): boolean {
  return normalizeText(one) === normalizeText(other);
}

export function normalizeText(text: string): string {
  return text.normalize("NFKC").trim().toLowerCase().replaceAll(/\s+/g, " ");
}

/** A number from `least` to `most`, both inclusive. */
export function numberBetween(least: number, most: number): Shape<number> {
  return (value) =>
    typeof value === "number" && value >= least && value <= most
      ? null
      : { path: "", expected: `a number from ${least} to ${most}`, actual: value };
}

const TEXTS = list(text);

export const SEVERITY_SHAPE: Shape<VetoSeverity> = oneOf<VetoSeverity>({ CRITICAL: true, HIGH: true });

const VETO_SHAPE: Shape<VetoClaim> = object<VetoClaim>({ severity: SEVERITY_SHAPE, target: text, reason: text });

const COMPROMISE_SHAPE: Shape<Compromise> = object<Compromise>({
  acceptable: flag,
  conditions: TEXTS,
  hybrid: nullable(text),
});

const WISH_SHAPE: Shape<EscalationWish> = oneOf<EscalationWish>({
  no_precedent: true,
  business_impact: true,
  explicit_request: true,
});

const RECOMMENDATION_SHAPE: Shape<Recommendation> = object<Recommendation>({
  agent: text,
  node: text,
  scope: text,
  choice: text,
  rationale: text,
  confidence: numberBetween(0, 100),
  actionable: flag,
});

export const POSITION_SHAPE: Shape<ConflictPosition> = object<ConflictPosition>({
  agent: text,
  choice: text,
  rationale: text,
  evidence: TEXTS,
  confidence: numberBetween(0, 100),
  relevance: numberBetween(0, 1),
  compromise: COMPROMISE_SHAPE,
  veto: nullable(VETO_SHAPE),
  escalate: nullable(WISH_SHAPE),
});

export const ESCALATION_SHAPE: Shape<Escalation> = object<Escalation>({
  reason: oneOf<EscalationReason>({
    high_veto: true,
    opposed_vetoes: true,
    close_vote: true,
    no_convergence: true,
    no_precedent: true,
    business_impact: true,
    explicit_request: true,
  }),
  question: text,
  options: TEXTS,
  at: text,
});

export const RESOLUTION_SHAPE: Shape<Resolution> = object<Resolution>({
  how: oneOf<Resolution["how"]>({ agreement: true, compromise: true, vote: true, veto: true, person: true }),
  choice: text,
  winner: nullable(text),
  reasoning: text,
  conditions: TEXTS,
  scores: list(object<ConflictScore>({ agent: text, choice: text, score: finite, evidenceCount: count })),
  vetoApplied: flag,
  userOverride: flag,
  dissent: list(object<Resolution["dissent"][number]>({ agent: text, choice: text, note: text })),
  at: text,
  knowledge: nullable(text),
});

export const CONFLICT_SHAPE: Shape<Conflict> = object<Conflict>({
  id: text,
  topic: text,
  phase: PHASE_SHAPE,
  detectedAt: text,
  domains: TEXTS,
  participants: TEXTS,
  choices: TEXTS,
  recommendations: list(RECOMMENDATION_SHAPE),
  rounds: list(list(POSITION_SHAPE)),
  escalation: nullable(ESCALATION_SHAPE),
  resolution: nullable(RESOLUTION_SHAPE),
});

const percent = numberBetween(0, 100);

const BASE = {
  id: text,
  from: text,
  to: text,
  correlation: nullable(text),
  timestamp: text,
  priority: oneOf<MessagePriority>({ CRITICAL: true, HIGH: true, NORMAL: true, LOW: true }),
  metadata: object<Message["metadata"]>({
    issue: count,
    phase: PHASE_SHAPE,
    attempt: count,
    checkpoint: nullable(text),
  }),
} as const;

const request = object<RequestPayload>({
  action: text,
  node: nullable(text),
  prompt: text,
  context: jsonObject,
  constraints: object<RequestPayload["constraints"]>({
    timeoutMs: nullable(count),
    requiredOutputs: TEXTS,
    forbiddenActions: TEXTS,
  }),
});

const FINDING_SHAPE: Shape<Finding> = object<Finding>({
  id: text,
  severity: oneOf<Severity>({ CRITICAL: true, HIGH: true, MEDIUM: true, LOW: true, INFO: true }),
  category: text,
  title: text,
  description: text,
  location: text,
  recommendation: text,
  confidence: percent,
});

const response = object<ResponsePayload>({
  status: oneOf<ReplyStatus>({ SUCCESS: true, PARTIAL: true, BLOCKED: true, FAILED: true }),
  result: object<ResponsePayload["result"]>({
    summary: text,
    outputs: TEXTS,
    filesModified: TEXTS,
    filesCreated: TEXTS,
  }),
  findings: list(FINDING_SHAPE),
  metrics: object<ResponsePayload["metrics"]>({ durationMs: count, tokens: count }),
  handoff: nullable(object<NonNullable<ResponsePayload["handoff"]>>({ to: text, reason: text })),
});

const handoff = object<HandoffPayload>({
  reason: text,
  recommendedAgent: text,
  contextTransfer: object<HandoffPayload["contextTransfer"]>({
    workCompleted: TEXTS,
    remainingWork: TEXTS,
    relevantFindings: TEXTS,
  }),
  urgency: oneOf<HandoffPayload["urgency"]>({ IMMEDIATE: true, NORMAL: true }),
});

const escalate = object<EscalatePayload>({
  escalationType: oneOf<EscalatePayload["escalationType"]>({
    VETO: true,
    CONFLICT: true,
    BLOCKED: true,
    HUMAN_REQUIRED: true,
  }),
  severity: oneOf<EscalatePayload["severity"]>({ CRITICAL: true, HIGH: true }),
  reason: text,
  decisionNeeded: text,
  options: list(object<EscalatePayload["options"][number]>({ option: text, pros: text, cons: text })),
  recommendation: nullable(text),
  veto: nullable(
    object<NonNullable<EscalatePayload["veto"]>>({ target: text, vulnerability: text, alternative: text }),
  ),
});

const broadcast = object<BroadcastPayload>({
  event: oneOf<BroadcastPayload["event"]>({ CONTEXT_UPDATE: true, CHECKPOINT: true, PHASE_CHANGE: true, ABORT: true }),
  message: text,
  data: jsonObject,
  affects: TEXTS,
});

const vote = object<VotePayload>({
  conflict: text,
  round: count,
  choice: text,
  rationale: text,
  evidence: TEXTS,
  confidence: percent,
  relevance: numberBetween(0, 1),
  compromise: COMPROMISE_SHAPE,
  veto: nullable(VETO_SHAPE),
  escalate: nullable(WISH_SHAPE),
});

type Of<T extends Message["type"]> = Extract<Message, { readonly type: T }>;

export const MESSAGE_SHAPE: Shape<Message> = tagged<Message, "type">("type", {
  REQUEST: object<Of<"REQUEST">>({ ...BASE, type: oneOf<"REQUEST">({ REQUEST: true }), payload: request }),
  RESPONSE: object<Of<"RESPONSE">>({ ...BASE, type: oneOf<"RESPONSE">({ RESPONSE: true }), payload: response }),
  HANDOFF: object<Of<"HANDOFF">>({ ...BASE, type: oneOf<"HANDOFF">({ HANDOFF: true }), payload: handoff }),
  ESCALATE: object<Of<"ESCALATE">>({ ...BASE, type: oneOf<"ESCALATE">({ ESCALATE: true }), payload: escalate }),
  BROADCAST: object<Of<"BROADCAST">>({ ...BASE, type: oneOf<"BROADCAST">({ BROADCAST: true }), payload: broadcast }),
  VOTE: object<Of<"VOTE">>({ ...BASE, type: oneOf<"VOTE">({ VOTE: true }), payload: vote }),
});
