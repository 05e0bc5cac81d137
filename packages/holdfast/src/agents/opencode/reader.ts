import { asRecord, asText, type JsonRecord } from "../../core/record.ts";
import type { CliStep } from "../frame/dialect.ts";
import { parseRecord } from "../frame/parse-record.ts";

/** What the lines of one call have said so far. */
export interface OpencodeState {
  /** Of the last step. */
  readonly text: string;
  /** Why the last step ended; null: none did, or another one has begun. */
  readonly reason: string | null;
  /** The last step that ended had nothing in it: it got no answer that it could read, and will ask again, for ever. */
  readonly isEmpty: boolean;
  readonly error: JsonRecord | null;
  readonly hasActed: boolean;
  /** Names of tools that it was not allowed to use. */
  readonly denied: ReadonlySet<string>;
  /** Of all steps that have ended; null: none has. */
  readonly spent: OpencodeSpent | null;
}

export interface OpencodeSpent {
  readonly input: number;
  readonly output: number;
  /** US dollars, by opencode's own price list. */
  readonly cost: number;
}

export const NOTHING_READ: OpencodeState = {
  text: "",
  reason: null,
  isEmpty: false,
  error: null,
  hasActed: false,
  denied: new Set(),
  spent: null,
};

export function readOpencodeLine(state: OpencodeState, line: string): CliStep<OpencodeState> {
  const event = parseRecord(line);
  const step = readEvent(state, event);
  const id = asText(event["sessionID"]);
  return id === "" ? step : { ...step, events: [{ kind: "session", id }, ...step.events] };
}

function readEvent(state: OpencodeState, event: JsonRecord): CliStep<OpencodeState> {
  const part = asRecord(event["part"]);
  switch (event["type"]) {
    case "step_start":
      return { state: { ...state, text: "", reason: null }, events: [], waiting: state.isEmpty };
    case "text": {
      const text = asText(part["text"]);
      if (text === "") return { state, events: [] };
      const said = state.text === "" ? text : `${state.text}\n${text}`;
      return { state: { ...state, text: said, hasActed: true }, events: [{ kind: "text", text }] };
    }
    case "tool_use":
      return readCall(state, part);
    case "step_finish":
      return readFinish(state, part);
    case "error":
      return { state: { ...state, error: asRecord(event["error"]) }, events: [] };
    default:
      return { state, events: [] };
  }
}

/** A call is told when it has ended. */
function readCall(state: OpencodeState, part: JsonRecord): CliStep<OpencodeState> {
  const name = asText(part["tool"]);
  const { status, error, input } = asRecord(part["state"]);
  const isDenied = status === "error" && DENIED.test(asText(error));
  const denied = isDenied ? new Set([...state.denied, name]) : state.denied;
  return {
    state: { ...state, hasActed: true, denied },
    events: [{ kind: "tool", name, detail: detailOf(input) }],
  };
}

/** There is no field for it. */
const DENIED = /^The user (?:rejected permission|has specified a rule which prevents)/;

/** What somebody who watches wants to see of a call. */
function detailOf(value: unknown): string {
  const input = asRecord(value);
  for (const key of ["command", "filePath", "path", "pattern", "url", "description"]) {
    const text = asText(input[key]);
    if (text !== "") return text;
  }
  return "";
}

function readFinish(state: OpencodeState, part: JsonRecord): CliStep<OpencodeState> {
  const tokens = asRecord(part["tokens"]);
  const cache = asRecord(tokens["cache"]);
  const input = count(tokens["input"]) + count(cache["read"]) + count(cache["write"]);
  const output = count(tokens["output"]) + count(tokens["reasoning"]);
  const before = state.spent ?? { input: 0, output: 0, cost: 0 };
  const spent = {
    input: before.input + input,
    output: before.output + output,
    cost: before.cost + count(part["cost"]),
  };
  const told = input + output;
  const reason = asText(part["reason"]);
  const isEmpty = reason === "unknown" && told === 0 && state.text === "";
  return {
    state: { ...state, reason, isEmpty, spent },
    events: told === 0 ? [] : [{ kind: "usage", tokens: told }],
    waiting: isEmpty,
  };
}

function count(value: unknown): number {
  return typeof value === "number" && value >= 0 ? value : 0;
}
