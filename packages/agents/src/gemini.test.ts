import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  type GeminiState,
  INITIAL_GEMINI_STATE,
  classifyGemini,
  geminiArgs,
  parseChat,
  readGeminiLine,
  resetTime,
} from "./gemini.ts";

describe("argv", () => {
  test("a new session, with its permissions", () => {
    const task = { model: "gemini-2.5-pro", yolo: true, session: null };
    expect(geminiArgs({ task, session: "11", extra: [] }).join(" ")).toBe(
      "--output-format stream-json --skip-trust --yolo --model gemini-2.5-pro --session-id 11",
    );
  });

  test("a session to resume that may only edit files", () => {
    const task = { model: null, yolo: false, session: "11" };
    expect(geminiArgs({ task, session: "11", extra: [] }).join(" ")).toBe(
      "--output-format stream-json --skip-trust --approval-mode auto_edit --resume 11",
    );
  });
});

describe("reader", () => {
  function read(events: readonly object[]) {
    return events.reduce<GeminiState>(
      (state, event) => readGeminiLine(state, JSON.stringify(event)).state,
      INITIAL_GEMINI_STATE,
    );
  }

  test("no line crashes the reader, and an unknown line changes nothing", () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.string(), fc.json())), (lines) => {
        expect(lines.reduce((before, line) => readGeminiLine(before, line).state, INITIAL_GEMINI_STATE)).toEqual(
          INITIAL_GEMINI_STATE,
        );
      }),
    );
  });

  test("the final text is the text after the last tool call", () => {
    const say = (content: string) => ({ type: "message", role: "assistant", content, delta: true });
    const state = read([
      { type: "message", role: "user", content: "prompt" },
      say("I will"),
      { type: "tool_use", tool_name: "write_file", tool_id: "1", parameters: { file_path: "a" } },
      { type: "tool_result", tool_id: "1", status: "success" },
      say("All "),
      say("done."),
    ]);
    expect(state).toMatchObject({ text: "All done.", hasActed: true, result: null });
    expect(state.calls.size).toBe(0);
  });

  test("when a tool has ended, the session's file has the tokens of the response that called it", () => {
    const responseOf = (event: object) => readGeminiLine(INITIAL_GEMINI_STATE, JSON.stringify(event)).response;
    expect(responseOf({ type: "tool_use", tool_name: "write_file", tool_id: "1" })).toBeUndefined();
    expect(responseOf({ type: "tool_result", tool_id: "1", status: "success" })).toBe("more");
    expect(responseOf({ type: "result", status: "success" })).toBeUndefined();
  });

  test("a tool that policy forbids is denied; a tool that failed is not", () => {
    const use = (id: string, name: string) => ({ type: "tool_use", tool_id: id, tool_name: name, parameters: {} });
    const failed = (id: string, type: string) => ({
      type: "tool_result",
      tool_id: id,
      status: "error",
      error: { type },
    });
    const state = read([
      use("1", "web_fetch"),
      use("2", "replace"),
      use("3", "invented"),
      failed("1", "policy_violation"),
      failed("2", "edit_no_occurrence_found"),
      failed("3", "tool_not_registered"),
    ]);
    expect([...state.denied]).toEqual(["web_fetch"]);
  });

  test("an answer that occurs several times in a session's file counts once", () => {
    const anyAnswers = fc.uniqueArray(fc.record({ id: fc.uuid(), input: fc.nat(), more: fc.nat(), cached: fc.nat() }), {
      selector: ({ id }) => id,
      minLength: 1,
    });
    fc.assert(
      fc.property(anyAnswers, (answers) => {
        const messages = answers.map(({ id, input, more, cached }) => {
          const tokens = { input, output: 0, cached, thoughts: more, total: input + more };
          return { id, type: "gemini", content: "", tokens };
        });
        const lines = messages.map((message) => JSON.stringify(message));
        const text = [
          JSON.stringify({ sessionId: "abc", kind: "main" }),
          ...lines,
          JSON.stringify({ $set: { messages } }),
          (lines[0] ?? "").slice(0, -3),
        ].join("\n");
        const chat = parseChat(text);
        expect(chat).toMatchObject({ session: "abc", isEmpty: false });
        expect([...chat.answers.values()]).toEqual(
          answers.map(({ input, more, cached }) => ({ input, output: more, cached })),
        );
      }),
    );
  });

  test("a file without messages of the user or the model is empty", () => {
    const context = { type: "user", content: [{ text: "<session_context>\nToday…</session_context>" }] };
    const head = JSON.stringify({ sessionId: "abc" });
    const set = JSON.stringify({ $set: { messages: [context] } });
    expect(parseChat([head, set].join("\n"))).toMatchObject({ session: "abc", isEmpty: true });
    const said = JSON.stringify({ type: "user", content: [{ text: "Do it." }] });
    expect(parseChat([head, set, said].join("\n")).isEmpty).toBe(false);
  });
});

