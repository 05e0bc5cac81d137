import { expect, test } from "vitest";
import { AGENT_PROGRAMS } from "@holdfast/core/agent";
import { AGENT_VERSIONS, judgeVersion, upgradeHint } from "./agent-versions.ts";

test("every distributed agent has a minimum version and an upgrade command", () => {
  expect(Object.keys(AGENT_VERSIONS).toSorted()).toEqual([...AGENT_PROGRAMS].toSorted());
  for (const agent of AGENT_PROGRAMS) expect(upgradeHint(agent)).toMatch(/^Upgrade it: `npm install -g \S+@latest`$/);
});

test.each([
  ["claude", "2.1.325", "ok"],
  ["claude", "2.0.73", "ok"],
  ["claude", "2.0.72", "too_old"],
  ["claude", "1.9.99 (Claude Code)", "too_old"],
  ["opencode", "1.18.0-beta.1", "ok"],
  ["opencode", "1.17.11", "too_old"],
  ["gemini", "nightly", "unknown"],
  ["gemini", null, "unknown"],
  ["command", "0.0.1", "unknown"],
] as const)("%s %s is %s", (agent, version, verdict) => {
  expect(judgeVersion(agent, version)).toBe(verdict);
});
