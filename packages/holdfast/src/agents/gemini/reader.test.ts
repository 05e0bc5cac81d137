import fc from "fast-check";
import { expect, test } from "vitest";
import { chatOf } from "./chat.ts";
import { NOTHING_READ, readGeminiLine, type GeminiState } from "./reader.ts";

function read(events: readonly object[]) {
  return events.reduce<GeminiState>((state, event) => readGeminiLine(state, JSON.stringify(event)).state, NOTHING_READ);
}

test("no line harms the reader, and none that it does not know changes what was read", () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(fc.string(), fc.json())), (lines) => {
      expect(lines.reduce((before, line) => readGeminiLine(before, line).state, NOTHING_READ)).toEqual(NOTHING_READ);
    }),
  );
});

test("the last words are what was said after the last tool call", () => {
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

test("a tool that policy forbids was denied; one that failed was not", () => {
  const use = (id: string, name: string) => ({ type: "tool_use", tool_id: id, tool_name: name, parameters: {} });
  const failed = (id: string, type: string) => ({ type: "tool_result", tool_id: id, status: "error", error: { type } });
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

test("an answer that a session's file tells several times counts once", () => {
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
      const chat = chatOf(text);
      expect(chat).toMatchObject({ session: "abc", isHollow: false });
      expect([...chat.answers.values()]).toEqual(
        answers.map(({ input, more, cached }) => ({ input, output: more, cached })),
      );
    }),
  );
});

test("a file in which nobody has said anything is hollow", () => {
  const context = { type: "user", content: [{ text: "<session_context>\nToday…</session_context>" }] };
  const head = JSON.stringify({ sessionId: "abc" });
  const set = JSON.stringify({ $set: { messages: [context] } });
  expect(chatOf([head, set].join("\n"))).toMatchObject({ session: "abc", isHollow: true });
  const said = JSON.stringify({ type: "user", content: [{ text: "Do it." }] });
  expect(chatOf([head, set, said].join("\n")).isHollow).toBe(false);
});
