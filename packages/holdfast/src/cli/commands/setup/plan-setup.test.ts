import { expect, test } from "vitest";
import { DEFAULT_WORK } from "../../../config/work-settings.ts";
import { planSetup, type Found } from "./plan-setup.ts";

const CAPABILITIES = {
  resume: true,
  forkAtMessage: false,
  chooseSession: false,
  usage: true,
  cost: false,
  structuredOutput: false,
};
const agent = (name: string, installed: boolean, problem: string | null) => ({
  name,
  capabilities: CAPABILITIES,
  probe: { installed, version: null, problem, hint: null },
});
const found: Found = {
  agents: [agent("claude", true, "no login"), agent("codex", true, null), agent("gemini", true, null)],
  forge: null,
  gate: { command: "npm test", why: "it says so" },
  now: DEFAULT_WORK,
};

test("the first agent that is ready, and the gate that was guessed", () => {
  expect(planSetup(found, {})).toEqual({
    agent: "codex",
    gate: "npm test",
    forge: "auto",
    edits: [
      { key: ["agent"], value: "codex" },
      { key: ["impl", "gate"], value: "npm test" },
    ],
  });
  expect(planSetup({ ...found, agents: [agent("codex", false, null)], gate: null }, {}).edits).toEqual([]);
});

test("what the file says is kept, and what is said goes before it", () => {
  const now = { ...DEFAULT_WORK, agent: "claude:opus", impl: { ...DEFAULT_WORK.impl, gate: "make" } };
  expect(planSetup({ ...found, now }, {}).edits).toEqual([]);
  expect(
    planSetup({ ...found, now }, { agent: "gemini", gate: "none", forge: "github", reviewModel: "codex" }),
  ).toEqual({
    agent: "gemini",
    gate: "make",
    forge: "github",
    edits: [
      { key: ["agent"], value: "gemini" },
      { key: ["models", "review"], value: "codex" },
      { key: ["forge", "kind"], value: "github" },
    ],
  });
});
