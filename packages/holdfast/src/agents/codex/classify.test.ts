import { expect, test } from "vitest";
import { classifyCodex } from "./classify.ts";
import { NOTHING_READ, type CodexState } from "./reader.ts";

function classify(state: Partial<CodexState>, params: Partial<Parameters<typeof classifyCodex>[0]> = {}) {
  const rest = { stderr: "", resumes: false, answered: false, now: 0, ...params };
  return classifyCodex({ ...rest, state: { ...NOTHING_READ, ...state } });
}

test.for([
  ["unexpected status 401 Unauthorized: Incorrect API key provided, url: http://x", "auth"],
  ["Your access token could not be refreshed. Please log out and sign in again.", "auth"],
  ["unexpected status 402 Payment Required: pay", "billing"],
  ["exceeded retry limit, last status: 429 Too Many Requests", "rate_limit"],
  ["You’ve hit your usage limit. Try again later.", "rate_limit"],
  ["Quota exceeded. Check your plan and billing details.", "billing"],
  ["unexpected status 503 Service Unavailable: x", "overload"],
  ["Selected model is at capacity. Please try a different model.", "overload"],
  ["stream disconnected before completion: idle timeout waiting for SSE", "network"],
  ["Codex ran out of room in the model's context window.", "context_too_long"],
  ["something new", "crash"],
  ["", "crash"],
] as const)("%s", ([trouble, cause]) => {
  expect(classify({ end: "failed", trouble })).toMatchObject({ kind: "failed", cause });
  // Not at its end yet: it may come to itself again, so that only silence makes it this.
  expect(classify({ trouble })).toMatchObject({ kind: "waiting", cause });
});

test("a session that cannot be gone on with is told from one that is still being written", () => {
  const stderr = "Error: thread/resume: thread/resume failed: no rollout found for thread id 1 (code -32600)\n";
  expect(classify({}, { stderr })).toMatchObject({ kind: "failed", cause: "session_lost" });
  const busy = "Error: thread/resume: thread/resume failed: thread 1 already has an active writer\n";
  expect(classify({}, { stderr: busy })).toEqual({ kind: "open" });
});

test("a denial stands in the log alone", () => {
  const stderr =
    "2026 ERROR codex_core::tools::router: error=patch rejected: outside; rejected by user approval settings\n";
  expect(classify({ end: "completed", text: "Done." }, { stderr })).toMatchObject({ cause: "permission_denied" });
  expect(classify({ end: "completed", text: "Done." })).toEqual({ kind: "completed", text: "Done." });
});
