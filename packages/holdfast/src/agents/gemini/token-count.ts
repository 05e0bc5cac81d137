import { asRecord } from "../../core/record.ts";

/** All that went in, from a cache or not, and all else that was counted: answers and thoughts. */
export interface TokenCount {
  readonly input: number;
  readonly output: number;
}

export const NO_TOKENS: TokenCount = { input: 0, output: 0 };

/** `stats` of a result; null: this is none. */
export function tokensOfStats(value: unknown): TokenCount | null {
  const { input_tokens: input, total_tokens: total } = asRecord(value);
  return split(input, total);
}

/** `tokens` of a message in a session's file. */
export function tokensOfChat(value: unknown): TokenCount | null {
  const { input, total } = asRecord(value);
  return split(input, total);
}

/** Thoughts are told apart from answers, or not at all; the total has both. */
function split(input: unknown, total: unknown): TokenCount | null {
  if (typeof input !== "number" || typeof total !== "number") return null;
  return input >= 0 && total >= input ? { input, output: total - input } : null;
}

export function add(one: TokenCount, other: TokenCount): TokenCount {
  return { input: one.input + other.input, output: one.output + other.output };
}
