import { expect, test } from "vitest";
import { classifyOpencode, isOverflow } from "./classify.ts";
import { NOTHING_READ, type OpencodeState } from "./reader.ts";

function classify(state: Partial<OpencodeState>, params: { resumes?: boolean; code?: number; stderr?: string } = {}) {
  const { resumes = false, code = 0, stderr = "" } = params;
  const exit = { kind: "exited", code, stderr } as const;
  return classifyOpencode({ state: { ...NOTHING_READ, ...state }, exit, resumes, now: 0 });
}

function refused(statusCode: number, more: object = {}) {
  return { error: { name: "APIError", data: { message: `scripted ${statusCode}`, statusCode, ...more } } };
}

test("done is a last step that stopped by itself, and nothing denied", () => {
  expect(classify({ reason: "stop", text: "Done." })).toEqual({ kind: "completed", text: "Done." });
  expect(classify({ reason: null })).toEqual({ kind: "open" });
  expect(classify({ reason: "length" })).toMatchObject({ cause: "crash" });
  const denied = new Set(["bash"]);
  for (const reason of ["stop", "tool-calls"])
    expect(classify({ reason, denied })).toMatchObject({ cause: "permission_denied" });
});

test("a refusal is told by its status, and by words where the status is one for many things", () => {
  const causes = [401, 404, 429, 500, 400].map((status) => classify(refused(status)));
  expect(causes).toMatchObject(["auth", "missing", "rate_limit", "overload", "crash"].map((cause) => ({ cause })));
  const responseHeaders = { "retry-after": "60" };
  expect(classify(refused(429, { responseHeaders }))).toMatchObject({ until: "1970-01-01T00:01:00.000Z" });
  expect(classify(refused(400, { responseBody: "maximum context length" }))).toMatchObject({
    cause: "context_too_long",
  });
  expect(classify({ error: { name: "ProviderAuthError" } })).toMatchObject({ cause: "auth" });
  expect(classify({ error: { name: "UnknownError" } })).toMatchObject({
    hint: expect.stringContaining("opencode models"),
  });
});

test("a session that is not there, or whose history is refused", () => {
  const stderr = "Error: Session not found";
  expect(classify({}, { resumes: true, code: 1, stderr })).toMatchObject({ cause: "session_lost" });
  expect(classify({}, { code: 1, stderr })).toEqual({ kind: "open" });
  expect(classify(refused(400), { resumes: true })).toMatchObject({ cause: "session_lost" });
  expect(classify({ ...refused(400), hasActed: true }, { resumes: true })).toMatchObject({ cause: "crash" });
});

test("a call that was ended because its prompt stays too long is that, and nothing that came before", () => {
  const stderr = `level=ERROR message="stream error" small=false error.error="AI_APICallError: maximum context length is 9 tokens."`;
  const exit = { kind: "idle", code: null, stderr } as const;
  const end = { kind: "waiting", cause: "context_too_long" };
  for (const state of [NOTHING_READ, { ...NOTHING_READ, reason: "stop", text: "a summary" }])
    expect(classifyOpencode({ state, exit, resumes: false, now: 0 })).toMatchObject(end);
  expect(isOverflow(stderr)).toBe(true);
  expect(isOverflow(stderr.replace("maximum context", "no"))).toBe(false);
});
