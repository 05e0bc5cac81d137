import { asRecord, asRecords, asText, type JsonRecord } from "../../core/record.ts";
import type { AgentEvent } from "../../ports/agent.ts";
import type { CliStep } from "../frame/dialect.ts";
import { parseRecord } from "../frame/parse-record.ts";
import { tokensOf, type TokenCount } from "./token-count.ts";

/** What the lines of one call have said so far. */
export interface CodexState {
  readonly session: string | null;
  /** The last message. */
  readonly text: string;
  readonly end: "open" | "completed" | "failed";
  /** The last failure that was told, of a request that it goes on trying or of the turn. */
  readonly trouble: string | null;
  /** As the terminal event tells it: of the whole thread, as far as Codex remembers it. */
  readonly total: TokenCount | null;
  /** Items whose beginning was told. */
  readonly begun: ReadonlySet<string>;
}

export const NOTHING_READ: CodexState = {
  session: null,
  text: "",
  end: "open",
  trouble: null,
  total: null,
  begun: new Set(),
};

export function readCodexLine(state: CodexState, line: string): CliStep<CodexState> {
  const event = parseRecord(line);
  switch (event["type"]) {
    case "thread.started": {
      const id = asText(event["thread_id"]);
      return id === "" ? same(state) : { state: { ...state, session: id }, events: [{ kind: "session", id }] };
    }
    case "item.started":
    case "item.completed":
      return readItem(state, asRecord(event["item"]), event["type"] === "item.completed");
    case "turn.completed":
      return same({ ...state, end: "completed", trouble: null, total: tokensOf(event["usage"]) });
    case "turn.failed":
      return same({ ...state, end: "failed", trouble: asText(asRecord(event["error"])["message"]) || state.trouble });
    case "error":
      return { ...same({ ...state, trouble: asText(event["message"]) }), waiting: true };
    default:
      return same(state);
  }
}

function same(state: CodexState): CliStep<CodexState> {
  return { state, events: [] };
}

function readItem(state: CodexState, item: JsonRecord, isDone: boolean): CliStep<CodexState> {
  // It works again: whatever was wrong with a request is over.
  const next = { ...state, trouble: null };
  const text = asText(item["text"]);
  if (item["type"] === "agent_message")
    return isDone && text !== "" ? { state: { ...next, text }, events: [{ kind: "text", text }] } : same(next);
  const id = asText(item["id"]);
  const event = toolOf(item);
  if (event === null || state.begun.has(id)) return same(next);
  return { state: { ...next, begun: new Set([...state.begun, id]) }, events: [event] };
}

function toolOf(item: JsonRecord): AgentEvent | null {
  switch (item["type"]) {
    case "command_execution":
      return { kind: "tool", name: "exec_command", detail: asText(item["command"]) };
    case "file_change": {
      const paths = asRecords(item["changes"]).map((change) => asText(change["path"]));
      return { kind: "tool", name: "apply_patch", detail: paths.join(", ") };
    }
    case "mcp_tool_call":
      return { kind: "tool", name: `${asText(item["server"])}.${asText(item["tool"])}`, detail: "" };
    case "web_search":
      return { kind: "tool", name: "web_search", detail: asText(item["query"]) };
    default:
      return null;
  }
}
