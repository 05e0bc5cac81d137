import fc from "fast-check";
import { expect, test } from "vitest";
import { linesOf, messagesOf, readableLog } from "./output.ts";

const plain = (text: string): readonly string[] =>
  linesOf(text).map((line) => line.map((piece) => piece.text).join(""));

test("colours become class names, and nothing else is left of an escape sequence", () => {
  expect(linesOf("a \u001b[1;31mred\u001b[0m b")).toEqual([
    [
      { text: "a ", style: "" },
      { text: "red", style: "ansi-red ansi-bold" },
      { text: " b", style: "" },
    ],
  ]);
});

test.each([
  ["a title", "\u001b]0;owned\u0007after", "after"],
  ["a link", "\u001b]8;;https://evil.example\u001b\\text\u001b]8;;\u001b\\", "text"],
  ["the clipboard", "\u001b]52;c;cm0gLXJmIC8=\u0007x", "x"],
  ["a command without an end", "\u001b]0;never ended", ""],
  ["erasing", "one\u001b[2J\u001b[Htwo\u001b[K", "onetwo"],
  ["another alphabet", "\u001b(0lqk\u001b(B", "0lqkB"],
  ["a device string", "\u001bPq#0;2;0;0;0\u001b\\x", "x"],
  ["a progress bar", "10 %\r50 %\r100 %", "100 %"],
])("%s leaves %s", (_, text, shown) => {
  expect(plain(text)[0]?.replace(/^\(?/, "")).toBe(shown);
});

test("line ends of both kinds are line ends", () => {
  expect(plain("a\r\nb\nc")).toEqual(["a", "b", "c"]);
});

test("a line of 10 MB is cut, with the number of characters that are left out", () => {
  const [line = ""] = plain("x".repeat(10_000_000));
  expect(line.length).toBeLessThan(4100);
  expect(line).toContain("9,996,000 more characters");
});

test("no text makes an escape character visible", () => {
  const part = fc.constantFrom("\u001b", "[", "]", "31", "m", "\u0007", "\\", "P", ";", "x", "\n", "\r", "(", "0");
  fc.assert(
    fc.property(fc.array(part, { maxLength: 40 }), (parts) => {
      expect(plain(parts.join("")).join("\n")).not.toContain("\u001b]");
    }),
  );
});

test("messages are read from the formats of several agents, and other lines are kept", () => {
  const lines = [
    { type: "user", message: { role: "user", content: "please" } },
    {
      type: "assistant",
      message: {
        role: "assistant",
        content: [
          { type: "text", text: "yes" },
          { type: "tool_use", name: "Edit", input: { file: "a" } },
        ],
      },
    },
    {
      type: "response_item",
      payload: { type: "message", role: "assistant", content: [{ type: "output_text", text: "done" }] },
    },
    { role: "user", text: "thanks" },
    { type: "summary" },
  ].map((line) => JSON.stringify(line));
  expect(messagesOf([...lines, "not json", "{broken"].join("\n"))).toEqual([
    { role: "user", text: "please" },
    { role: "assistant", text: 'yes\n→ Edit {"file":"a"}' },
    { role: "assistant", text: "done" },
    { role: "user", text: "thanks" },
    { role: "", text: '{"type":"summary"}' },
    { role: "", text: "not json" },
    { role: "", text: "{broken" },
  ]);
});

test("a log of carriage returns alone takes as many steps as it has characters", () => {
  expect(linesOf("\r".repeat(400_000))).toEqual([[]]);
  expect(linesOf(`a${"\r".repeat(400_000)}\nb`)).toEqual([[{ text: "a", style: "" }], [{ text: "b", style: "" }]]);
});

test("messages in a log are shown as what they say, and other lines as they are", () => {
  const said = JSON.stringify({ type: "assistant", message: { content: [{ type: "text", text: "I look\nat a.ts" }] } });
  const tool = JSON.stringify({ type: "assistant", message: { content: [{ name: "Edit", input: { path: "a.ts" } }] } });
  const log = `plain\n${said}\n${tool}\n{"type":"edit","path":"a.ts"}\n{"type":"assis`;
  expect(readableLog(log)).toBe(
    'plain\nassistant: I look\nat a.ts\nassistant: → Edit {"path":"a.ts"}\n{"type":"edit","path":"a.ts"}\n{"type":"assis',
  );
  // Commands to a terminal in a message are removed like all others.
  const hostile = JSON.stringify({ type: "result", text: "\u001b]0;owned\u0007red" });
  expect(linesOf(readableLog(hostile))).toEqual([[{ text: "result: red", style: "" }]]);
});

test("the result that a process in the background prints for programs is not shown", () => {
  expect(readableLog('one\n{"kind":"result","run":{}}\ntwo\n')).toBe("one\ntwo\n");
});
