import { asRecord, asText, type JsonRecord } from "../../core/record.ts";
import type { CliStep } from "../frame/dialect.ts";
import { parseRecord } from "../frame/parse-record.ts";
import { tokensOfStats, type TokenCount } from "./token-count.ts";

/** What the lines of one call have said so far. */
export interface GeminiState {
  /** What was said since the last tool call. */
  readonly text: string;
  readonly result: GeminiResult | null;
  /** The last error event: a result may fail without words of its own. */
  readonly trouble: string;
  readonly hasActed: boolean;
  /** Names of tools that were called, by call, until their result is there. */
  readonly calls: ReadonlyMap<string, string>;
  /** Names of tools that it was not allowed to use. */
  readonly denied: ReadonlySet<string>;
}

export interface GeminiResult {
  readonly isError: boolean;
  readonly message: string;
  readonly tokens: TokenCount | null;
}

export const NOTHING_READ: GeminiState = {
  text: "",
  result: null,
  trouble: "",
  hasActed: false,
  calls: new Map(),
  denied: new Set(),
};

export function readGeminiLine(state: GeminiState, line: string): CliStep<GeminiState> {
  const event = parseRecord(line);
  switch (event["type"]) {
    case "init": {
      const id = asText(event["session_id"]);
      return { state, events: id === "" ? [] : [{ kind: "session", id }] };
    }
    case "message":
      return event["role"] === "assistant" ? readWords(state, event) : { state, events: [] };
    case "tool_use":
      return readCall(state, event);
    case "tool_result":
      return { state: readAnswer(state, event), events: [] };
    case "error":
      return { state: { ...state, trouble: asText(event["message"]) }, events: [] };
    case "result":
      return { state: { ...state, result: resultOf(event, state.trouble) }, events: [] };
    default:
      return { state, events: [] };
  }
}

function readWords(state: GeminiState, event: JsonRecord): CliStep<GeminiState> {
  const text = asText(event["content"]);
  if (text === "") return { state, events: [] };
  const said = event["delta"] === true ? `${state.text}${text}` : text;
  return { state: { ...state, text: said, hasActed: true }, events: [{ kind: "text", text }] };
}

function readCall(state: GeminiState, event: JsonRecord): CliStep<GeminiState> {
  const name = asText(event["tool_name"]);
  const calls = new Map([...state.calls, [asText(event["tool_id"]), name]]);
  return {
    state: { ...state, text: "", hasActed: true, calls },
    events: [{ kind: "tool", name, detail: detailOf(event["parameters"]) }],
  };
}

/** What somebody who watches wants to see of a call. */
function detailOf(value: unknown): string {
  const input = asRecord(value);
  for (const key of ["command", "file_path", "dir_path", "pattern", "query", "url", "prompt"]) {
    const text = asText(input[key]);
    if (text !== "") return text;
  }
  return "";
}

function readAnswer(state: GeminiState, event: JsonRecord): GeminiState {
  const id = asText(event["tool_id"]);
  const name = state.calls.get(id) ?? "a tool";
  const calls = new Map([...state.calls].filter(([key]) => key !== id));
  if (!isDenied(name, asText(asRecord(event["error"])["type"]))) return { ...state, calls };
  return { ...state, calls, denied: new Set([...state.denied, name]) };
}

/** A shell that it may not use is not offered to it either: who asks for it all the same is told that there is none. */
function isDenied(name: string, error: string): boolean {
  return error === "policy_violation" || (error === "tool_not_registered" && name === "run_shell_command");
}

function resultOf(event: JsonRecord, trouble: string): GeminiResult {
  return {
    isError: event["status"] !== "success",
    message: asText(asRecord(event["error"])["message"]) || trouble,
    tokens: tokensOfStats(event["stats"]),
  };
}
