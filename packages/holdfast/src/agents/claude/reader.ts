import { asRecord, asRecords, asText, isRecord, type JsonRecord } from "../../core/record.ts";
import type { AgentEvent } from "../../ports/agent.ts";
import type { CliStep } from "../frame/dialect.ts";
import { parseRecord } from "../frame/parse-record.ts";
import { add, greatest, modelTokensOf, NO_TOKENS, tokensOf, type TokenCount } from "./token-count.ts";

/** What the lines of one call have said so far. */
export interface ClaudeState {
  /** By message, of those that no result has counted yet. */
  readonly pending: ReadonlyMap<string, TokenCount>;
  readonly counted: ReadonlySet<string>;
  /** Of the results. One process gives several when background work wakes it up again. */
  readonly spent: TokenCount & { readonly microUsd: number | null };
  readonly result: ClaudeResult | null;
  /** Names of tools that it was not allowed to use. */
  readonly denied: ReadonlySet<string>;
  /** The word of the last failed request: `authentication_failed`, `rate_limit`, … */
  readonly error: string | null;
  /** Seconds since the epoch at which a used-up limit is given anew. */
  readonly resetsAt: number | null;
}

export interface ClaudeResult {
  readonly subtype: string;
  readonly isError: boolean;
  readonly text: string;
  readonly errors: readonly string[];
  readonly status: number | null;
  readonly terminalReason: string;
  /** `connection_failed`, `tool_history_mismatch`, … */
  readonly apiError: string;
  readonly turns: number;
  /** Cumulative over the session, or of this process: that differs by version. */
  readonly totalCostUsd: number | null;
  /** Does it tell usage since the last result? Older versions do not. */
  readonly isItemized: boolean;
}

export const NOTHING_READ: ClaudeState = {
  pending: new Map(),
  counted: new Set(),
  spent: { ...NO_TOKENS, microUsd: 0 },
  result: null,
  denied: new Set(),
  error: null,
  resetsAt: null,
};

export function readClaudeLine(state: ClaudeState, line: string): CliStep<ClaudeState> {
  const event = parseRecord(line);
  switch (event["type"]) {
    case "system":
      return { state: readSystem(state, event), events: sessionOf(event) };
    case "assistant":
      return readAssistant(state, event);
    case "stream_event":
      return readStream(state, event);
    case "rate_limit_event":
      return { state: readLimit(state, asRecord(event["rate_limit_info"])), events: [] };
    case "result":
      return { state: readResult(state, event), events: [] };
    default:
      return { state, events: [] };
  }
}

function sessionOf(event: JsonRecord): readonly AgentEvent[] {
  const id = asText(event["session_id"]);
  return event["subtype"] === "init" && id !== "" ? [{ kind: "session", id }] : [];
}

/** Our own word in `ClaudeState.error`: the model declined to answer. */
export const REFUSED = "model_refusal";

function readSystem(state: ClaudeState, event: JsonRecord): ClaudeState {
  if (asText(event["subtype"]).startsWith(REFUSED)) return { ...state, error: REFUSED };
  if (event["subtype"] !== "permission_denied") return state;
  return { ...state, denied: new Set([...state.denied, asText(event["tool_name"])]) };
}

function readAssistant(state: ClaudeState, event: JsonRecord): CliStep<ClaudeState> {
  const message = asRecord(event["message"]);
  // Words that the program puts into the model's mouth when a request has failed.
  const error = asText(event["error"]);
  if (error !== "" || message["model"] === "<synthetic>")
    return { state: { ...state, error: error === "" || state.error === REFUSED ? state.error : error }, events: [] };
  const isSubagent = typeof event["parent_tool_use_id"] === "string";
  const events = asRecords(message["content"]).flatMap((block) => blockEvents(block, isSubagent));
  const id = asText(event["uuid"]);
  if (!isSubagent && id !== "") events.push({ kind: "message", id });
  return { state: { ...countMessage(state, message["id"], message["usage"]), error: null }, events };
}

function blockEvents(block: JsonRecord, isSubagent: boolean): AgentEvent[] {
  const text = asText(block["text"]);
  if (block["type"] === "text" && text !== "" && !isSubagent) return [{ kind: "text", text }];
  if (block["type"] === "tool_use")
    return [{ kind: "tool", name: asText(block["name"]), detail: detailOf(block["input"]) }];
  return [];
}

/** What somebody who watches wants to see of a call. */
function detailOf(value: unknown): string {
  const input = asRecord(value);
  for (const key of ["command", "file_path", "path", "pattern", "url", "query", "description"]) {
    const text = asText(input[key]);
    if (text !== "") return text;
  }
  return "";
}

function readStream(state: ClaudeState, line: JsonRecord): CliStep<ClaudeState> {
  const event = asRecord(line["event"]);
  const message = asRecord(event["message"]);
  if (event["type"] === "message_start")
    return { state: countMessage(state, message["id"], message["usage"]), events: [] };
  const id = asText(line["api_message_id"]);
  const tokens = event["type"] === "message_delta" ? tokensOf(event["usage"]) : null;
  // Without the id of its message (older versions) it cannot be told from one that was counted.
  if (tokens === null || id === "") return { state, events: [] };
  return {
    state: countMessage(state, id, event["usage"]),
    events: [{ kind: "usage", tokens: tokens.input + tokens.output }],
  };
}

function countMessage(state: ClaudeState, id: unknown, usage: unknown): ClaudeState {
  const tokens = tokensOf(usage);
  if (typeof id !== "string" || tokens === null || state.counted.has(id)) return state;
  return { ...state, pending: new Map([...state.pending, [id, greatest(state.pending.get(id), tokens)]]) };
}

function readLimit(state: ClaudeState, info: JsonRecord): ClaudeState {
  const at = info["resetsAt"];
  return info["status"] === "rejected" && typeof at === "number" ? { ...state, resetsAt: at } : state;
}

function readResult(state: ClaudeState, event: JsonRecord): ClaudeState {
  const since = event["model_usage_since_last_result"];
  const isItemized = isRecord(since);
  const own = isItemized ? modelTokensOf(since) : { ...(tokensOf(event["usage"]) ?? NO_TOKENS), microUsd: null };
  const microUsd = own.microUsd === null || state.spent.microUsd === null ? null : own.microUsd + state.spent.microUsd;
  const denied = asRecords(event["permission_denials"]).map((denial) => asText(denial["tool_name"]));
  return {
    ...state,
    pending: new Map(),
    counted: new Set([...state.counted, ...state.pending.keys()]),
    spent: { ...add(state.spent, own), microUsd },
    denied: new Set([...state.denied, ...denied]),
    result: {
      subtype: asText(event["subtype"]),
      isError: event["is_error"] !== false,
      text: asText(event["result"]),
      errors: Array.isArray(event["errors"]) ? event["errors"].map((error) => asText(error)) : [],
      status: numberOf(event["api_error_status"]),
      terminalReason: asText(event["terminal_reason"]),
      apiError: asText(event["api_error"]),
      turns: numberOf(event["num_turns"]) ?? 0,
      totalCostUsd: numberOf(event["total_cost_usd"]),
      isItemized,
    },
  };
}

function numberOf(value: unknown): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}
