import { systemClock } from "../../system/clock.ts";
import type { AgentHarness } from "../../testing/agent-contract.ts";
import { keepContract, READS_OUR_ENVIRONMENT } from "../../testing/agent-contract/keep-contract.ts";
import { modelHarness } from "../../testing/agent-contract/model-harness.ts";
import { CODEX_MODEL, openCodexScene, REAL_CODEX } from "../../testing/scenes/codex-scene.ts";
import { createCodexAgent } from "./codex.ts";

const APART: Readonly<Record<string, string>> = {
  "what the agent does not say about its usage is null, which is not zero": "Codex always says",
  "a prompt of five megabytes that nobody reads harms nobody": "Codex takes a million characters; faults.slow.test.ts",
};

const gone = REAL_CODEX.kind === "absent" ? REAL_CODEX.why : null;

keepContract({
  title: "the real Codex keeps the contract",
  agent: createCodexAgent({ clock: systemClock }),
  gone,
  apart: APART,
  harnessOf,
  alone: READS_OUR_ENVIRONMENT,
});

async function harnessOf(later: (undo: () => void | Promise<void>) => void): Promise<AgentHarness> {
  const fault = { kind: "status", status: 404, message: "The model `no-such` does not exist", type: "model_not_found" };
  const scene = await openCodexScene({
    script: { rules: [{ match: /(?:)/, steps: [{ fault: { ...fault, kind: "status" } }] }] },
    later,
  });
  return modelHarness(scene, {
    model: CODEX_MODEL,
    write: (path, text) => ({
      name: "apply_patch",
      input: `*** Begin Patch\n*** Add File: ${path}\n${linesOf(text)}*** End Patch`,
    }),
    shell: (command) => ({ name: "exec_command", input: { cmd: command } }),
    isSilent: true,
    missingModel: "no-such-model",
    slowness: 2,
  });
}

function linesOf(text: string): string {
  const lines = text.endsWith("\n") ? text.slice(0, -1) : text;
  return `${lines
    .split("\n")
    .map((line) => `+${line}`)
    .join("\n")}\n`;
}
