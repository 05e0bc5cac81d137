import { asRecord, type JsonRecord } from "../../core/record.ts";
import type { AgentUsage } from "../../ports/agent.ts";

/**
 * Of this call alone. Money is told for the whole session, so what it had cost before is taken off, where that is known. Tokens stand in the
 * answer to the prompt, and the protocol calls them both the turn's and the session's: they are taken only where the two are the same.
 */
export function acpUsage(params: {
  /** The answer to the prompt; null: none came. */
  readonly answer: JsonRecord | null;
  /** The agent's own name for itself. */
  readonly agent: string;
  readonly isNew: boolean;
  /** Micro-dollars of the session before the prompt and now; null: not told. */
  readonly costBefore: number | null;
  readonly costNow: number | null;
}): AgentUsage {
  const { answer, agent, isNew, costNow } = params;
  const tokens =
    answer === null ? null : (quotaOf(answer) ?? (isNew && !TELLS_LAST_ONLY.has(agent) ? usageOf(answer) : null));
  const before = isNew ? (params.costBefore ?? 0) : params.costBefore;
  return {
    inputTokens: tokens?.input ?? null,
    outputTokens: tokens?.output ?? null,
    microUsd: costNow === null || before === null ? null : Math.max(0, costNow - before),
  };
}

/** Of a turn with several requests it tells the tokens of the last one. */
const TELLS_LAST_ONLY: ReadonlySet<string> = new Set(["OpenCode"]);

interface Tokens {
  readonly input: number;
  readonly output: number;
}

function usageOf(answer: JsonRecord): Tokens | null {
  const usage = asRecord(answer["usage"]);
  const [input, output] = [countOf(usage["inputTokens"]), countOf(usage["outputTokens"])];
  if (input === null || output === null) return null;
  const cached = (countOf(usage["cachedReadTokens"]) ?? 0) + (countOf(usage["cachedWriteTokens"]) ?? 0);
  // Some count what a cache gave as input and some beside it; the total tells which.
  const isBeside = countOf(usage["totalTokens"]) === input + cached + output;
  return { input: isBeside ? input + cached : input, output };
}

/** Gemini CLI's way: of the turn alone. */
function quotaOf(answer: JsonRecord): Tokens | null {
  const count = asRecord(asRecord(asRecord(answer["_meta"])["quota"])["token_count"]);
  const [input, output] = [countOf(count["input_tokens"]), countOf(count["output_tokens"])];
  return input === null || output === null ? null : { input, output };
}

function countOf(value: unknown): number | null {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : null;
}
