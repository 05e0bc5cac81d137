import fc from "fast-check";
import { expect, test } from "vitest";
import { saidIn } from "./said-in.ts";

const lines = (...entries: readonly unknown[]): string => entries.map((entry) => `${JSON.stringify(entry)}\n`).join("");

test("reads what each agent writes, and leaves out what it was told", () => {
  const claude = lines(
    { type: "user", message: { role: "user", content: "the task" } },
    { type: "assistant", message: { role: "assistant", content: [{ type: "text", text: "I look." }] } },
    {
      type: "assistant",
      message: { role: "assistant", content: [{ type: "tool_use", name: "Bash", input: { command: "ls" } }] },
    },
    { type: "user", message: { role: "user", content: [{ type: "tool_result", content: "a.txt" }] } },
  );
  const codex = lines(
    {
      type: "response_item",
      payload: { type: "message", role: "user", content: [{ type: "input_text", text: "task" }] },
    },
    {
      type: "response_item",
      payload: { type: "message", role: "assistant", content: [{ type: "output_text", text: "I look." }] },
    },
    { type: "response_item", payload: { type: "function_call", name: "Bash", arguments: '{"command":"ls"}' } },
    { type: "response_item", payload: { type: "function_call_output", output: "a.txt" } },
  );
  const gemini = lines(
    { type: "user", content: [{ text: "the task" }] },
    { type: "gemini", content: "I look.", toolCalls: [{ name: "Bash", args: { command: "ls" } }] },
    { message: { role: "user", parts: [{ functionResponse: { response: "a.txt" } }] } },
  );
  for (const transcript of [claude, codex, gemini])
    expect(saidIn(transcript, { maxCharacters: 1000 })).toEqual([
      { who: "agent", text: "I look." },
      { who: "tool call", text: 'Bash {"command":"ls"}' },
      { who: "tool result", text: "a.txt" },
    ]);
  expect(saidIn("one\ntwo\n", { maxCharacters: 1000 })).toEqual([
    { who: "output", text: "one" },
    { who: "output", text: "two" },
  ]);
});

test("never more than asked for, the end rather than the beginning, whatever the transcript is", () => {
  const arbitrary = fc.oneof(
    fc.string(),
    fc.array(fc.json()).map((entries) => entries.join("\n")),
  );
  fc.assert(
    fc.property(arbitrary, fc.nat(500), (transcript, maxCharacters) => {
      const said = saidIn(transcript, { maxCharacters });
      expect(said.reduce((sum, { text }) => sum + text.length, 0)).toBeLessThanOrEqual(maxCharacters);
    }),
  );
  expect(saidIn(`${"x".repeat(90)}\nlast\n`, { maxCharacters: 4 })).toEqual([{ who: "output", text: "last" }]);
});
