// Sample values for tests of crunch, with defaults for everything that a case does not need.

import { defaultCrunchSettings } from "@holdfast/workflows/crunch/default-settings";
import type { PendingCapture } from "@holdfast/workflows/crunch/knowledge";
import {
  type Conflict,
  type ConflictPosition,
  type Message,
  type Recommendation,
  messageId,
} from "@holdfast/workflows/crunch/messages";
import { composeTeam } from "@holdfast/workflows/crunch/plan-team";
import type { Team } from "@holdfast/workflows/crunch/team";

export const SAMPLE_AT = "2026-01-14T10:30:00.000Z";

export function sampleRequest(key: string, changes: Partial<Extract<Message, { type: "REQUEST" }>> = {}): Message {
  const from = "orchestrator";
  const to = "reviewer";
  return {
    id: messageId({ at: SAMPLE_AT, from, to, key }),
    type: "REQUEST",
    from,
    to,
    correlation: null,
    timestamp: SAMPLE_AT,
    priority: "NORMAL",
    metadata: { issue: 42, phase: "implementing", attempt: 1, checkpoint: null },
    payload: {
      action: "review_code",
      node: "review",
      prompt: "Review it.",
      context: {},
      constraints: { timeoutMs: 1000, requiredOutputs: [], forbiddenActions: [] },
    },
    ...changes,
  };
}

export function sampleResponse(
  key: string,
  correlation: string | null,
  changes: Partial<Extract<Message, { type: "RESPONSE" }>> = {},
): Message {
  const from = "reviewer";
  const to = "orchestrator";
  return {
    id: messageId({ at: SAMPLE_AT, from, to, key }),
    type: "RESPONSE",
    from,
    to,
    correlation,
    timestamp: SAMPLE_AT,
    priority: "NORMAL",
    metadata: { issue: 42, phase: "implementing", attempt: 1, checkpoint: null },
    payload: {
      status: "SUCCESS",
      result: { summary: "Done.", outputs: [], filesModified: [], filesCreated: [] },
      findings: [],
      metrics: { durationMs: 1, tokens: 2 },
      handoff: null,
    },
    ...changes,
  };
}

export function samplePosition(
  agent: string,
  choice: string,
  changes: Partial<ConflictPosition> = {},
): ConflictPosition {
  return {
    agent,
    choice,
    rationale: `${agent} thinks so`,
    evidence: [],
    confidence: 80,
    relevance: 1,
    compromise: { acceptable: false, conditions: [], hybrid: null },
    veto: null,
    escalate: null,
    ...changes,
  };
}

export function sampleRecommendation(
  agent: string,
  choice: string,
  changes: Partial<Recommendation> = {},
): Recommendation {
  return {
    agent,
    node: `node-${agent}`,
    scope: "where tokens are kept",
    choice,
    rationale: "",
    confidence: 80,
    actionable: true,
    ...changes,
  };
}

export function sampleConflict(
  sides: Readonly<Record<string, string>>,
  rounds: readonly (readonly ConflictPosition[])[] = [],
  changes: Partial<Conflict> = {},
): Conflict {
  return {
    id: "CONF-20260114T103000-abcd1234",
    topic: "where tokens are kept",
    phase: "enrich",
    detectedAt: SAMPLE_AT,
    domains: [],
    participants: Object.keys(sides),
    choices: [...new Set(Object.values(sides))],
    recommendations: Object.entries(sides).map(([agent, choice]) => sampleRecommendation(agent, choice)),
    rounds,
    escalation: null,
    resolution: null,
    ...changes,
  };
}

export function sampleCapture(name: string, content: string, changes: Partial<PendingCapture> = {}): PendingCapture {
  return {
    name,
    type: "decision",
    content,
    tags: ["auth"],
    source: { type: "issue", ref: "#42", phase: "enrich" },
    issue: 42,
    ...changes,
  };
}

export function sampleTeam(
  issue: { readonly title?: string; readonly body?: string; readonly labels?: readonly string[] } = {},
): Team {
  return composeTeam({
    issue: { number: 42, title: "", body: "", labels: [], ...issue },
    settings: defaultCrunchSettings,
    languages: [],
    priorFailures: 0,
    at: SAMPLE_AT,
  });
}
