import { systemClock } from "../../system/clock.ts";
import { ACP_LINE, openAcpScene } from "../../testing/scenes/acp-scene.ts";
import type { AgentHarness } from "../../testing/agent-contract.ts";
import { keepContract } from "../../testing/agent-contract/keep-contract.ts";
import { modelHarness } from "../../testing/agent-contract/model-harness.ts";
import { REAL_GEMINI } from "../../testing/scenes/gemini-scene.ts";
import { createAcpAgent } from "./acp.ts";

const APART: Readonly<Record<string, string>> = {
  "what the agent does not say about its usage is null, which is not zero": "Gemini CLI always says",
};

const gone = REAL_GEMINI.kind === "absent" ? REAL_GEMINI.why : null;

keepContract({
  title: "a real agent that speaks ACP keeps the contract",
  agent: createAcpAgent({ clock: systemClock }),
  gone,
  apart: APART,
  harnessOf,
  alone: /^the child has the allowed part/,
  timeout: 600_000,
  sample: 7,
});

async function harnessOf(later: (undo: () => void | Promise<void>) => void): Promise<AgentHarness> {
  const scene = await openAcpScene({ script: { rules: [] }, later });
  // Its probe asks about nothing in the environment, and so may be asked beside others.
  return modelHarness(
    { ...scene, env: {} },
    {
      model: ACP_LINE,
      write: (path, text) => ({ name: "write_file", input: { file_path: path, content: text } }),
      shell: (command) => ({ name: "run_shell_command", input: { command } }),
      missingModel: "no-such-agent --acp",
      slowness: 8,
    },
  );
}
