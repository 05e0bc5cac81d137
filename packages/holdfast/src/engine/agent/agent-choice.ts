import { splitAgent } from "../../core/agent/agent-names.ts";
import type { ExecutionConfig } from "../../core/checkpoint/checkpoint.ts";
import { HoldfastError } from "../../core/error.ts";

export interface AgentChoice {
  readonly provider: string;
  readonly model: string | null;
}

/** `provider:model` of the call, else what the run is configured with. What follows the first colon is the agent's own. */
export function chooseAgent(model: string | null, config: Pick<ExecutionConfig, "agent" | "model">): AgentChoice {
  if (model !== null) return parse(model);
  if (config.agent !== null) return { provider: config.agent, model: config.model };
  if (config.model !== null) return parse(config.model);
  throw new HoldfastError({
    code: "USAGE",
    message: "No agent is named, neither by the call nor by the run",
    hint: "Name one as provider:model.",
  });
}

function parse(text: string): AgentChoice {
  const { provider, model } = splitAgent(text);
  if (provider !== "") return { provider, model: model === "" ? null : model };
  throw new HoldfastError({
    code: "USAGE",
    message: `${JSON.stringify(text)} names no agent`,
    hint: "Write provider:model.",
  });
}
