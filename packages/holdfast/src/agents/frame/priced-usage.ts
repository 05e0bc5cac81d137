import type { AgentUsage } from "../../ports/agent.ts";
import { UNKNOWN_USAGE } from "../classify-exit.ts";

/** Of an agent that tells tokens and dollars; null: it told nothing. A model without a price has the price 0, which is none. */
export function pricedUsage(
  spent: { readonly input: number; readonly output: number; readonly cost: number } | null,
): AgentUsage {
  if (spent === null) return UNKNOWN_USAGE;
  const { input, output, cost } = spent;
  const isPriced = cost > 0 || input + output === 0;
  return { inputTokens: input, outputTokens: output, microUsd: isPriced ? Math.round(cost * 1e6) : null };
}
