import fc from "fast-check";
import { expect, test } from "vitest";
import type { JsonRecord } from "../../core/record.ts";
import { NOTHING_READ, readOpencodeLine } from "./reader.ts";

function readAll(events: readonly JsonRecord[]) {
  let state = NOTHING_READ;
  const told = events.flatMap((event) => {
    const step = readOpencodeLine(state, JSON.stringify({ sessionID: "ses_1", ...event }));
    state = step.state;
    return step.events.filter(({ kind }) => kind !== "session");
  });
  return { state, told };
}

const finish = (reason: string, input: number, output: number): JsonRecord => ({
  type: "step_finish",
  part: { reason, cost: 0.25, tokens: { input, output, reasoning: 1, cache: { read: 2, write: 3 } } },
});

test("steps add up, and the words are those of the last one", () => {
  const { state, told } = readAll([
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
  expect(told).toEqual([
    { kind: "text", text: "First." },
    { kind: "tool", name: "bash", detail: "ls" },
    { kind: "usage", tokens: 20 },
    { kind: "text", text: "Done." },
    { kind: "usage", tokens: 31 },
  ]);
});

test("a step that has begun after one that ended leaves the call open", () => {
  expect(readAll([finish("stop", 1, 1), { type: "step_start" }]).state.reason).toBeNull();
});

test("a tool that was refused", () => {
  const call = (error: string) =>
    readAll([{ type: "tool_use", part: { tool: "bash", state: { status: "error", error } } }]);
  expect(call("The user rejected permission to use this specific tool call.").state.denied).toEqual(new Set(["bash"]));
  expect(call("No such file").state.denied).toEqual(new Set());
});

test("no line is too strange", () => {
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
        readOpencodeLine(NOTHING_READ, line);
      },
    ),
  );
});
