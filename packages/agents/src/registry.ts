// The registry of all agents, by provider name, and the default prices of models.

import { AGENT_LIST, type Agent, type AgentArgs } from "@holdfast/core/agent";
import type { PriceTable } from "@holdfast/core/budget";
import { nearest } from "@holdfast/core/options";
import type { Clock } from "@holdfast/platform/clock";
import { HoldfastError } from "@holdfast/platform/error";
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
      throw new HoldfastError({
        code: "USAGE",
        message: `There is no agent ${JSON.stringify(provider)}`,
        hint: `${guess === undefined ? "" : `Did you mean ${guess}? `}Give provider:model with one of ${AGENT_LIST}; \`holdfast agents\` shows which are ready.`,
        data: { provider, names },
      });
    },
  };
}

/**
 * Prices for agents that report tokens but no cost, in US dollars per million tokens. They are from the public lists of
 * January 2026, standard tier, for prompts of up to 200 000 tokens. Prices change: `prices:` in the config overrides
 * them, and a model in neither list has an unknown price.
 */
export const DEFAULT_PRICES: PriceTable = {
  "codex:gpt-4.1": { input: 2, cached: 0.5, output: 8 },
  "codex:gpt-5": { input: 1.25, cached: 0.125, output: 10 },
  "codex:gpt-5-codex": { input: 1.25, cached: 0.125, output: 10 },
  "codex:gpt-5-mini": { input: 0.25, cached: 0.025, output: 2 },
  "codex:gpt-5.1": { input: 1.25, cached: 0.125, output: 10 },
  "codex:gpt-5.1-codex": { input: 1.25, cached: 0.125, output: 10 },
  "codex:gpt-5.1-codex-mini": { input: 0.25, cached: 0.025, output: 2 },
  "codex:gpt-5.2": { input: 1.75, cached: 0.175, output: 14 },
  "codex:o3": { input: 2, cached: 0.5, output: 8 },
  "codex:o4-mini": { input: 1.1, cached: 0.275, output: 4.4 },
  "gemini:gemini-2.5-flash": { input: 0.3, cached: 0.03, output: 2.5 },
  "gemini:gemini-2.5-flash-lite": { input: 0.1, cached: 0.01, output: 0.4 },
  "gemini:gemini-2.5-pro": { input: 1.25, cached: 0.125, output: 10 },
};
