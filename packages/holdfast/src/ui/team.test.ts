import type { JsonObject } from "@holdfast/core/json";
import { initialCrunchState } from "@holdfast/workflows/crunch/state";
import { expect, test } from "vitest";
import { teamOf } from "./team.ts";

const AT = "2026-11-18T07:00:00.000Z";
const VALUES = { ...initialCrunchState } as JsonObject;
const recorded = (result: JsonObject) => ({ kind: "step.finished", body: { recorded: true, result } }) as const;
const conflict = {
  id: "CONF-1",
  topic: "sign-in",
  phase: "enrich",
  detectedAt: AT,
  domains: [],
  participants: ["security-analyst", "dev-python"],
  choices: ["use tokens", "use sessions"],
  recommendations: [],
  rounds: [],
  escalation: null,
  resolution: null,
};
const position = (agent: string, choice: string, veto: JsonObject | null = null): JsonObject => ({
  agent,
  choice,
  rationale: "Why.",
  evidence: [],
  confidence: 80,
  relevance: 1,
  compromise: { acceptable: false, conditions: [], hybrid: null },
  veto,
  escalate: null,
});
const base = {
  to: "*",
  correlation: null,
  timestamp: AT,
  priority: "NORMAL",
  metadata: { issue: 1, phase: "enrich", attempt: 1, checkpoint: null },
};

test("a team has its conflicts with votes, and its messages, also those after the newest checkpoint", () => {
  expect(teamOf(VALUES, [])).toBeNull();
  const veto = { severity: "HIGH", target: "use sessions", reason: "They can be stolen." };
  const entries = [
    recorded({ kind: "conflict_detected", conflict }),
    recorded({
      kind: "positions_taken",
      conflict: "CONF-1",
      round: 1,
      positions: [position("security-analyst", "use tokens", veto), position("dev-python", "use sessions")],
    }),
    recorded({
      kind: "message_sent",
      message: {
        ...base,
        type: "BROADCAST",
        id: "MSG-1",
        from: "techwriter",
        payload: { event: "CONTEXT_UPDATE", message: "The door is blue.", data: {}, affects: [] },
      },
    }),
    recorded({
      kind: "conflict_escalated",
      conflict: "CONF-1",
      escalation: { reason: "high_veto", question: "Which one?", options: ["use tokens"], at: AT },
    }),
    // What is no event of the workflow says nothing about the team.
    { kind: "note", body: { text: "a note" } } as const,
  ];
  expect(teamOf(VALUES, entries)).toEqual({
    conflicts: [
      {
        id: "CONF-1",
        topic: "sign-in",
        at: AT,
        choices: ["use tokens", "use sessions"],
        votes: [
          {
            round: 1,
            agent: "security-analyst",
            choice: "use tokens",
            why: "Why.",
            confidence: 80,
            veto: 'high veto of "use sessions": They can be stolen.',
          },
          { round: 1, agent: "dev-python", choice: "use sessions", why: "Why.", confidence: 80, veto: null },
        ],
        asks: "Which one?",
        outcome: null,
      },
    ],
    messages: [
      { at: AT, from: "techwriter", to: "*", kind: "broadcast", status: "pending", text: "The door is blue." },
    ],
  });
  const resolution = {
    how: "person",
    choice: "use sessions",
    winner: "dev-python",
    reasoning: "You decided.",
    conditions: [],
    scores: [],
    vetoApplied: false,
    userOverride: true,
    dissent: [{ agent: "security-analyst", choice: "use tokens", note: "" }],
    at: AT,
    knowledge: null,
  };
  const settled = [...entries, recorded({ kind: "conflict_resolved", conflict: "CONF-1", resolution })];
  expect(teamOf(VALUES, settled)?.conflicts).toMatchObject([
    { asks: null, outcome: { how: "you", choice: "use sessions", against: ["security-analyst: use tokens"] } },
  ]);
});

test("values that cannot be read have no team, and a long text is cut", () => {
  expect(teamOf({ ...VALUES, conflicts: "many" }, [])).toBeNull();
  const long = { ...conflict, topic: "x".repeat(1_000_000) };
  const [found] = teamOf(VALUES, [recorded({ kind: "conflict_detected", conflict: long })])?.conflicts ?? [];
  expect(found?.topic.length).toBeLessThan(3000);
});
