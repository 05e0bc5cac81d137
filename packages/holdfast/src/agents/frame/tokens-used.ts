import type { AgentUsage } from "../../ports/agent.ts";

/** Of an agent that tells tokens and no price. Nothing costs nothing; what anything else costs is not known here. */
export function tokensUsed(tokens: {
  readonly input: number;
  readonly output: number;
  /** Of the input; what a cache gave has a price of its own. Absent: it does not tell. */
  readonly cached?: number;
}): AgentUsage {
  const { input, output, cached } = tokens;
  const microUsd = input + output === 0 ? 0 : null;
  const told = cached === undefined ? {} : { cachedTokens: cached };
  return { inputTokens: input, outputTokens: output, ...told, microUsd };
}
