import { asRecord, type JsonRecord } from "../../core/record.ts";

/** All that went in, from a cache or not, and all that came out. */
export interface TokenCount {
  readonly input: number;
  readonly output: number;
}

export const NO_TOKENS: TokenCount = { input: 0, output: 0 };

/** `usage` as messages and results carry it; null: this is none. */
export function tokensOf(value: unknown): TokenCount | null {
  const usage = asRecord(value);
  if (typeof usage["input_tokens"] !== "number") return null;
  const parts = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"];
  return { input: sum(usage, parts), output: sum(usage, ["output_tokens"]) };
}

/** `modelUsage`: by model, with what it cost. microUsd is null where it only guesses a price. */
export function modelTokensOf(value: unknown): TokenCount & { readonly microUsd: number | null } {
  let tokens = NO_TOKENS;
  let microUsd: number | null = 0;
  for (const entry of Object.values(asRecord(value))) {
    const usage = asRecord(entry);
    const parts = ["inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens"];
    tokens = add(tokens, { input: sum(usage, parts), output: sum(usage, ["outputTokens"]) });
    const known = typeof usage["costUSD"] === "number" && usage["costBasis"] !== "unknown";
    microUsd = known && microUsd !== null ? microUsd + sum(usage, ["costUSD"]) * 1e6 : null;
  }
  return { ...tokens, microUsd };
}

export function add(one: TokenCount, other: TokenCount): TokenCount {
  return { input: one.input + other.input, output: one.output + other.output };
}

/** The same message is told several times, first with a placeholder for what came out: the greatest is the last. */
export function greatest(one: TokenCount | undefined, other: TokenCount): TokenCount {
  if (one === undefined) return other;
  return { input: Math.max(one.input, other.input), output: Math.max(one.output, other.output) };
}

function sum(record: JsonRecord, names: readonly string[]): number {
  return names.reduce((total, name) => {
    const value = record[name];
    return total + (typeof value === "number" && Number.isFinite(value) && value > 0 ? value : 0);
  }, 0);
}
