import fc from "fast-check";
import { expect, test } from "vitest";
import type { JsonRecord } from "../../core/record.ts";
import { NOTHING_READ, readCopilotLine } from "./reader.ts";

function readAll(events: readonly JsonRecord[]) {
  let state = NOTHING_READ;
  const steps = events.map((event) => {
    const step = readCopilotLine(state, JSON.stringify(event));
    state = step.state;
    return step;
  });
  return { state, told: steps.flatMap((step) => step.events), waits: steps.map((step) => step.waiting === true) };
}

test("words, tools, the end", () => {
  const { state, told } = readAll([
    { type: "assistant.message", data: { content: "Now." } },
    { type: "tool.execution_start", data: { toolCallId: "1", toolName: "bash", arguments: { command: "ls" } } },
    { type: "tool.execution_complete", data: { toolCallId: "1", success: false, error: { code: "denied" } } },
    { type: "assistant.message", data: { content: "Done." } },
    { type: "result", sessionId: "s1", exitCode: 0 },
  ]);
  expect(state).toMatchObject({ text: "Done.", exitCode: 0, error: null, denied: new Set(["bash"]) });
  expect(told).toEqual([
    { kind: "text", text: "Now." },
    { kind: "tool", name: "bash", detail: "ls" },
    { kind: "text", text: "Done." },
    { kind: "session", id: "s1" },
  ]);
});

test("between a refusal and an answer nothing is a sign of life", () => {
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

test("no line is too strange", () => {
  const kinds = ["assistant.message", "tool.execution_start", "tool.execution_complete", "session.error", "result"];
  const record = fc.record({ type: fc.constantFrom(...kinds), data: fc.anything(), exitCode: fc.anything() });
  const strange = record.map((value) => JSON.stringify(value));
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.json(), strange), (line) => {
      readCopilotLine(NOTHING_READ, line);
    }),
  );
});
