import type { AgentArgs } from "../core/agent/agent-args.ts";
import { AGENT_LIST } from "../core/agent/agent-names.ts";
import { HoldfastError } from "../core/error.ts";
import { nearest } from "../core/nearest.ts";
import type { Agent } from "../ports/agent.ts";
import type { Clock } from "../ports/clock.ts";
import { createAcpAgent } from "./acp/acp.ts";
import { createClaudeAgent } from "./claude/claude.ts";
import { createCodexAgent } from "./codex/codex.ts";
import { createCommandAgent } from "./command.ts";
import { createCopilotAgent } from "./copilot/copilot.ts";
import { createGeminiAgent } from "./gemini/gemini.ts";
import { createOpencodeAgent } from "./opencode/opencode.ts";
import { createPiAgent } from "./pi/pi.ts";
import { createQwenAgent } from "./qwen/qwen.ts";
import { createScriptedAgent } from "./scripted.ts";

export interface AgentRegistry {
  readonly names: readonly string[];
  /** USAGE with the known names for any other. */
  agent(provider: string): Agent;
}

/** What may stand before the colon of `provider:model`. */
export function createAgentRegistry(params: {
  readonly clock: Clock;
  /** Where relative paths of scripts begin. */
  readonly directory: string;
  /** The user's own arguments for the makers' programs. */
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
