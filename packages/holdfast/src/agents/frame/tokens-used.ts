import type { AgentUsage } from "../../ports/agent.ts";

/** Of an agent that tells tokens and no price. Nothing costs nothing; what anything else costs is not known here. */
export function tokensUsed({ input, output }: { readonly input: number; readonly output: number }): AgentUsage {
  return { inputTokens: input, outputTokens: output, microUsd: input + output === 0 ? 0 : null };
}
