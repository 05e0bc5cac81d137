import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { JsonRecord } from "@holdfast/core/json";
import {
  type CopilotState,
  INITIAL_COPILOT_STATE,
  classifyCopilot,
  copilotArgs,
  readCopilotLine,
  tokensByEvent,
} from "./copilot.ts";

describe("argv", () => {
  test("a new session with all permissions", () => {
    const task = { model: "gpt-5", yolo: true, session: null };
    expect(copilotArgs({ task, session: "11", extra: [] }).join(" ")).toBe(
      "--output-format=json --no-auto-update --yolo --model=gpt-5 --session-id=11",
    );
  });

  test("a session to resume that may only edit files", () => {
    const task = { model: null, yolo: false, session: "11" };
    expect(copilotArgs({ task, session: "11", extra: [] }).join(" ")).toBe(
      "--output-format=json --no-auto-update --allow-tool=write --resume=11",
    );
  });
});

describe("reader", () => {
  function readAll(events: readonly JsonRecord[]) {
    let state = INITIAL_COPILOT_STATE;
    const steps = events.map((event) => {
      const step = readCopilotLine(state, JSON.stringify(event));
      state = step.state;
      return step;
    });
    return { state, reported: steps.flatMap((step) => step.events), waits: steps.map((step) => step.waiting === true) };
  }

  test("reads text, tool calls and the end", () => {
    const { state, reported } = readAll([
      { type: "assistant.message", data: { content: "Now." } },
      { type: "tool.execution_start", data: { toolCallId: "1", toolName: "bash", arguments: { command: "ls" } } },
      { type: "tool.execution_complete", data: { toolCallId: "1", success: false, error: { code: "denied" } } },
      { type: "assistant.message", data: { content: "Done." } },
      { type: "result", sessionId: "s1", exitCode: 0 },
    ]);
    expect(state).toMatchObject({ text: "Done.", exitCode: 0, error: null, denied: new Set(["bash"]) });
    expect(reported).toEqual([
      { kind: "text", text: "Now." },
      { kind: "tool", name: "bash", detail: "ls" },
      { kind: "text", text: "Done." },
      { kind: "session", id: "s1" },
    ]);
  });

  test("after each tool call, and before each request, the session's file may have the tokens of a response", () => {
    const responseOf = (event: object) => readCopilotLine(INITIAL_COPILOT_STATE, JSON.stringify(event)).response;
    expect(responseOf({ type: "tool.execution_complete", data: { toolCallId: "1", success: true } })).toBe("more");
    expect(responseOf({ type: "model.call_start" })).toBe("more");
    expect(responseOf({ type: "assistant.message", data: { content: "Done." } })).toBeUndefined();
  });

  test("no line between a refusal and an answer resets the idle limit", () => {
    const { waits, state } = readAll([
      { type: "model.call_start" },
      { type: "model.call_failure", data: { statusCode: 429, errorMessage: "slow down" } },
      { type: "assistant.turn_retry" },
      { type: "model.call_start" },
      { type: "assistant.message_start" },
    ]);
    expect(waits).toEqual([false, true, true, true, false]);
    expect(state.refused).toBeNull();
  });

  test("no line crashes the reader", () => {
    const kinds = ["assistant.message", "tool.execution_start", "tool.execution_complete", "session.error", "result"];
    const record = fc.record({ type: fc.constantFrom(...kinds), data: fc.anything(), exitCode: fc.anything() });
    const strange = record.map((value) => JSON.stringify(value));
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json(), strange), (line) => {
        readCopilotLine(INITIAL_COPILOT_STATE, line);
      }),
    );
  });
});

describe("classify", () => {
  function classify(state: Partial<CopilotState>, params: { resumes?: boolean; code?: number; stderr?: string } = {}) {
    const { resumes = false, code = 0, stderr = "" } = params;
    const exit = { kind: "exited", code, stderr } as const;
    return classifyCopilot({ state: { ...INITIAL_COPILOT_STATE, ...state }, exit, resumes });
  }

  const error = (status: number | null, type = "query", message = "words") => ({
    error: { type, message, status },
    exitCode: 1,
  });

  test("completed needs its own last event and no denial", () => {
    expect(classify({ exitCode: 0, text: "Done." })).toEqual({ kind: "completed", text: "Done." });
    expect(classify({ text: "Done." })).toEqual({ kind: "open" });
    expect(classify({ exitCode: 1 })).toMatchObject({ cause: "crash" });
    expect(classify({ exitCode: 0, denied: new Set(["bash"]) })).toMatchObject({ cause: "permission_denied" });
  });

  test("the cause of a failure comes from its own report, the provider's, or the status", () => {
    expect(classify(error(null, "authentication"))).toMatchObject({ cause: "auth" });
    expect(classify(error(429, "quota"))).toMatchObject({ cause: "billing" });
    expect([404, 429, 503, 400].map((status) => classify(error(status)))).toMatchObject(
      ["missing", "rate_limit", "overload", "crash"].map((cause) => ({ cause })),
    );
    const refused = { type: "", message: "prompt is too long", status: 400 };
    expect(classify({ ...error(400), refused })).toMatchObject({ cause: "context_too_long" });
    const cut = "Failed native model HTTP request: error reading a body from connection: unexpected EOF";
    expect(classify(error(null, "query", cut))).toMatchObject({ cause: "network" });
    expect(classify(error(400), { resumes: true })).toMatchObject({ cause: "session_lost" });
  });

  test("without a last event, the cause is what it waits for or an error before the start", () => {
    const refused = { type: "", message: "busy", status: 529 };
    expect(classify({ refused })).toMatchObject({ kind: "waiting", cause: "overload" });
    const said = (stderr: string) => classify({}, { code: 1, stderr });
    expect(said("Error: No session, task, or name matched '1'.")).toMatchObject({ cause: "session_lost" });
    expect(said("Error: No authentication information found.")).toMatchObject({ cause: "auth" });
    expect(said("Segmentation fault")).toEqual({ kind: "open" });
  });
});

describe("spent", () => {
  test("each record counts once, whatever else is in the file and wherever it ends", () => {
    const usage = fc.record({ inputTokens: fc.nat(), outputTokens: fc.nat() });
    fc.assert(
      fc.property(fc.array(usage), fc.array(fc.json()), (usages, others) => {
        const lines = usages.map((used, id) =>
          JSON.stringify({ type: "session.usage_record", id: `${id}`, data: { usage: used } }),
        );
        const text = [...lines, ...others, ...lines, (lines[0] ?? "").slice(0, -3)].join("\n");
        expect([...tokensByEvent(text).values()]).toEqual(
          usages.map(({ inputTokens, outputTokens }) => ({ input: inputTokens, output: outputTokens })),
        );
      }),
    );
  });
});
