import { existsSync, readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import type { Agent } from "@holdfast/core/agent";
import { systemClock } from "@holdfast/platform/clock";
import type { ModelScript } from "@holdfast/test-support/agents/model-script";
import { REAL_COPILOT, REAL_OPENCODE, REAL_PI, REAL_QWEN } from "@holdfast/test-support/agents/provider-agents";
import { withEnvironment } from "@holdfast/test-support/agents/real-agent-suite";
import {
  type AgentScene,
  CODEX_MODEL,
  GEMINI_MODEL,
  MODEL as CLAUDE_MODEL,
  findRealAgent,
  openClaudeScene,
  openCodexScene,
  openGeminiScene,
} from "@holdfast/test-support/agents/real-agents";
import { NEEDS_PROC, prepareCall, processesOf } from "@holdfast/testing/agent-contract";
import { createAgentRegistry } from "./registry.ts";

type Open = (params: {
  readonly script: ModelScript;
  readonly later: (undo: () => void | Promise<void>) => void;
}) => Promise<Pick<AgentScene, "server" | "cwd" | "env">>;

const REAL: readonly { readonly name: string; readonly model: string; readonly open: Open }[] = [
  { name: "claude", model: CLAUDE_MODEL, open: openClaudeScene },
  { name: "codex", model: CODEX_MODEL, open: openCodexScene },
  { name: "copilot", model: REAL_COPILOT.model, open: REAL_COPILOT.open },
  { name: "gemini", model: GEMINI_MODEL, open: openGeminiScene },
  { name: "opencode", model: REAL_OPENCODE.model, open: REAL_OPENCODE.open },
  { name: "pi", model: REAL_PI.model, open: REAL_PI.open },
  { name: "qwen", model: REAL_QWEN.model, open: REAL_QWEN.open },
];

const PLANTED = {
  GITHUB_TOKEN: "planted-github",
  AWS_SECRET_ACCESS_KEY: "planted-aws",
  NPM_TOKEN: "planted-npm",
  SSH_AUTH_SOCK: "/planted-agent.sock",
};

/** Other scenes pass settings with the call. Here they are in our own environment, as for a user. */
describe("a real agent started from the user's environment", () => {
  test.for(REAL)("$name uses its own login and sees no planted token", { timeout: 600_000 }, async (real, context) => {
    const found = findRealAgent(real.name);
    context.skip(found.kind === "absent", found.kind === "absent" ? found.why : "");
    const nowhere = NEEDS_PROC();
    context.skip(nowhere !== null, nowhere ?? "");
    const script: ModelScript = { rules: [{ match: /(?:)/, steps: [{ text: "All done.", eventDelayMs: 100 }] }] };
    const scene = await real.open({ script, later: context.onTestFinished });
    const agent: Agent = createAgentRegistry({ clock: systemClock, directory: scene.cwd }).agent(real.name);
    const { task } = prepareCall(scene, { prompt: "Answer.", model: real.model });
    const { outcome, environments } = await withEnvironment({ ...scene.env, ...PLANTED }, async () => {
      const running = agent.run(task);
      return { environments: await watchEnvironments(task.mark, running), outcome: await running };
    });
    expect(outcome, JSON.stringify(outcome)).toMatchObject({ kind: "completed", text: "All done." });
    expect(environments.length).toBeGreaterThan(0);
    for (const environment of environments) {
      expect(environment).toContain("HOLDFAST_ROLE=");
      expect(environment).not.toMatch(/planted-|SSH_AUTH_SOCK/);
    }
  });
});

/** The environments of every process with the mark, until the call ends. */
async function watchEnvironments(mark: string, running: Promise<unknown>): Promise<readonly string[]> {
  const seen = new Map<number, string>();
  const over = running.then(() => true);
  for (;;) {
    for (const pid of processesOf(mark)) {
      const path = `/proc/${pid}/environ`;
      const text = existsSync(path) ? readQuietly(path) : "";
      if (text !== "") seen.set(pid, text);
    }
    if (await Promise.race([over, pause(20, false)])) return [...seen.values()];
  }
}

function readQuietly(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
