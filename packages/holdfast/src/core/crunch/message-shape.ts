import { count, jsonObject, list, nullable, object, oneOf, tagged, text } from "../shape.ts";
import type { Shape } from "../shape.ts";
import { COMPROMISE_SHAPE, VETO_SHAPE, WISH_SHAPE } from "./conflict-shape.ts";
import type {
  BroadcastPayload,
  EscalatePayload,
  Finding,
  HandoffPayload,
  Message,
  MessagePriority,
  ReplyStatus,
  RequestPayload,
  ResponsePayload,
  Severity,
  VotePayload,
} from "./message.ts";
import { within } from "./number-shape.ts";
import { PHASE_SHAPE } from "./team.ts";

const TEXTS = list(text);
const percent = within(0, 100);

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
  relevance: within(0, 1),
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
