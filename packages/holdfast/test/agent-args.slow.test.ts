import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { createAgentRegistry } from "@holdfast/agents/registry";
import { systemClock } from "@holdfast/platform/clock";
import { prepareCall } from "@holdfast/testing/agent-contract";
import {
  CODEX_MODEL,
  GEMINI_MODEL,
  MODEL,
  findRealAgent,
  openClaudeScene,
  openCodexScene,
  openGeminiScene,
} from "@holdfast/test-support/agents/real-agents";
import { REAL_COPILOT, REAL_PI, REAL_QWEN } from "@holdfast/test-support/agents/provider-agents";
import type { ModelTool } from "@holdfast/test-support/agents/model-script";
import { SEED, sampleBySeed } from "@holdfast/test-support/sample-by-seed";

/** With these arguments no shell command may write, even with `--yolo`. */
const LIMITS = [
  {
    name: "claude",
    args: ["--disallowedTools", "Bash"],
    model: MODEL,
    open: openClaudeScene,
    shell: (command: string): ModelTool => ({ name: "Bash", input: { command, description: "as scripted" } }),
  },
  {
    name: "codex",
    args: ["--sandbox", "read-only"],
    model: CODEX_MODEL,
    open: openCodexScene,
    shell: (cmd: string): ModelTool => ({ name: "exec_command", input: { cmd } }),
  },
  {
    name: "gemini",
    args: ["--approval-mode", "default"],
    model: GEMINI_MODEL,
    open: openGeminiScene,
    shell: (command: string): ModelTool => ({ name: "run_shell_command", input: { command } }),
  },
  { ...REAL_COPILOT, name: "copilot", args: ["--deny-tool=shell"] },
  { ...REAL_PI, name: "pi", args: ["--tools", "read"] },
  { ...REAL_QWEN, name: "qwen", args: ["--approval-mode", "default"] },
];

describe(`a limit in agents.args, by seed ${SEED}`, () => {
  for (const { name, args, model, open, shell } of sampleBySeed(LIMITS, 1)) {
    const found = findRealAgent(name);
    const why = found.kind === "absent" ? ` (${found.why})` : "";
    test.skipIf(found.kind === "absent")(
      `the real ${name} keeps it with --yolo, also in a resumed session${why}`,
      { timeout: 600_000 },
      async ({ onTestFinished }) => {
        const steps = [{ tool: shell("touch written") }, { text: "Done." }];
        const scene = await open({ script: { rules: [{ match: /(?:)/, steps }] }, later: onTestFinished });
        const agents = createAgentRegistry({ clock: systemClock, directory: scene.cwd, args: { [name]: args } });
        const change = { model, env: scene.env };
        const first = await agents.agent(name).run(prepareCall(scene, change).task);
        const { session } = first;
        expect(session, JSON.stringify(first)).not.toBeNull();
        await agents.agent(name).run(prepareCall(scene, { ...change, session, prompt: "Again." }).task);
        // Both calls came so far that the model knew what had become of its command.
        expect(scene.server.requests.filter(({ place }) => place?.step === 1).length).toBe(2);
        expect(existsSync(join(scene.cwd, "written"))).toBe(false);
        await scene.agent.run(prepareCall(scene, { model }).task);
        expect(existsSync(join(scene.cwd, "written"))).toBe(true);
      },
    );
  }
});
