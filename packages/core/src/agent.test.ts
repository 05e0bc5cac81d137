import { expect, test } from "vitest";
import { parseAgentArgs } from "./agent.ts";

test("lists of arguments, by agent", () => {
  const args = { codex: ["--sandbox", "read-only"], claude: ["--disallowedTools", "WebFetch"], pi: [] };
  expect(parseAgentArgs(args)).toEqual(args);
  expect(parseAgentArgs({})).toEqual({});
});

test.each([
  ["no table", ["--sandbox"]],
  ["an agent that is not a distributed program", { command: ["--x"] }],
  ["no list", { codex: "--sandbox" }],
  ["no text", { codex: ["--sandbox", 1] }],
  ["an empty list", { codex: ["--sandbox", ""] }],
  ["a prompt", { codex: ["do this"] }],
  ["the end of options", { claude: ["--verbose", "--"] }],
  ["a session", { claude: ["--resume", "x"] }],
  ["a session in one argument", { copilot: ["--session-id=x"] }],
  ["an output format", { gemini: ["--output-format", "text"] }],
])("%s is refused", (_, value) => {
  expect(parseAgentArgs(value)).toBeUndefined();
});
