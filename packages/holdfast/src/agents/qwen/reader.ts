import { asRecord, asRecords, asText, type JsonRecord } from "../../core/record.ts";
import type { AgentEvent } from "../../ports/agent.ts";
import type { CliStep } from "../frame/dialect.ts";
import { parseRecord } from "../frame/parse-record.ts";

/** What the lines of one call have said so far. */
export interface QwenState {
  readonly result: QwenResult | null;
  readonly hasActed: boolean;
}

export interface QwenResult {
  readonly isError: boolean;
  readonly text: string;
  readonly error: string;
  /** Names of tools that it was not allowed to use. */
  readonly denied: readonly string[];
}

export const NOTHING_READ: QwenState = { result: null, hasActed: false };

export function readQwenLine(state: QwenState, line: string): CliStep<QwenState> {
  const event = parseRecord(line);
  const id = asText(event["session_id"]);
  const step = readEvent(state, event);
  return id === "" ? step : { ...step, events: [{ kind: "session", id }, ...step.events] };
}

function readEvent(state: QwenState, event: JsonRecord): CliStep<QwenState> {
  switch (event["type"]) {
    case "assistant": {
      const events = eventsOf(asRecord(event["message"])["content"]);
      return { state: { ...state, hasActed: state.hasActed || events.length > 0 }, events };
    }
    case "result":
      return { state: { ...state, result: resultOf(event) }, events: [] };
    default:
      return { state, events: [] };
  }
}

/** A failure is told as if the model had said it. */
function eventsOf(content: unknown): readonly AgentEvent[] {
  return asRecords(content).flatMap((part): readonly AgentEvent[] => {
    const text = asText(part["text"]);
    if (part["type"] === "text" && text !== "" && !text.startsWith("[API Error:")) return [{ kind: "text", text }];
    if (part["type"] !== "tool_use") return [];
    return [{ kind: "tool", name: asText(part["name"]), detail: detailOf(part["input"]) }];
  });
}

function resultOf(event: JsonRecord): QwenResult {
  return {
    isError: event["is_error"] !== false,
    text: asText(event["result"]),
    error: asText(asRecord(event["error"])["message"]),
    denied: asRecords(event["permission_denials"]).map((denial) => asText(denial["tool_name"])),
  };
}

/** What somebody who watches wants to see of a call. */
function detailOf(value: unknown): string {
  const input = asRecord(value);
  for (const key of ["command", "file_path", "path", "pattern", "query", "url", "prompt"]) {
    const text = asText(input[key]);
    if (text !== "") return text;
  }
  return "";
}
