import { describe, test } from "vitest";
import { systemClock } from "../../system/clock.ts";
import { agentContract, type AgentHarness } from "../../testing/agent-contract.ts";
import { modelScriptOf } from "../../testing/agent-contract/model-steps.ts";
import { withEnvironment } from "../../testing/agent-contract/with-environment.ts";
import { GEMINI_MODEL, openGeminiScene, REAL_GEMINI } from "../../testing/gemini-scene.ts";
import { createGeminiAgent } from "./gemini.ts";

const APART: Readonly<Record<string, string>> = {
  "what the agent does not say about its usage is null, which is not zero": "Gemini CLI always says",
  "a prompt of five megabytes that nobody reads harms nobody": "Gemini CLI would lose its result; faults.test.ts",
};

const gone = REAL_GEMINI.kind === "absent" ? REAL_GEMINI.why : null;

describe("the real Gemini CLI keeps the contract", () => {
  const agent = createGeminiAgent({ clock: systemClock });
  for (const { name: promise, skip, run } of agentContract) {
    const why = gone ?? APART[promise] ?? skip?.(agent) ?? null;
    // A probe and the case that changes our own environment read it: they run apart.
    const concurrent = !/^(?:the child has our environment|a probe answers)/.test(promise);
    test.skipIf(why !== null)(
      why === null ? promise : `${promise} (${why})`,
      { concurrent, timeout: 240_000 },
      async (context) => {
        await run(await harnessOf(context.onTestFinished));
      },
    );
  }
});

async function harnessOf(later: (undo: () => void | Promise<void>) => void): Promise<AgentHarness> {
  const fault = { kind: "status", status: 404, message: "models/no-such is not found" } as const;
  const { server, agent, cwd, env } = await openGeminiScene({
    script: { rules: [{ match: /(?:)/, steps: [{ fault }] }] },
    later,
  });
  return {
    agent: { ...agent, probe: () => withEnvironment(env, () => agent.probe()) },
    cwd,
    behave(behaviour) {
      server.play(
        modelScriptOf({
          behaviour,
          cwd,
          write: (path, text) => ({ name: "write_file", input: { file_path: path, content: text } }),
          shell: (command) => ({ name: "run_shell_command", input: { command } }),
        }),
      );
      return Promise.resolve(GEMINI_MODEL);
    },
    missingModel: "no-such-model",
    slowness: 8,
  };
}