describe("classify", () => {
  function classify(params: {
    readonly message?: string;
    readonly code?: number;
    readonly stderr?: string;
    readonly resumes?: boolean;
    readonly state?: Partial<GeminiState>;
  }) {
    const { message, code = 1, stderr = "", resumes = false } = params;
    const result = message === undefined ? null : { isError: true, message, tokens: null };
    const exit = { kind: "exited", code, stderr } as const;
    return classifyGemini({ state: { ...INITIAL_GEMINI_STATE, result, ...params.state }, exit, resumes, now: 0 });
  }

  test("the status comes from the answer, else from the exit code", () => {
    const answer = JSON.stringify({ error: { code: 500, message: "oops", status: "INTERNAL" } });
    expect(classify({ message: `[API Error: ${answer}]`, code: 145 })).toMatchObject({
      cause: "overload",
      message: "Gemini CLI: oops",
    });
    for (const [code, cause] of [
      [145, "auth"],
      [147, "auth"],
      [173, "rate_limit"],
      [244, "overload"],
      [247, "overload"],
      [17, "overload"],
      [1, "crash"],
    ] as const)
      expect(classify({ message: "[API Error: words]", code })).toMatchObject({ kind: "failed", cause });
  });

  test("a rejected first request of a resumed session means an invalid history", () => {
    const wrong = { message: "[API Error: wrong]", code: 144 };
    expect(classify({ ...wrong, resumes: true })).toMatchObject({ cause: "session_lost" });
    expect(classify({ ...wrong, resumes: true, state: { hasActed: true } })).toMatchObject({ cause: "crash" });
    expect(classify(wrong)).toMatchObject({ cause: "crash" });
  });

  test("without a result the exit code decides, and nothing else is guessed", () => {
    const stderr = "YOLO mode is enabled.\nError resuming session: Invalid session identifier\n";
    expect(classify({ code: 42, resumes: true, stderr })).toMatchObject({ cause: "session_lost" });
    expect(classify({ code: 42, stderr: "No input" })).toEqual({ kind: "open" });
    expect(classify({ code: 41, stderr: "set GEMINI_API_KEY" })).toMatchObject({ cause: "auth" });
    expect(classify({ code: 0 })).toEqual({ kind: "open" });
  });

  test("a success with a denied tool is not a success", () => {
    const result = { isError: false, message: "", tokens: null };
    expect(classify({ state: { result, text: "Done." } })).toEqual({ kind: "completed", text: "Done." });
    const denied = new Set(["web_fetch"]);
    expect(classify({ state: { result, text: "Done.", denied } })).toMatchObject({ cause: "permission_denied" });
  });
});

describe("reset time", () => {
  test("durations count from now, in every notation", () => {
    expect(resetTime("Please retry in 1h2m3s.\nSuggested retry after 3723s.", 0)).toBe(3_723_000);
    expect(resetTime("Suggested retry after 2.5s.", 1000)).toBe(3500);
    expect(resetTime("Your quota will reset after 13h20m5s.", 0)).toBe(((13 * 60 + 20) * 60 + 5) * 1000);
  });

  test("a daily quota resets at midnight in the provider's time zone, on every day of a year", () => {
    const clock = new Intl.DateTimeFormat("en-US", {
      timeZone: "America/Los_Angeles",
      hourCycle: "h23",
      timeStyle: "medium",
    });
    const anyTime = fc.integer({ min: Date.UTC(2026, 0, 1), max: Date.UTC(2027, 0, 1) });
    fc.assert(
      fc.property(anyTime, (now) => {
        const at = resetTime("You have exhausted your daily quota on this model.", now) ?? Number.NaN;
        expect(clock.format(at)).toBe("00:00:00");
        expect(at).toBeGreaterThan(now);
        expect(at - now).toBeLessThanOrEqual(25 * 3_600_000);
      }),
    );
  });

  test("other texts give no time", () => {
    for (const text of ["", "Resource has been exhausted (e.g. check quota).", "retry later"])
      expect(resetTime(text, 0)).toBeNull();
  });
});
