// The messages that crunch agents exchange and the records of their conflicts, with the shapes that check them.

import {
  type Shape,
  type TypeOf,
  anyOf,
  count,
  finite,
  flag,
  jsonObject,
  list,
  nullable,
  object,
  sha256,
  text,
  variants,
} from "@holdfast/core/json";
import { PHASE_SHAPE } from "./team.ts";

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
const PERCENT = numberBetween(0, 100);

export const SEVERITY_SHAPE = anyOf(["CRITICAL", "HIGH"]);
export type VetoSeverity = TypeOf<typeof SEVERITY_SHAPE>;

const VETO_SHAPE = object({ severity: SEVERITY_SHAPE, target: text, reason: text });

const COMPROMISE_SHAPE = object({
  acceptable: flag,
  conditions: TEXTS,
  /** Another choice that the agent accepts; null: any choice of the others. */
  hybrid: nullable(text),
});

/** Why an agent wants the user to decide although the rules do not require it. */
const WISHES = ["no_precedent", "business_impact", "explicit_request"] as const;

const RECOMMENDATION_SHAPE = object({
  agent: text,
  node: text,
  /** The subject: a file, a component, a decision. Only recommendations with the same scope can conflict. */
  scope: text,
  choice: text,
  rationale: text,
  confidence: PERCENT,
  /** Whether it can be acted on as written. A mere remark cannot, and conflicts with nothing. */
  actionable: flag,
});
/** What an agent's answer recommends for a scope. */
export type Recommendation = TypeOf<typeof RECOMMENDATION_SHAPE>;

/** What an agent stands for in one round of a debate. */
const STANDPOINT = {
  choice: text,
  rationale: text,
  evidence: TEXTS,
  confidence: PERCENT,
  /** From 0 to 1: how well the subject matches the agent's expertise. */
  relevance: numberBetween(0, 1),
  compromise: COMPROMISE_SHAPE,
  veto: nullable(VETO_SHAPE),
  escalate: nullable(anyOf(WISHES)),
} as const;

export const POSITION_SHAPE = object({ agent: text, ...STANDPOINT });
/** An agent's position in one round of a debate. */
export type ConflictPosition = TypeOf<typeof POSITION_SHAPE>;

export const ESCALATION_SHAPE = object({
  reason: anyOf(["high_veto", "opposed_vetoes", "close_vote", "no_convergence", ...WISHES]),
  question: text,
  options: TEXTS,
  at: text,
});
export type Escalation = TypeOf<typeof ESCALATION_SHAPE>;
export type EscalationReason = Escalation["reason"];

const SCORE_SHAPE = object({ agent: text, choice: text, score: finite, evidenceCount: count });
export type ConflictScore = TypeOf<typeof SCORE_SHAPE>;

export const RESOLUTION_SHAPE = object({
  how: anyOf(["agreement", "compromise", "vote", "veto", "person"]),
  choice: text,
  /** The agent whose choice won; null if no agent made that choice. */
  winner: nullable(text),
  reasoning: text,
  conditions: TEXTS,
  scores: list(SCORE_SHAPE),
  vetoApplied: flag,
  userOverride: flag,
  dissent: list(object({ agent: text, choice: text, note: text })),
  at: text,
  /** The knowledge entry of this resolution, once it is captured. */
  knowledge: nullable(text),
});
export type Resolution = TypeOf<typeof RESOLUTION_SHAPE>;

export const CONFLICT_SHAPE = object({
  /** Format: CONF-{date and time}-{hash}. */
  id: text,
  topic: text,
  phase: PHASE_SHAPE,
  detectedAt: text,
  domains: TEXTS,
  participants: TEXTS,
  choices: TEXTS,
  recommendations: list(RECOMMENDATION_SHAPE),
  /** The positions of each round; each round has at most one position per agent. */
  rounds: list(list(POSITION_SHAPE)),
  escalation: nullable(ESCALATION_SHAPE),
  resolution: nullable(RESOLUTION_SHAPE),
});
export type Conflict = TypeOf<typeof CONFLICT_SHAPE>;

const BASE = {
  id: text,
  from: text,
  /** An agent's name, "user", or "*" for all agents. */
  to: text,
  /** The id of the message that this one answers. */
  correlation: nullable(text),
  timestamp: text,
  priority: anyOf(["CRITICAL", "HIGH", "NORMAL", "LOW"]),
  metadata: object({ issue: count, phase: PHASE_SHAPE, attempt: count, checkpoint: nullable(text) }),
} as const;

const request = object({
  action: text,
  node: nullable(text),
  /** The complete prompt, so that a request that is sent again is identical. */
  prompt: text,
  context: jsonObject,
  constraints: object({
    timeoutMs: nullable(count),
    requiredOutputs: TEXTS,
    forbiddenActions: TEXTS,
  }),
});

const FINDING_SHAPE = object({
  id: text,
  severity: anyOf(["CRITICAL", "HIGH", "MEDIUM", "LOW", "INFO"]),
  category: text,
  title: text,
  description: text,
  /** file:line; empty if the finding has no location. */
  location: text,
  recommendation: text,
  confidence: PERCENT,
});
export type Finding = TypeOf<typeof FINDING_SHAPE>;

const response = object({
  status: anyOf(["SUCCESS", "PARTIAL", "BLOCKED", "FAILED"]),
  result: object({
    summary: text,
    outputs: TEXTS,
    filesModified: TEXTS,
    filesCreated: TEXTS,
  }),
  findings: list(FINDING_SHAPE),
  metrics: object({ durationMs: count, tokens: count }),
  handoff: nullable(object({ to: text, reason: text })),
});
export type ReplyStatus = TypeOf<typeof response>["status"];

const handoff = object({
  reason: text,
  recommendedAgent: text,
  contextTransfer: object({
    workCompleted: TEXTS,
    remainingWork: TEXTS,
    relevantFindings: TEXTS,
  }),
  urgency: anyOf(["IMMEDIATE", "NORMAL"]),
});

const escalate = object({
  escalationType: anyOf(["VETO", "CONFLICT", "BLOCKED", "HUMAN_REQUIRED"]),
  severity: SEVERITY_SHAPE,
  reason: text,
  decisionNeeded: text,
  options: list(object({ option: text, pros: text, cons: text })),
  recommendation: nullable(text),
  veto: nullable(object({ target: text, vulnerability: text, alternative: text })),
});
export type EscalatePayload = TypeOf<typeof escalate>;

const broadcast = object({
  event: anyOf(["CONTEXT_UPDATE", "CHECKPOINT", "PHASE_CHANGE", "ABORT"]),
  message: text,
  data: jsonObject,
  affects: TEXTS,
});
export type BroadcastPayload = TypeOf<typeof broadcast>;

const vote = object({ conflict: text, round: count, ...STANDPOINT });

export const MESSAGE_SHAPE = variants("type", {
  REQUEST: object({ ...BASE, payload: request }),
  RESPONSE: object({ ...BASE, payload: response }),
  HANDOFF: object({ ...BASE, payload: handoff }),
  ESCALATE: object({ ...BASE, payload: escalate }),
  BROADCAST: object({ ...BASE, payload: broadcast }),
  VOTE: object({ ...BASE, payload: vote }),
});
export type Message = TypeOf<typeof MESSAGE_SHAPE>;
export type MessageType = Message["type"];
export type MessagePriority = Message["priority"];
