import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { JsonRecord } from "@holdfast/core/json";
import {
  INITIAL_QWEN_STATE,
  type QwenApiError,
  type QwenResult,
  classifyQwen,
  parseRequestRecord,
  qwenArgs,
  readQwenLine,
  sessionFile,
} from "./qwen.ts";

describe("argv", () => {
  const ALWAYS = "--output-format stream-json --include-partial-messages --approval-mode";

  test("a new session with all permissions", () => {
    const task = { model: "qwen3-coder-plus", yolo: true, session: null };
    expect(qwenArgs({ task, session: "11", extra: [] }).join(" ")).toBe(
      `${ALWAYS} yolo --model qwen3-coder-plus --session-id 11`,
    );
  });

  test("a session to resume that may only edit files", () => {
    const task = { model: null, yolo: false, session: "11" };
    expect(qwenArgs({ task, session: "11", extra: [] }).join(" ")).toBe(`${ALWAYS} auto-edit --resume 11`);
  });
});

describe("reader", () => {
  function readAll(events: readonly JsonRecord[]) {
    let state = INITIAL_QWEN_STATE;
    const reported = events.flatMap((event) => {
      const step = readQwenLine(state, JSON.stringify(event));
      state = step.state;
      return step.events;
    });
    return { state, reported };
  }

  const says = (...content: readonly JsonRecord[]) => ({ type: "assistant", message: { content } });

  test("reads text, tool calls and the end", () => {
    const { state, reported } = readAll([
      { type: "system", subtype: "init", session_id: "s1" },
      says({ type: "text", text: "Now." }, { type: "tool_use", name: "run_shell_command", input: { command: "ls" } }),
      { type: "result", is_error: false, result: "Done.", permission_denials: [{ tool_name: "web_fetch" }] },
    ]);
    expect(state).toMatchObject({ hasActed: true });
    expect(state.result).toEqual({ isError: false, text: "Done.", error: "", denied: ["web_fetch"] });
    expect(reported).toEqual([
      { kind: "session", id: "s1" },
      { kind: "text", text: "Now." },
      { kind: "tool", name: "run_shell_command", detail: "ls" },
    ]);
  });

  test("the tokens of each answer are streamed once, with reasoning as output, and the last answer is named", () => {
    const says = (id: string, total: number, stop: string | null) => {
      const usage = { input_tokens: 100, output_tokens: 20, cache_read_input_tokens: 40, total_tokens: total };
      const message = { id, content: [{ type: "text", text: "x" }], stop_reason: stop, usage };
      return JSON.stringify({ type: "assistant", message });
    };
    const one = readQwenLine(INITIAL_QWEN_STATE, says("a", 120, "tool_use"));
    const again = readQwenLine(one.state, says("a", 130, "tool_use"));
    const two = readQwenLine(again.state, says("b", 150, null));
    expect([one.response, again.response, two.response]).toEqual(["more", "more", "last"]);
    expect(two.state.answers).toEqual(
      new Map([
        ["a", { input: 100, output: 30, cached: 40 }],
        ["b", { input: 100, output: 50, cached: 40 }],
      ]),
    );
    expect(readQwenLine(INITIAL_QWEN_STATE, JSON.stringify({ type: "assistant", message: {} })).response).toBe(
      undefined,
    );
  });

  test("a failure that is reported as text is not the text, and a result without a flag is an error", () => {
    expect(readAll([says({ type: "text", text: "[API Error: 401 no]" })]).state.hasActed).toBe(false);
    expect(readAll([{ type: "result" }]).state.result?.isError).toBe(true);
  });

  test("no line crashes the reader", () => {
    const record = fc.record({
      type: fc.constantFrom("system", "assistant", "result", "other"),
      message: fc.anything(),
      error: fc.anything(),
      permission_denials: fc.anything(),
      session_id: fc.anything(),
    });
    const strange = record.map((value) => JSON.stringify(value));
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json(), strange), (line) => {
        readQwenLine(INITIAL_QWEN_STATE, line);
      }),
    );
  });
});

