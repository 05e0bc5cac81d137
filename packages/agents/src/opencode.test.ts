import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { JsonRecord } from "@holdfast/core/json";
import {
  INITIAL_OPENCODE_STATE,
  type OpencodeState,
  classifyOpencode,
  isOverflow,
  opencodeArgs,
  opencodeEnv,
  readOpencodeLine,
} from "./opencode.ts";

describe("argv", () => {
  test("a new session with all permissions", () => {
    const task = { cwd: "/w", model: "anthropic/claude-opus-4", yolo: true, session: null, role: "impl" };
    expect(opencodeArgs({ task, extra: [] }).join(" ")).toBe(
      "run --print-logs --log-level ERROR --format json --dir /w --title impl --auto --model anthropic/claude-opus-4",
    );
    expect(opencodeEnv({ task, env: {} })).toEqual({ PWD: "/w" });
  });

  test("a session to resume that may only edit files, unless the user has set its permissions", () => {
    const task = { cwd: "/w", model: null, yolo: false, session: "ses_1", role: "review" };
    expect(opencodeArgs({ task, extra: [] }).join(" ")).toBe(
      "run --print-logs --log-level ERROR --format json --dir /w --title review --session ses_1",
    );
    expect(opencodeEnv({ task, env: {} })["OPENCODE_PERMISSION"]).toContain('"bash":"ask"');
    expect(opencodeEnv({ task, env: { OPENCODE_PERMISSION: "{}" } })).toEqual({ PWD: "/w" });
  });
});

describe("reader", () => {
  function readAll(events: readonly JsonRecord[]) {
    let state = INITIAL_OPENCODE_STATE;
    const responses: unknown[] = [];
    const reported = events.flatMap((event) => {
      const step = readOpencodeLine(state, JSON.stringify({ sessionID: "ses_1", ...event }));
      state = step.state;
      if (step.response !== undefined) responses.push([step.response, state.spent?.input, state.spent?.output]);
      return step.events.filter(({ kind }) => kind !== "session");
    });
    return { state, reported, responses };
  }

  const finish = (reason: string, input: number, output: number): JsonRecord => ({
    type: "step_finish",
    part: { reason, cost: 0.25, tokens: { input, output, reasoning: 1, cache: { read: 2, write: 3 } } },
  });

  test("steps add up, and the final text is that of the last step", () => {
    const { state, reported, responses } = readAll([
      { type: "step_start" },
      { type: "text", part: { text: "First." } },
      { type: "tool_use", part: { tool: "bash", state: { status: "completed", input: { command: "ls" } } } },
      finish("tool-calls", 10, 4),
      { type: "step_start" },
      { type: "text", part: { text: "Done." } },
      finish("stop", 20, 5),
    ]);
    expect(state).toMatchObject({ text: "Done.", reason: "stop", hasActed: true, error: null });
    expect(state.spent).toEqual({ input: 40, output: 11, cost: 0.5 });
    expect(reported).toEqual([
      { kind: "text", text: "First." },
      { kind: "tool", name: "bash", detail: "ls" },
      { kind: "text", text: "Done." },
    ]);
    // The usage is streamed with each step: the first calls tools, the second ends the turn.
    expect(responses).toEqual([
      ["more", 15, 5],
      ["last", 40, 11],
    ]);
  });

  test("a step that begins after one that ended keeps the call open", () => {
    expect(readAll([finish("stop", 1, 1), { type: "step_start" }]).state.reason).toBeNull();
  });

  test("reports a denied tool", () => {
    const call = (error: string) =>
      readAll([{ type: "tool_use", part: { tool: "bash", state: { status: "error", error } } }]);
    expect(call("The user rejected permission to use this specific tool call.").state.denied).toEqual(
      new Set(["bash"]),
    );
    expect(call("No such file").state.denied).toEqual(new Set());
  });

  test("no line crashes the reader", () => {
    const record = fc.record({
      type: fc.constantFrom("step_start", "text", "tool_use", "step_finish", "error", "other"),
      part: fc.anything(),
      error: fc.anything(),
      sessionID: fc.anything(),
    });
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.json(),
          record.map((value) => JSON.stringify(value)),
        ),
        (line) => {
          readOpencodeLine(INITIAL_OPENCODE_STATE, line);
        },
      ),
    );
  });
});

describe("classify", () => {
  function classify(state: Partial<OpencodeState>, params: { resumes?: boolean; code?: number; stderr?: string } = {}) {
    const { resumes = false, code = 0, stderr = "" } = params;
    const exit = { kind: "exited", code, stderr } as const;
    return classifyOpencode({ state: { ...INITIAL_OPENCODE_STATE, ...state }, exit, resumes, now: 0 });
  }

  function refused(statusCode: number, more: object = {}) {
    return { error: { name: "APIError", data: { message: `scripted ${statusCode}`, statusCode, ...more } } };
  }

  test("completed needs a last step that stopped by itself, and no denial", () => {
    expect(classify({ reason: "stop", text: "Done." })).toEqual({ kind: "completed", text: "Done." });
    expect(classify({ reason: null })).toEqual({ kind: "open" });
    expect(classify({ reason: "length" })).toMatchObject({ cause: "crash" });
    const denied = new Set(["bash"]);
    for (const reason of ["stop", "tool-calls"])
      expect(classify({ reason, denied })).toMatchObject({ cause: "permission_denied" });
  });

  test("a rejection is classified by its status, and by its text where the status is ambiguous", () => {
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

  test("a missing session, and a session whose history is rejected, are lost", () => {
    const stderr = "Error: Session not found";
    expect(classify({}, { resumes: true, code: 1, stderr })).toMatchObject({ cause: "session_lost" });
    expect(classify({}, { code: 1, stderr })).toEqual({ kind: "open" });
    expect(classify(refused(400), { resumes: true })).toMatchObject({ cause: "session_lost" });
    expect(classify({ ...refused(400), hasActed: true }, { resumes: true })).toMatchObject({ cause: "crash" });
  });

  test("a call that was ended because its prompt stays too long fails with that cause only", () => {
    const stderr = `level=ERROR message="stream error" small=false error.error="AI_APICallError: maximum context length is 9 tokens."`;
    const exit = { kind: "idle", code: null, stderr } as const;
    const end = { kind: "waiting", cause: "context_too_long" };
    for (const state of [INITIAL_OPENCODE_STATE, { ...INITIAL_OPENCODE_STATE, reason: "stop", text: "a summary" }])
      expect(classifyOpencode({ state, exit, resumes: false, now: 0 })).toMatchObject(end);
    expect(isOverflow(stderr)).toBe(true);
    expect(isOverflow(stderr.replace("maximum context", "no"))).toBe(false);
  });
});
