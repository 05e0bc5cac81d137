import fc from "fast-check";
import { expect, test } from "vitest";
import type { AgentEvent } from "../../ports/agent.ts";
import { classifyClaude } from "./classify.ts";
import { readLogin } from "./login.ts";
import { NOTHING_READ, readClaudeLine } from "./reader.ts";

function read(...lines: readonly object[]) {
  const events: AgentEvent[] = [];
  let state = NOTHING_READ;
  for (const line of lines) {
    const step = readClaudeLine(state, JSON.stringify(line));
    state = step.state;
    events.push(...step.events);
  }
  return { state, events };
}

const TYPES = ["system", "assistant", "stream_event", "rate_limit_event", "result", "user"];
const hostile = fc.oneof(
  fc.string(),
  fc.json(),
  fc.tuple(fc.constantFrom(...TYPES), fc.object()).map(([type, rest]) => JSON.stringify({ ...rest, type })),
  fc
    .tuple(fc.constantFrom(...TYPES), fc.object(), fc.object())
    .map(([type, message, event]) =>
      JSON.stringify({ type, message, event, errors: [message], permission_denials: [event] }),
    ),
);

test("no line is a crash, and none of them is taken for a success", () => {
  fc.assert(
    fc.property(fc.array(hostile, { maxLength: 10 }), (lines) => {
      const state = lines.reduce((before, line) => readClaudeLine(before, line).state, NOTHING_READ);
      expect(classifyClaude(state, { resumes: false }).kind).not.toBe("completed");
    }),
  );
});

test("text, tools and messages are told; a subagent's words are not the agent's", () => {
  const content = [
    { type: "text", text: "Hello" },
    { type: "tool_use", name: "Bash", input: { command: "ls", description: "lists" } },
  ];
  const line = { type: "assistant", uuid: "u1", message: { id: "m1", model: "m", content } };
  const tool = { kind: "tool", name: "Bash", detail: "ls" };
  expect(read({ ...line, parent_tool_use_id: null }).events).toEqual([
    { kind: "text", text: "Hello" },
    tool,
    { kind: "message", id: "u1" },
  ]);
  expect(read({ ...line, parent_tool_use_id: "toolu_1" }).events).toEqual([tool]);
});

test("what the program says in the model's name is no work, and its error is kept until an answer comes", () => {
  const synthetic = { model: "<synthetic>", content: [{ type: "text", text: "API Error" }], usage: {} };
  const failed = { type: "assistant", uuid: "u", error: "overloaded", message: synthetic };
  expect(read(failed).events).toEqual([]);
  expect(read(failed).state.error).toBe("overloaded");
  expect(read(failed, { type: "assistant", message: { id: "m", model: "m", content: [] } }).state.error).toBe(null);
});

const RESULT = { type: "result", subtype: "success", is_error: false, num_turns: 1, terminal_reason: "completed" };

test.each([
  ["completed", {}, {}],
  ["permission_denied", { permission_denials: [{ tool_name: "Bash" }] }, {}],
  ["killed", { subtype: "error_during_execution", is_error: true, terminal_reason: "aborted_tools" }, {}],
  ["crash", { subtype: "error_max_turns", is_error: true, terminal_reason: "max_turns" }, {}],
  ["crash", { subtype: "error_during_execution", is_error: true, num_turns: 0, terminal_reason: "" }, {}],
  [
    "session_lost",
    { subtype: "error_during_execution", is_error: true, num_turns: 0, terminal_reason: "" },
    { resumes: true },
  ],
  ["session_lost", { is_error: true, api_error_status: 400 }, { resumes: true }],
  ["crash", { is_error: true, api_error_status: 400 }, {}],
  ["network", { is_error: true, api_error_status: 408 }, {}],
  ["overload", { is_error: true, api_error_status: 503 }, {}],
] as const)("%s: %j", (expected, change, params) => {
  const { state } = read({ ...RESULT, result: "said", ...change });
  const end = classifyClaude(state, { resumes: false, ...params });
  expect(end.kind === "failed" ? end.cause : end.kind).toBe(expected);
});

test("a limit that was not hit says nothing about when to come back", () => {
  const limit = (status: string) => ({
    type: "rate_limit_event",
    rate_limit_info: { status, resetsAt: 1_794_740_375 },
  });
  const refused = { ...RESULT, is_error: true, api_error_status: 429 };
  expect(classifyClaude(read(limit("allowed_warning"), refused).state, { resumes: false })).toMatchObject({
    until: null,
  });
  expect(classifyClaude(read(limit("rejected"), refused).state, { resumes: false })).toMatchObject({
    cause: "rate_limit",
    until: "2026-11-15T10:59:35.000Z",
  });
});

test("a login is missing only where the program says so", () => {
  const login = (text: string) => readLogin({ stdout: Buffer.from(text) }).problem;
  expect(login('{"loggedIn": false}')).toBe("Claude Code is not logged in");
  for (const text of ['{"loggedIn": true}', "", "error: unknown command", "[]"]) expect(login(text)).toBe(null);
});
