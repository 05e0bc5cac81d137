import fc from "fast-check";
import { expect, test } from "vitest";
import type { JsonRecord } from "../../core/record.ts";
import { NOTHING_READ, readQwenLine } from "./reader.ts";

function readAll(events: readonly JsonRecord[]) {
  let state = NOTHING_READ;
  const told = events.flatMap((event) => {
    const step = readQwenLine(state, JSON.stringify(event));
    state = step.state;
    return step.events;
  });
  return { state, told };
}

const says = (...content: readonly JsonRecord[]) => ({ type: "assistant", message: { content } });

test("words, tools, the end", () => {
  const { state, told } = readAll([
    { type: "system", subtype: "init", session_id: "s1" },
    says({ type: "text", text: "Now." }, { type: "tool_use", name: "run_shell_command", input: { command: "ls" } }),
    { type: "result", is_error: false, result: "Done.", permission_denials: [{ tool_name: "web_fetch" }] },
  ]);
  expect(state).toMatchObject({ hasActed: true });
  expect(state.result).toEqual({ isError: false, text: "Done.", error: "", denied: ["web_fetch"] });
  expect(told).toEqual([
    { kind: "session", id: "s1" },
    { kind: "text", text: "Now." },
    { kind: "tool", name: "run_shell_command", detail: "ls" },
  ]);
});

test("a failure that is told as words is none, and a result without a flag is an error", () => {
  expect(readAll([says({ type: "text", text: "[API Error: 401 no]" })]).state.hasActed).toBe(false);
  expect(readAll([{ type: "result" }]).state.result?.isError).toBe(true);
});

test("no line is too strange", () => {
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
      readQwenLine(NOTHING_READ, line);
    }),
  );
});
