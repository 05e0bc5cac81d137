import { expect, test } from "vitest";
import { AGENT_LIST, AGENT_NAMES } from "../core/agent/agent-names.ts";
import { systemClock } from "../system/clock.ts";
import { createAgentRegistry } from "./registry.ts";

const registry = createAgentRegistry({ clock: systemClock, directory: "/" });

test("every name gives the agent of that name", () => {
  expect(registry.names.map((name) => registry.agent(name).name)).toEqual(registry.names);
  expect(registry.names).toEqual(AGENT_NAMES);
});

test("another name is refused with the known ones and a guess", () => {
  expect(() => registry.agent("scriptd")).toThrow(
    expect.objectContaining({
      code: "USAGE",
      message: 'There is no agent "scriptd"',
      hint: `Did you mean scripted? Give provider:model with one of ${AGENT_LIST}; \`holdfast agents\` shows which are ready.`,
    }),
  );
  expect(() => registry.agent("constructor")).toThrow(expect.objectContaining({ code: "USAGE" }));
});
