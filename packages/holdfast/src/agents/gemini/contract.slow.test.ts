import { systemClock } from "../../system/clock.ts";
import type { AgentHarness } from "../../testing/agent-contract.ts";
import { keepContract, READS_OUR_ENVIRONMENT } from "../../testing/agent-contract/keep-contract.ts";
import { modelHarness } from "../../testing/agent-contract/model-harness.ts";
import { GEMINI_MODEL, openGeminiScene, REAL_GEMINI } from "../../testing/scenes/gemini-scene.ts";
import { createGeminiAgent } from "./gemini.ts";

const APART: Readonly<Record<string, string>> = {
  "what the agent does not say about its usage is null, which is not zero": "Gemini CLI always says",
  "a prompt of five megabytes that nobody reads harms nobody": "Gemini CLI would lose its result; faults.slow.test.ts",
};

const gone = REAL_GEMINI.kind === "absent" ? REAL_GEMINI.why : null;

keepContract({
  title: "the real Gemini CLI keeps the contract",
  agent: createGeminiAgent({ clock: systemClock }),
  gone,
  apart: APART,
  harnessOf,
  alone: READS_OUR_ENVIRONMENT,
  timeout: 600_000,
  sample: 9,
});

async function harnessOf(later: (undo: () => void | Promise<void>) => void): Promise<AgentHarness> {
  const fault = { kind: "status", status: 404, message: "models/no-such is not found" } as const;
  const scene = await openGeminiScene({
    script: { rules: [{ match: /(?:)/, steps: [{ fault }] }] },
    later,
  });
  return modelHarness(scene, {
    model: GEMINI_MODEL,
    write: (path, text) => ({ name: "write_file", input: { file_path: path, content: text } }),
    shell: (command) => ({ name: "run_shell_command", input: { command } }),
    missingModel: "no-such-model",
    slowness: 8,
  });
}
