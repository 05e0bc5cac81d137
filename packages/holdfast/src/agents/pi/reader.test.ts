import fc from "fast-check";
import { expect, test } from "vitest";
import type { JsonRecord } from "../../core/record.ts";
import { NOTHING_READ, readPiLine } from "./reader.ts";

function readAll(events: readonly JsonRecord[]) {
  let state = NOTHING_READ;
  const told = events.flatMap((event) => {
    const step = readPiLine(state, JSON.stringify(event));
    state = step.state;
    return step.events;
  });
  return { state, told };
}

const message = (text: string, stopReason: string, output: number) => ({
  role: "assistant",
  content: [{ type: "text", text }],
  stopReason,
  usage: { input: 10, cacheRead: 2, cacheWrite: 3, output, cost: { total: 0.5 } },
});

test("messages add up, and one that is being written counts as far as it is known", () => {
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
  const { state, told } = readAll(begun);
  expect(state).toMatchObject({
    spent: { input: 15, output: 4, cost: 0.5 },
    open: { input: 15, output: 1 },
    isOver: false,
  });
  expect(told).toEqual([
    { kind: "session", id: "s1" },
    { kind: "text", text: "Now." },
    { kind: "usage", tokens: 19 },
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

test("a line that says that it tries again is no sign of life, and what follows it is not over", () => {
  expect(readPiLine(NOTHING_READ, '{"type":"auto_retry_start"}').waiting).toBe(true);
  expect(readAll([{ type: "agent_end" }, { type: "agent_start" }]).state.isOver).toBe(false);
});

test("its last line counts also where it is too long for one", () => {
  expect(readPiLine(NOTHING_READ, '{"type":"agent_end","messages":[{"role":"us').state.isOver).toBe(true);
});

test("a tool that it does not have", () => {
  const result = { content: [{ type: "text", text: "Tool bash not found" }] };
  const { state } = readAll([{ type: "tool_execution_end", toolName: "bash", isError: true, result }]);
  expect(state.absent).toEqual(new Set(["bash"]));
});

test("no line is too strange", () => {
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
        readPiLine(NOTHING_READ, line);
      },
    ),
  );
});
