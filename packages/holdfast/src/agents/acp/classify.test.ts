import { describe, expect, test } from "vitest";
import { classifyAcp, type AcpEnd } from "./classify.ts";

describe("ends", () => {
  const base = { title: "X", text: "words", denied: [], resumes: false, worked: false };
  const ended = (end: AcpEnd | null, change: object = {}) => classifyAcp({ ...base, end, ...change });
  const refused = (code: number, message = "no", at: "begin" | "session" | "prompt" = "prompt"): AcpEnd => ({
    kind: "refused",
    at,
    error: { code, message },
  });

  const provider = (message: string, status: number | null = null): AcpEnd => ({
    kind: "refused",
    at: "prompt",
    error: { code: -32_603, message, status, isProvider: true },
  });

  test.each([
    ["end_turn", "completed"],
    ["max_tokens", "context_too_long"],
    ["max_turn_requests", "crash"],
    ["refusal", "refusal"],
    ["cancelled", "killed"],
    ["from_the_future", "crash"],
  ])("%s: %s", (stopReason, expected) => {
    const end = ended({ kind: "answered", stopReason });
    expect(end.kind === "failed" ? end.cause : end.kind).toBe(expected);
  });

  test.each([
    [refused(-32_000), {}, "auth"],
    [refused(401), {}, "auth"],
    [refused(429), {}, "rate_limit"],
    [refused(500), {}, "overload"],
    [refused(500, "models/x is not found"), {}, "missing"],
    [refused(500, "fetch failed"), {}, "network"],
    [refused(-32_603, '{"error":{"code":503,"message":"busy"}}'), {}, "overload"],
    [refused(500, "terminated"), {}, "network"],
    [refused(-32_603, "Internal error: 401 invalid api key"), {}, "auth"],
    [refused(-32_603, "Internal error: 401 OAuth token has expired. Please log in again."), {}, "auth"],
    [refused(-32_603, "Internal error: 500 internal error"), {}, "overload"],
    [refused(-32_603, "Internal error: 429 slow down"), {}, "rate_limit"],
    [refused(-32_603, "Internal error"), {}, "crash"],
    [refused(-32_603, "EACCES: permission denied"), {}, "crash"],
    [provider("permission denied"), {}, "auth"],
    [provider("invalid api key"), {}, "auth"],
    [provider("internal error"), {}, "overload"],
    [provider("no", 402), {}, "billing"],
    [provider("something else"), { resumes: true }, "crash"],
    [refused(400), {}, "crash"],
    [refused(400), { resumes: true }, "session_lost"],
    [refused(400), { resumes: true, worked: true }, "crash"],
    [refused(-32_002, "unknown session", "session"), { resumes: true }, "session_lost"],
    [refused(-32_000, "log in", "session"), { resumes: true }, "auth"],
    [refused(-32_603, "broken", "session"), {}, "crash"],
  ])("%j, %j: %s", (end, change, cause) => {
    expect(ended(end, change)).toMatchObject({ kind: "failed", cause });
  });

  test("what was denied is no success, and no answer is none", () => {
    const answered: AcpEnd = { kind: "answered", stopReason: "end_turn" };
    expect(ended(answered, { denied: ["rm"] })).toMatchObject({
      cause: "permission_denied",
      message: expect.stringContaining("rm"),
    });
    expect(ended(null)).toEqual({ kind: "open" });
  });
});

test("what Copilot CLI says in place of an answer is a failure, whatever the end of the turn says", () => {
  const answered = { kind: "answered", stopReason: "end_turn" } as const;
  const of = (text: string, title = "Copilot") =>
    classifyAcp({ end: answered, title, text, denied: [], resumes: false, worked: true });
  expect(of("Error: Authentication failed with provider (HTTP 403).")).toMatchObject({ cause: "auth" });
  expect(of("Error: 400 This model requires a newer version of the client.")).toMatchObject({ cause: "too_old" });
  expect(of("Info: Retrying...Error: stream ended without a message")).toMatchObject({ cause: "network" });
  expect(of("Error: retried 5 times. Last error: 500 internal error")).toMatchObject({ cause: "overload" });
  expect(of("Error: I fixed it", "Gemini CLI")).toMatchObject({ kind: "completed" });
  expect(of("The test printed Error: x, which I fixed.")).toMatchObject({ kind: "completed" });
});
