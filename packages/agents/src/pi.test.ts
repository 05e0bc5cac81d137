import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { JsonRecord } from "@holdfast/core/json";
import {
  INITIAL_PI_STATE,
  type PiState,
  classifyPi,
  locateTranscript,
  piArgs,
  readPiLine,
  sessionFileName,
} from "./pi.ts";

describe("argv", () => {
  test("a new session with all permissions", () => {
    const args = piArgs({ task: { model: "anthropic/claude-opus-4-5", yolo: true, session: null }, extra: [] });
    expect(args.join(" ")).toBe("--print --mode json --model anthropic/claude-opus-4-5");
  });

  test("a session to resume, without a shell", () => {
    const args = piArgs({ task: { model: null, yolo: false, session: "11" }, extra: [] });
    expect(args.join(" ")).toBe("--print --mode json --tools read,edit,write,grep,find,ls --session 11");
  });
});

describe("reader", () => {
  function readAll(events: readonly JsonRecord[]) {
    let state = INITIAL_PI_STATE;
    const reported = events.flatMap((event) => {
      const step = readPiLine(state, JSON.stringify(event));
      state = step.state;
      return step.events;
    });
    return { state, reported };
  }

  const message = (text: string, stopReason: string, output: number) => ({
    role: "assistant",
    content: [{ type: "text", text }],
    stopReason,
    usage: { input: 10, cacheRead: 2, cacheWrite: 3, output, cost: { total: 0.5 } },
  });

  test("messages add up, and an unfinished message counts with its usage so far", () => {
    const first = message("Now.", "toolUse", 4);
    const begun = [
      { type: "session", id: "s1" },
      { type: "agent_start" },
      { type: "message_start", message: message("", "stop", 1) },
      { type: "message_update", message: message("No", "stop", 1) },
      { type: "message_end", message: first },
      { type: "tool_execution_start", toolName: "bash", args: { command: "ls" } },
      { type: "message_start", message: message("", "stop", 1) },
    ];
    const { state, reported } = readAll(begun);
    expect(state).toMatchObject({
      spent: { input: 15, output: 4, cost: 0.5 },
      open: { input: 15, output: 1 },
      isOver: false,
    });
    expect(reported).toEqual([
      { kind: "session", id: "s1" },
      { kind: "text", text: "Now." },
      { kind: "tool", name: "bash", detail: "ls" },
    ]);
    const ended = readAll([
      ...begun,
      { type: "message_end", message: message("Done.", "stop", 6) },
      { type: "agent_end" },
    ]);
    expect(ended.state).toMatchObject({ spent: { input: 30, output: 10, cost: 1 }, open: null, isOver: true });
    expect(ended.state.last).toEqual({ text: "Done.", stop: "stop", error: "" });
  });

  test("the usage is streamed with each message: one that calls tools, one that ends the turn", () => {
    const responseOf = (stop: string) => {
      const line = { type: "message_end", message: message("x", stop, 1) };
      return readPiLine(INITIAL_PI_STATE, JSON.stringify(line)).response;
    };
    expect([responseOf("toolUse"), responseOf("stop")]).toEqual(["more", "last"]);
  });

  test("a line about a retry does not reset the idle limit, and the call is not over after it", () => {
    expect(readPiLine(INITIAL_PI_STATE, '{"type":"auto_retry_start"}').waiting).toBe(true);
    expect(readAll([{ type: "agent_end" }, { type: "agent_start" }]).state.isOver).toBe(false);
  });

  test("the last line counts although it exceeds the line limit", () => {
    expect(readPiLine(INITIAL_PI_STATE, '{"type":"agent_end","messages":[{"role":"us').state.isOver).toBe(true);
  });

  test("a tool that does not exist is recorded as absent", () => {
    const result = { content: [{ type: "text", text: "Tool bash not found" }] };
    const { state } = readAll([{ type: "tool_execution_end", toolName: "bash", isError: true, result }]);
    expect(state.absent).toEqual(new Set(["bash"]));
  });

  test("no line crashes the reader", () => {
    const kinds = ["session", "message_end", "message_update", "tool_execution_start", "tool_execution_end"];
    const record = fc.record({
      type: fc.constantFrom(...kinds),
      message: fc.anything(),
      args: fc.anything(),
      result: fc.anything(),
    });
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.json(),
          record.map((value) => JSON.stringify(value)),
        ),
        (line) => {
          readPiLine(INITIAL_PI_STATE, line);
        },
      ),
    );
  });
});

describe("classify", () => {
  function classify(
    state: Partial<PiState>,
    params: { resumes?: boolean; yolo?: boolean; code?: number; stderr?: string } = {},
  ) {
    const { resumes = false, yolo = true, code = 0, stderr = "" } = params;
    const exit = { kind: "exited", code, stderr } as const;
    return classifyPi({ state: { ...INITIAL_PI_STATE, ...state }, exit, resumes, yolo });
  }

  const last = (stop: string, error = "") => ({ last: { text: "Done.", stop, error }, isOver: true });

  test("completed needs a last message that stopped by itself", () => {
    expect(classify(last("stop"))).toEqual({ kind: "completed", text: "Done." });
    expect(classify({ ...last("stop"), isOver: false })).toEqual({ kind: "open" });
    expect(classify(last("length"))).toMatchObject({ cause: "crash" });
    const denied = { ...last("stop"), absent: new Set(["bash"]) };
    expect(classify(denied, { yolo: false })).toMatchObject({ cause: "permission_denied" });
    expect(classify(denied)).toMatchObject({ kind: "completed" });
  });

  test("the exit code is 0 also for a rejection by the provider", () => {
    const causes = ["401 {}", "404 {}", "429 {}", "529 {}", "400 {}", "terminated", "400 prompt is too long"];
    expect(causes.map((error) => classify(last("error", error)))).toMatchObject(
      ["auth", "missing", "rate_limit", "overload", "crash", "network", "context_too_long"].map((cause) => ({ cause })),
    );
    expect(classify(last("error", "400 {}"), { resumes: true })).toMatchObject({ cause: "session_lost" });
  });

  test("errors before the start have their cause", () => {
    const said = (stderr: string) => classify({}, { code: 1, stderr });
    expect(said("No session found matching '1'")).toMatchObject({ cause: "session_lost" });
    expect(said('Error: Model "a/b" not found. Use --list-models')).toMatchObject({ cause: "missing" });
    expect(said("No API key found for anthropic.")).toMatchObject({ cause: "auth" });
    expect(said("Segmentation fault")).toEqual({ kind: "open" });
  });
});

describe("transcript place", () => {
  test("each worktree has a folder, each session a file", () => {
    const place = locateTranscript({ session: "s1", cwd: "/work/a b", env: { HOME: "/h" } });
    expect(place).toEqual({ folder: "/h/.pi/agent/sessions/--work-a b--", ending: "_s1.jsonl" });
    expect(sessionFileName(place, "2026-11-15T10:20:48.936Z")).toBe("2026-11-15T10-20-48-936Z_s1.jsonl");
  });

  test("configured directories are used", () => {
    const at = (env: Record<string, string>) =>
      locateTranscript({ session: "s1", cwd: "/w", env: { HOME: "/h", ...env } }).folder;
    expect(at({ PI_CODING_AGENT_DIR: "~/p" })).toBe("/h/p/sessions/--w--");
    expect(at({ PI_CODING_AGENT_SESSION_DIR: "/s" })).toBe("/s");
  });
});
