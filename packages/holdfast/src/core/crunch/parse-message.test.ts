import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { sampleRequest, sampleResponse } from "./crunch-sample.ts";
import { messageId } from "./message.ts";
import type { Message } from "./message.ts";
import { parseMessage } from "./parse-message.ts";

const { payload: _, type: __, ...base } = sampleRequest("base");

/** One of each type, with every field filled. */
const EACH: readonly Message[] = [
  sampleRequest("request"),
  sampleResponse("response", sampleRequest("request").id, {
    payload: {
      status: "BLOCKED",
      result: { summary: "s", outputs: ["o"], filesModified: ["a"], filesCreated: ["b"] },
      findings: [
        {
          id: "F-001",
          severity: "HIGH",
          category: "security",
          title: "t",
          description: "d",
          location: "a.ts:1",
          recommendation: "r",
          confidence: 90,
        },
      ],
      metrics: { durationMs: 5, tokens: 7 },
      handoff: { to: "dev-go", reason: "it is Go" },
    },
  }),
  {
    ...base,
    type: "HANDOFF",
    payload: {
      reason: "r",
      recommendedAgent: "dev-go",
      contextTransfer: { workCompleted: ["a"], remainingWork: ["b"], relevantFindings: ["F-001"] },
      urgency: "IMMEDIATE",
    },
  },
  {
    ...base,
    type: "ESCALATE",
    payload: {
      escalationType: "VETO",
      severity: "CRITICAL",
      reason: "r",
      decisionNeeded: "d",
      options: [{ option: "o", pros: "p", cons: "c" }],
      recommendation: "o",
      veto: { target: "t", vulnerability: "v", alternative: "a" },
    },
  },
  {
    ...base,
    to: "*",
    type: "BROADCAST",
    payload: { event: "PHASE_CHANGE", message: "m", data: { phase: "docs" }, affects: ["reviewer"] },
  },
  {
    ...base,
    type: "VOTE",
    payload: {
      conflict: "CONF-1",
      round: 1,
      choice: "c",
      rationale: "r",
      evidence: ["e"],
      confidence: 90,
      relevance: 0.5,
      compromise: { acceptable: true, conditions: ["x"], hybrid: "h" },
      veto: { severity: "HIGH", target: "t", reason: "r" },
      escalate: "no_precedent",
    },
  },
];

test.each(EACH)("a $type is taken as it is, and again after a trip through JSON", (message) => {
  const parsed = parseMessage(JSON.parse(JSON.stringify(message)));
  expect(parsed).toEqual({ kind: "message", message });
});

describe("what is no message is refused with a code and a place", () => {
  test.each(EACH)("a $type with any one field gone or of another kind", (message) => {
    for (const path of pathsOf(message)) {
      for (const wrong of [undefined, "another text", [[]], -7.5]) {
        const spoilt = withAt(message, path, wrong);
        const shorterList = wrong === undefined && /^\d+$/.test(path.at(-1) ?? "");
        if (shorterList || JSON.stringify(spoilt) === JSON.stringify(message)) continue;
        const parsed = parseMessage(spoilt);
        // A text may stand for another text, and data is anybody's.
        if (parsed.kind === "message") expect(typeof wrong === "string" || path.includes("data")).toBe(true);
        else expect(parsed.why).not.toBe("");
      }
    }
  });

  test.each([
    [null, "NOT_A_MESSAGE", ""],
    ["text", "NOT_A_MESSAGE", ""],
    [{}, "NOT_A_MESSAGE", "/type"],
    [{ ...EACH[0], type: "ORDER" }, "NOT_A_MESSAGE", "/type"],
    [{ ...EACH[0], type: "constructor" }, "NOT_A_MESSAGE", "/type"],
    [{ ...EACH[0], id: "../../x" }, "BAD_ID", "/id"],
    [{ ...EACH[0], timestamp: "yesterday" }, "BAD_TIME", "/timestamp"],
    [{ ...EACH[0], from: " " }, "BAD_FIELD", "/from"],
    [{ ...EACH[0], correlation: EACH[0]?.id }, "BAD_FIELD", "/correlation"],
    [{ ...EACH[0], priority: "URGENT" }, "BAD_FIELD", "/priority"],
    [{ ...EACH[5], payload: { ...EACH[5]?.payload, confidence: 101 } }, "BAD_FIELD", "/payload/confidence"],
    [{ ...EACH[0], from: "\ud800" }, "NOT_JSON", ""],
    [{ ...EACH[0], extra: () => 1 }, "NOT_JSON", ""],
    [{ ...EACH[0], extra: "x".repeat(1_000_001) }, "TOO_LARGE", ""],
  ])("%#: %s", (value, code, path) => {
    expect(parseMessage(value)).toMatchObject({ kind: "refused", code, path });
  });

  test("anything at all is either a message or refused; nothing throws", () => {
    fc.assert(
      fc.property(fc.anything({ withBigInt: true, withDate: true, withMap: true }), (value) => {
        expect(parseMessage(value).kind).toBe("refused");
      }),
    );
  });
});

test("an id follows from its parts, and differs when one does", () => {
  const parts = { at: "2026-01-14T10:30:00.000Z", from: "a", to: "b", key: "k" };
  expect(messageId(parts)).toBe(messageId({ ...parts }));
  expect(messageId(parts)).toMatch(/^MSG-1768386600000-[0-9a-f]{8}$/);
  const others = [{ from: "b" }, { to: "a" }, { key: "l" }, { at: "2026-01-14T10:30:00.001Z" }];
  const ids = [parts, ...others.map((change) => ({ ...parts, ...change }))].map((one) => messageId(one));
  expect(new Set(ids).size).toBe(5);
});

function pathsOf(value: unknown, path: readonly string[] = []): readonly (readonly string[])[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, inner]) => [[...path, key], ...pathsOf(inner, [...path, key])]);
}

function withAt(value: unknown, path: readonly string[], wrong: unknown): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return wrong;
  const copy: Record<string, unknown> = { ...(value as Record<string, unknown>) };
  copy[key] = withAt(copy[key], rest, wrong);
  if (copy[key] === undefined) delete copy[key];
  return Array.isArray(value) ? Object.values(copy) : copy;
}
