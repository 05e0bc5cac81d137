import { asRecord, asText, type JsonRecord } from "../../core/record.ts";
import type { CliStep } from "../frame/dialect.ts";
import { parseRecord } from "../frame/parse-record.ts";

/** What the lines of one call have said so far. */
export interface CopilotState {
  /** The last message. */
  readonly text: string;
  /** Its own last event; null: it has not come. */
  readonly exitCode: number | null;
  /** What it gave up for. */
  readonly error: CopilotError | null;
  /** The last request that was refused, until an answer comes. */
  readonly refused: CopilotError | null;
  readonly hasActed: boolean;
  /** Names of tools that were called, by call. */
  readonly calls: ReadonlyMap<string, string>;
  /** Names of tools that it was not allowed to use. */
  readonly denied: ReadonlySet<string>;
}

export interface CopilotError {
  readonly type: string;
  readonly message: string;
  readonly status: number | null;
}

export const NOTHING_READ: CopilotState = {
  text: "",
  exitCode: null,
  error: null,
  refused: null,
  hasActed: false,
  calls: new Map(),
  denied: new Set(),
};

export function readCopilotLine(state: CopilotState, line: string): CliStep<CopilotState> {
  const event = parseRecord(line);
  const step = readEvent(state, event, asRecord(event["data"]));
  // From a refusal to the next answer it only says that it tries again.
  return step.state.refused === null || step.state.exitCode !== null ? step : { ...step, waiting: true };
}

function readEvent(state: CopilotState, event: JsonRecord, data: JsonRecord): CliStep<CopilotState> {
  switch (event["type"]) {
    case "assistant.message": {
      const text = asText(data["content"]);
      if (text === "") return { state: { ...state, refused: null }, events: [] };
      return { state: { ...state, text, hasActed: true, refused: null }, events: [{ kind: "text", text }] };
    }
    case "assistant.message_start":
      return { state: { ...state, refused: null }, events: [] };
    case "tool.execution_start": {
      const name = asText(data["toolName"]);
      const calls = new Map([...state.calls, [asText(data["toolCallId"]), name]]);
      const tool = { kind: "tool", name, detail: detailOf(data["arguments"]) } as const;
      return { state: { ...state, calls, hasActed: true }, events: [tool] };
    }
    case "tool.execution_complete":
      return { state: readResult(state, data), events: [] };
    case "model.call_failure": {
      const refused = { type: "", message: asText(data["errorMessage"]), status: numberOf(data["statusCode"]) };
      return { state: { ...state, refused }, events: [] };
    }
    case "session.error":
      return { state: { ...state, error: errorOf(data) }, events: [] };
    case "result": {
      const id = asText(event["sessionId"]);
      const exitCode = numberOf(event["exitCode"]) ?? 1;
      return { state: { ...state, exitCode }, events: id === "" ? [] : [{ kind: "session", id }] };
    }
    default:
      return { state, events: [] };
  }
}

function readResult(state: CopilotState, data: JsonRecord): CopilotState {
  if (asRecord(data["error"])["code"] !== "denied") return state;
  const name = state.calls.get(asText(data["toolCallId"])) ?? "a tool";
  return { ...state, denied: new Set([...state.denied, name]) };
}

function errorOf(data: JsonRecord): CopilotError {
  return { type: asText(data["errorType"]), message: asText(data["message"]), status: numberOf(data["statusCode"]) };
}

function numberOf(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}

/** What somebody who watches wants to see of a call. */
function detailOf(value: unknown): string {
  const input = asRecord(value);
  for (const key of ["command", "path", "pattern", "url", "query", "prompt"]) {
    const text = asText(input[key]);
    if (text !== "") return text;
  }
  return "";
}