describe("classify", () => {
  function classify(
    result: Partial<QwenResult> | null,
    params: { resumes?: boolean; code?: number; stderr?: string; refused?: QwenApiError } = {},
  ) {
    const { resumes = false, code = 0, stderr = "", refused = null } = params;
    const whole = result === null ? null : { isError: false, text: "Done.", error: "", denied: [], ...result };
    const exit = { kind: "exited", code, stderr } as const;
    return classifyQwen({ state: { ...INITIAL_QWEN_STATE, result: whole }, refused, exit, resumes });
  }

  const failed = (words: string) => ({ isError: true, error: `[API Error: ${words}]` });

  test("completed needs a result without an error, and no denial", () => {
    expect(classify({})).toEqual({ kind: "completed", text: "Done." });
    expect(classify(null)).toEqual({ kind: "open" });
    expect(classify({ denied: ["run_shell_command"] })).toMatchObject({ cause: "permission_denied" });
  });

  test("a rejection is classified by the status at the start of its text", () => {
    for (const [words, cause] of [
      ["401 no", "auth"],
      ["404 no", "missing"],
      ["429 no", "rate_limit"],
      ["500 no", "overload"],
      ["400 no", "crash"],
      ["Connection error.", "network"],
      ["400 maximum context length", "context_too_long"],
      ["Context is too large to send", "context_too_long"],
    ] as const)
      expect(classify(failed(words))).toMatchObject({ kind: "failed", cause });
    expect(classify(failed("no"), { refused: { status: 403, message: "no" } })).toMatchObject({ cause: "auth" });
    expect(classify(failed("400 no"), { resumes: true })).toMatchObject({ cause: "session_lost" });
    expect(classify(failed("401 no"))).toMatchObject({ message: "Qwen Code: 401 no" });
  });

  test("silence after a refusal means that it waits for another answer", () => {
    const refused = { status: 429, message: "429 slow down" };
    expect(classify(null, { refused })).toMatchObject({
      kind: "waiting",
      cause: "rate_limit",
      message: "Qwen Code: 429 slow down",
    });
  });

  test("errors before the start have their cause", () => {
    const said = (stderr: string) => classify(null, { code: 1, stderr });
    expect(said("No saved session found with ID 1.")).toMatchObject({ cause: "session_lost" });
    expect(said("No auth type is selected.")).toMatchObject({ cause: "auth" });
    expect(said("Segmentation fault")).toEqual({ kind: "open" });
  });
});

describe("record", () => {
  const line = (uuid: string, uiEvent: object) =>
    JSON.stringify({ uuid, type: "system", subtype: "ui_telemetry", systemPayload: { uiEvent } });
  const answer = (uuid: string, input: number, output: number, more: object = {}) =>
    line(uuid, {
      "event.name": "qwen-code.api_response",
      input_token_count: input,
      total_token_count: input + output,
      ...more,
    });
  const error = (status: number, more: object = {}) =>
    line("e", { "event.name": "qwen-code.api_error", status_code: status, error_message: `${status} no`, ...more });

  test("each answer counts once, whatever else is in the file and wherever it ends", () => {
    const spent = fc.array(fc.record({ input: fc.nat(1e6), output: fc.nat(1e6) }));
    fc.assert(
      fc.property(spent, fc.array(fc.json()), (answers, others) => {
        const lines = answers.map(({ input, output }, id) => answer(`${id}`, input, output));
        const text = [...lines, ...others, ...lines, (lines[0] ?? "").slice(0, -3)].join("\n");
        expect([...parseRequestRecord(text).answers.values()]).toEqual(
          answers.map((tokens) => ({ ...tokens, cached: 0 })),
        );
      }),
    );
  });

  test("records from before the call do not count", () => {
    const before = `${answer("a", 10, 1)}\n${error(500)}\n`;
    expect(parseRequestRecord(before, before)).toEqual({ answers: new Map(), refused: null });
    const cached = answer("b", 7, 2, { cached_content_token_count: 5 });
    expect([...parseRequestRecord(`${before}${cached}\n`, before).answers.values()]).toEqual([
      { input: 7, output: 2, cached: 5 },
    ]);
  });

  test("a refusal counts until a request of the main conversation succeeds", () => {
    const side = { subagent_name: "managed-auto-memory-extractor" };
    const refused = { status: 429, message: "429 no" };
    expect(parseRequestRecord(error(429)).refused).toEqual(refused);
    expect(parseRequestRecord([error(429), answer("b", 1, 1, side)].join("\n")).refused).toEqual(refused);
    expect(parseRequestRecord([error(429), answer("b", 1, 1)].join("\n")).refused).toBeNull();
    expect(parseRequestRecord(error(429, side)).refused).toBeNull();
  });
});

describe("transcript place", () => {
  const at = (env: Record<string, string>) => sessionFile({ session: "s1", cwd: "/w/a.b_c", env });

  test("each session has one file, in a folder named after the worktree", () => {
    expect(at({ HOME: "/h" })).toBe("/h/.qwen/projects/-w-a-b-c/chats/s1.jsonl");
    expect(at({ HOME: "/h", QWEN_HOME: "/q" })).toBe("/q/projects/-w-a-b-c/chats/s1.jsonl");
    expect(at({ QWEN_HOME: "/q", QWEN_RUNTIME_DIR: "/r" })).toBe("/r/projects/-w-a-b-c/chats/s1.jsonl");
  });
});
