import { asRecord, asRecords, asText, textOf, type JsonRecord } from "../../core/record.ts";
import type { CliStep } from "../frame/dialect.ts";
import { parseRecord } from "../frame/parse-record.ts";

/** What the lines of one call have said so far. */
export interface PiState {
  /** The model's last message. */
  readonly last: { readonly text: string; readonly stop: string; readonly error: string } | null;
  /** The last line that said so: nothing more is to be done. */
  readonly isOver: boolean;
  readonly hasActed: boolean;
  /** Names of tools that it asked for and does not have. */
  readonly absent: ReadonlySet<string>;
  /** Of all messages that have ended; null: none has. */
  readonly spent: PiSpent | null;
  /** Of the message that is being written. */
  readonly open: PiSpent | null;
}

export interface PiSpent {
  readonly input: number;
  readonly output: number;
  /** US dollars, by pi's own price list. */
  readonly cost: number;
}

export const NOTHING_READ: PiState = {
  last: null,
  isOver: false,
  hasActed: false,
  absent: new Set(),
  spent: null,
  open: null,
};

export function readPiLine(state: PiState, line: string): CliStep<PiState> {
  // It repeats the whole call, so that a long one comes in pieces that are no JSON.
  if (line.startsWith('{"type":"agent_end"')) return { state: { ...state, isOver: true }, events: [] };
  const event = parseRecord(line);
  const message = asRecord(event["message"]);
  const isModels = message["role"] === "assistant";
  switch (event["type"]) {
    case "session": {
      const id = asText(event["id"]);
      return { state, events: id === "" ? [] : [{ kind: "session", id }] };
    }
    case "agent_start":
      return { state: { ...state, isOver: false }, events: [] };
    case "auto_retry_start":
      return { state, events: [], waiting: true };
    case "message_start":
    case "message_update":
      return { state: isModels ? { ...state, open: spentOf(message) } : state, events: [] };
    case "message_end":
      return isModels ? readMessage(state, message) : { state, events: [] };
    case "tool_execution_start": {
      const tool = { kind: "tool", name: asText(event["toolName"]), detail: detailOf(event["args"]) } as const;
      return { state: { ...state, hasActed: true }, events: [tool] };
    }
    case "tool_execution_end":
      return { state: readResult(state, event), events: [] };
    default:
      return { state, events: [] };
  }
}

function readMessage(state: PiState, message: JsonRecord): CliStep<PiState> {
  const own = spentOf(message);
  const text = textOf(asRecords(message["content"]).filter(({ type }) => type === "text"));
  const last = { text, stop: asText(message["stopReason"]), error: asText(message["errorMessage"]) };
  const tokens = own.input + own.output;
  return {
    state: { ...state, last, hasActed: state.hasActed || text !== "", spent: add(state.spent, own), open: null },
    events: [
      ...(text === "" ? [] : [{ kind: "text", text } as const]),
      ...(tokens === 0 ? [] : [{ kind: "usage", tokens } as const]),
    ],
  };
}

function readResult(state: PiState, event: JsonRecord): PiState {
  const name = asText(event["toolName"]);
  const said = textOf(asRecord(event["result"])["content"]);
  const isAbsent = event["isError"] === true && said === `Tool ${name} not found`;
  return isAbsent ? { ...state, absent: new Set([...state.absent, name]) } : state;
}

/** What somebody who watches wants to see of a call. */
function detailOf(value: unknown): string {
  const input = asRecord(value);
  for (const key of ["command", "path", "pattern"]) {
    const text = asText(input[key]);
    if (text !== "") return text;
  }
  return "";
}

export function spentOf(message: JsonRecord): PiSpent {
  const usage = asRecord(message["usage"]);
  return {
    input: count(usage["input"]) + count(usage["cacheRead"]) + count(usage["cacheWrite"]),
    output: count(usage["output"]),
    cost: count(asRecord(usage["cost"])["total"]),
  };
}

export function add(one: PiSpent | null, other: PiSpent): PiSpent {
  if (one === null) return other;
  return { input: one.input + other.input, output: one.output + other.output, cost: one.cost + other.cost };
}

function count(value: unknown): number {
  return typeof value === "number" && value >= 0 ? value : 0;
}
