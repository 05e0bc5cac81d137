import { expect, test } from "vitest";
import { systemClock } from "../system/clock.ts";
import { createAgentRegistry } from "./registry.ts";

const registry = createAgentRegistry({ clock: systemClock, directory: "/" });

test("every name gives the agent of that name", () => {
  expect(registry.names.map((name) => registry.agent(name).name)).toEqual(registry.names);
  expect(registry.names).toEqual([
    "claude",
    "codex",
    "command",
    "copilot",
    "gemini",
    "opencode",
    "pi",
    "scripted",
    "scripted-session",
  ]);
});

test("another name is refused with the known ones and a guess", () => {
  expect(() => registry.agent("scriptd")).toThrow(
    expect.objectContaining({
      code: "USAGE",
      message:
        'There is no agent "scriptd"; known: claude, codex, command, copilot, gemini, opencode, pi, scripted, scripted-session',
      hint: "Did you mean scripted?",
    }),
  );
  expect(() => registry.agent("constructor")).toThrow(expect.objectContaining({ code: "USAGE" }));
});
