import { expect, test } from "vitest";
import type { AgentHarness } from "../../testing/agent-contract.ts";
import { keepContract, READS_OUR_ENVIRONMENT } from "../../testing/agent-contract/keep-contract.ts";
import { modelHarness } from "../../testing/agent-contract/model-harness.ts";
import { withEnvironment } from "../../testing/agent-contract/with-environment.ts";
import { MODEL, openClaudeScene, REAL_CLAUDE } from "../../testing/scenes/claude-scene.ts";
import { createClaudeAgent } from "./claude.ts";
import { systemClock } from "../../system/clock.ts";

const APART: Readonly<Record<string, string>> = {
  "what the agent does not say about its usage is null, which is not zero": "Claude Code always says",
};

const gone = REAL_CLAUDE.kind === "absent" ? REAL_CLAUDE.why : null;

keepContract({
  title: "the real Claude Code keeps the contract",
  agent: createClaudeAgent({ clock: systemClock }),
  gone,
  apart: APART,
  harnessOf,
  alone: READS_OUR_ENVIRONMENT,
});

test.skipIf(gone !== null)(
  "a probe tells the version, and a login that is missing with the fix",
  async ({ onTestFinished }) => {
    const { server, agent, env } = await openClaudeScene({ script: { rules: [] }, later: onTestFinished });
    const version = expect.stringMatching(/^\d+\.\d+\.\d+$/);
    expect(await withEnvironment(env, () => agent.probe())).toEqual({
      installed: true,
      version,
      problem: null,
      hint: null,
    });
    expect(await withEnvironment({ ...env, ANTHROPIC_API_KEY: "" }, () => agent.probe())).toMatchObject({
      version,
      problem: "Claude Code is not logged in",
      hint: expect.stringContaining("claude auth login"),
    });
    expect(await withEnvironment({ ...env, PATH: "/nonexistent" }, () => agent.probe())).toMatchObject({
      installed: false,
      hint: expect.stringContaining("npm install"),
    });
    expect([server.requests, server.other]).toEqual([[], []]);
  },
);

async function harnessOf(later: (undo: () => void | Promise<void>) => void): Promise<AgentHarness> {
  const fault = { kind: "status", status: 404, message: "model: no such" } as const;
  const scene = await openClaudeScene({
    script: { rules: [{ match: /(?:)/, steps: [{ fault }] }] },
    later,
  });
  return modelHarness(scene, {
    model: MODEL,
    write: (path, text) => ({ name: "Write", input: { file_path: path, content: text } }),
    shell: (command) => ({ name: "Bash", input: { command, description: "as scripted" } }),
    missingModel: "no-such-model",
    priceOf: ({ input, output }) => input * 3 + output * 15,
    slowness: 4,
  });
}
