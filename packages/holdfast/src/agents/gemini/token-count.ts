import { asRecord } from "../../core/record.ts";

/** All that went in, from a cache or not, and all else that was counted: answers and thoughts. */
export interface TokenCount {
  readonly input: number;
  readonly output: number;
  /** Of the input. */
  readonly cached: number;
}

export const NO_TOKENS: TokenCount = { input: 0, output: 0, cached: 0 };

/** `stats` of a result; null: this is none. */
export function tokensOfStats(value: unknown): TokenCount | null {
  const { input_tokens: input, total_tokens: total, cached } = asRecord(value);
  return split(input, total, cached);
}

/** `tokens` of a message in a session's file. */
export function tokensOfChat(value: unknown): TokenCount | null {
  const { input, total, cached } = asRecord(value);
  return split(input, total, cached);
}

/** Thoughts are told apart from answers, or not at all; the total has both. */
function split(input: unknown, total: unknown, cached: unknown): TokenCount | null {
  if (typeof input !== "number" || typeof total !== "number") return null;
  const given = typeof cached === "number" && cached >= 0 ? cached : 0;
  return input >= 0 && total >= input ? { input, output: total - input, cached: given } : null;
}

export function add(one: TokenCount, other: TokenCount): TokenCount {
  return { input: one.input + other.input, output: one.output + other.output, cached: one.cached + other.cached };
}
