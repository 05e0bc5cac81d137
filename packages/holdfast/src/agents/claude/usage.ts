import { asRecord, asText } from "../../core/record.ts";
import type { AgentUsage } from "../../ports/agent.ts";
import { parseRecord } from "../frame/parse-record.ts";
import { NOTHING_READ, type ClaudeState } from "./reader.ts";
import { add, greatest, NO_TOKENS, tokensOf, type TokenCount } from "./token-count.ts";

/**
 * Of this call alone. Results count what came before them, subagents included, with its price; what no result has counted (the call was killed) is counted by
 * message, from the stream and from the transcript, and has no price.
 */
export function claudeUsage(params: {
  readonly state: ClaudeState;
  /** Lines that this call has added to the session's transcripts; only looked at where no result closed the count. */
  readonly added: () => readonly string[];
  /** The session's cumulative cost when the call began, as older versions go on from it. */
  readonly costBefore: () => number;
}): AgentUsage {
  const { state } = params;
  const { result } = state;
  const open = result !== null && state.pending.size === 0 ? new Map() : withTranscripts(state, params.added());
  if (result === null && open.size === 0) return { inputTokens: null, outputTokens: null, microUsd: null };
  const rest = [...open.values()].reduce(add, NO_TOKENS);
  const total = add(state.spent, rest);
  return { inputTokens: total.input, outputTokens: total.output, microUsd: open.size === 0 ? costOf(params) : null };
}

/** All answers of a session, each once. */
export function tokensInTranscript(text: string): TokenCount {
  return [...withTranscripts(NOTHING_READ, [text]).values()].reduce(add, NO_TOKENS);
}

function costOf({
  state,
  costBefore,
}: {
  readonly state: ClaudeState;
  readonly costBefore: () => number;
}): number | null {
  const { result, spent } = state;
  if (result === null) return null;
  if (result.isItemized) return spent.microUsd === null ? null : Math.round(spent.microUsd);
  return result.totalCostUsd === null ? null : Math.max(0, Math.round((result.totalCostUsd - costBefore()) * 1e6));
}

function withTranscripts(
  state: Pick<ClaudeState, "pending" | "counted">,
  added: readonly string[],
): ReadonlyMap<string, TokenCount> {
  const open = new Map(state.pending);
  for (const line of added.flatMap((text) => text.split("\n"))) {
    // Most of a transcript is system prompts and tool output.
    if (!line.includes('"assistant"')) continue;
    const message = asRecord(parseRecord(line)["message"]);
    const id = asText(message["id"]);
    const tokens = tokensOf(message["usage"]);
    if (id === "" || tokens === null || message["model"] === "<synthetic>" || state.counted.has(id)) continue;
    open.set(id, greatest(open.get(id), tokens));
  }
  return open;
}

/** The cumulative cost that a transcript ends with, in US dollars; versions that count each process by itself write none. */
export function costSoFar(transcript: string): number {
  const at = transcript.lastIndexOf('{"type":"cost-state"');
  if (at === -1) return 0;
  const end = transcript.indexOf("\n", at);
  const cost = parseRecord(transcript.slice(at, end === -1 ? undefined : end))["totalCostUSD"];
  return typeof cost === "number" && Number.isFinite(cost) ? cost : 0;
}
