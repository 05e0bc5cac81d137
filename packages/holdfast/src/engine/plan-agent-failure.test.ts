import { expect, test } from "vitest";
import { FAILURE_CAUSES } from "../ports/agent.ts";
import type { FailureCause } from "../ports/agent.ts";
import { planAgentFailure } from "./plan-agent-failure.ts";

const NOW = Date.parse("2026-03-01T12:00:00Z");
const usage = { inputTokens: null, outputTokens: null, microUsd: null };
const plan = (
  cause: FailureCause,
  more: { instant?: boolean; until?: string; failures?: number; hint?: string } = {},
) =>
  planAgentFailure({
    agent: "toy",
    failures: more.failures ?? 1,
    now: NOW,
    failure: {
      kind: "failed",
      cause,
      message: "no",
      hint: more.hint ?? null,
      until: more.until ?? null,
      session: null,
      usage,
      instant: more.instant ?? false,
    },
  });

test("the provider's failures back off, longer each time, then park, and a resume grants as many again", () => {
  for (const cause of ["overload", "network", "rate_limit", "hang"] as const) {
    const plans = Array.from({ length: 12 }, (_, i) => plan(cause, { failures: i + 1 }));
    const delays = plans.slice(0, 5).map((one) => (one.kind === "retry" ? one.delayMs : -1));
    expect(delays).toEqual(delays.toSorted((a, b) => a - b));
    expect(Math.min(...delays)).toBeGreaterThan(0);
    expect(plans[5]).toMatchObject({ kind: "park", on: "quota", until: null });
    expect(plans.slice(6, 11)).toEqual(plans.slice(0, 5));
    expect(plans[11]).toMatchObject({ kind: "park", on: "quota" });
  }
});

test("with a time to come the run parks until then; a time gone by is no reason to", () => {
  const until = "2026-03-01T12:00:01Z";
  expect(plan("rate_limit", { until })).toMatchObject({ kind: "park", on: "quota", until });
  expect(plan("rate_limit", { until: "2026-03-01T12:00:00Z" })).toMatchObject({ kind: "retry" });
});

test("what only a person can mend waits for one, with the fix in the reason", () => {
  for (const cause of ["auth", "billing", "missing"] as const) {
    expect(plan(cause, { hint: "Run toy login.", instant: true })).toMatchObject({
      kind: "park",
      on: "person",
      reason: expect.stringContaining("Run toy login."),
    });
  }
});

test("everything else is the stage's to decide, unless nothing was done at all", () => {
  const handled = ["overload", "network", "rate_limit", "hang", "auth", "billing", "missing"];
  for (const cause of FAILURE_CAUSES.filter((one) => !handled.includes(one))) {
    expect(plan(cause)).toEqual({ kind: "report" });
    expect(plan(cause, { instant: true })).toMatchObject({ kind: "retry" });
  }
});
