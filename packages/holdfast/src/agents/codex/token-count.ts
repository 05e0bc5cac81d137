import { asRecord, asText } from "../../core/record.ts";

/** All that went in, from a cache or not, and all that came out, thoughts included. */
export interface TokenCount {
  readonly input: number;
  readonly output: number;
  /** Of the input. */
  readonly cached: number;
}

const NO_TOKENS: TokenCount = { input: 0, output: 0, cached: 0 };

/** `usage` as events and the rollout carry it; null: this is none. */
export function tokensOf(value: unknown): TokenCount | null {
  const { input_tokens: input, output_tokens: output, cached_input_tokens: cached } = asRecord(value);
  if (!isCount(input) || !isCount(output)) return null;
  return { input, output, cached: isCount(cached) ? cached : 0 };
}

/** What the answers of the model took, as far as these lines of a rollout tell: one record for each, written as soon as it has come whole. */
export function sumOfAnswers(lines: string): TokenCount | null {
  const answers = new Map<string, TokenCount>();
  for (const payload of payloadsOf(lines, '"token_usage_record"')) {
    const tokens = tokensOf(payload["usage"]);
    if (tokens !== null) answers.set(asText(payload["response_id"]) || String(answers.size), tokens);
  }
  if (answers.size === 0) return null;
  let sum = NO_TOKENS;
  for (const { input, output, cached } of answers.values())
    sum = { input: sum.input + input, output: sum.output + output, cached: sum.cached + cached };
  return sum;
}

/** What the thread had taken by its own reckoning: what a terminal event tells goes on from it. A call that was killed may be missing in it. */
export function totalSoFar(lines: string): TokenCount {
  const last = payloadsOf(lines, '"total_token_usage"').at(-1);
  return tokensOf(asRecord(last?.["info"])["total_token_usage"]) ?? NO_TOKENS;
}

/** Most of a rollout is instructions and tool output: only what has the word is parsed. */
function payloadsOf(lines: string, word: string): readonly ReturnType<typeof asRecord>[] {
  return lines.split("\n").flatMap((line) => (line.includes(word) ? [payloadOf(line)] : []));
}

function payloadOf(line: string): ReturnType<typeof asRecord> {
  try {
    return asRecord(asRecord(JSON.parse(line))["payload"]);
  } catch {
    // The last line of a call that was killed may be half a line.
    return {};
  }
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isFinite(value) && value >= 0;
}
