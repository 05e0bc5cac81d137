import { createAcpAgent } from "../../agents/acp/acp.ts";
import type { Agent } from "../../ports/agent.ts";
import { systemClock } from "../../system/clock.ts";
import { openGeminiScene, type GeminiScene } from "./gemini-scene.ts";

/** The real Gemini CLI, spoken to in the Agent Client Protocol: it asks before it acts, and reads and writes files through its client. */
export const ACP_LINE = "exec gemini --acp --skip-trust";

export async function openAcpScene(params: Parameters<typeof openGeminiScene>[0]): Promise<GeminiScene> {
  const scene = await openGeminiScene(params);
  const agent = createAcpAgent({ clock: systemClock });
  const env = { ...scene.env, GEMINI_CLI_NO_RELAUNCH: "true" };
  const wrapped: Agent = {
    ...agent,
    run: (task) => agent.run({ ...task, env: { ...env, ...task.env } }),
  };
  return { ...scene, agent: wrapped };
}
