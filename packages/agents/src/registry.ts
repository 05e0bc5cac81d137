// The registry of all agents, by provider name.

import { AGENT_LIST, type Agent, type AgentArgs } from "@holdfast/core/agent";
import { nearest } from "@holdfast/core/options";
import type { Clock } from "@holdfast/platform/clock";
import { usageError } from "@holdfast/platform/error";
import { createAcpAgent } from "./acp.ts";
import { createClaudeAgent } from "./claude.ts";
import { createCodexAgent } from "./codex.ts";
import { createCommandAgent } from "./command.ts";
import { createCopilotAgent } from "./copilot.ts";
import { createGeminiAgent } from "./gemini.ts";
import { createOpencodeAgent } from "./opencode.ts";
import { createPiAgent } from "./pi.ts";
import { createQwenAgent } from "./qwen.ts";
import { createScriptedAgent } from "./scripted.ts";

export interface AgentRegistry {
  readonly names: readonly string[];
  /** Throws USAGE with the known names for any other provider. */
  agent(provider: string): Agent;
}

/** The agents by provider, the part before the colon of `provider:model`. */
export function createAgentRegistry(params: {
  readonly clock: Clock;
  /** The base directory of relative script paths. */
  readonly directory: string;
  /** The user's own arguments for the agents' programs. */
  readonly args?: AgentArgs;
  /** Variables that the user passes to every agent (`agents.env`). */
  readonly env?: readonly string[];
}): AgentRegistry {
  const agents: readonly Agent[] = [
    createAcpAgent(params),
    createClaudeAgent(params),
    createCodexAgent(params),
    createCommandAgent(params),
    createCopilotAgent(params),
    createGeminiAgent(params),
    createOpencodeAgent(params),
    createPiAgent(params),
    createQwenAgent(params),
    createScriptedAgent({ ...params, sessions: false }),
    createScriptedAgent({ ...params, sessions: true }),
  ];
  const names = agents.map((agent) => agent.name);
  return {
    names,
    agent(provider) {
      const found = agents.find((agent) => agent.name === provider);
      if (found !== undefined) return found;
      const [guess] = nearest(provider, names);
      throw usageError(
        `There is no agent ${JSON.stringify(provider)}`,
        `${guess === undefined ? "" : `Did you mean ${guess}? `}Give provider:model with one of ${AGENT_LIST}; \`holdfast agents\` shows which are ready.`,
        { provider, names },
      );
    },
  };
}
