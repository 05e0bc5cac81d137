import { asRecord, asRecords, asText, isRecord, textOf, type JsonRecord } from "../record.ts";

export interface Said {
  readonly who: "agent" | "tool call" | "tool result" | "output";
  readonly text: string;
}

/**
 * The end of what an agent said and did, oldest first, read from a transcript in whatever format: lines of JSON as the agents write them, or plain
 * output. What it was told is left out. At most `maxCharacters` in all; each piece is cut in its middle.
 */
export function saidIn(transcript: string, params: { readonly maxCharacters: number }): readonly Said[] {
  const said: Said[] = [];
  let left = params.maxCharacters;
  for (let end = transcript.length; end > 0 && left > 0;) {
    const start = transcript.lastIndexOf("\n", end - 1) + 1;
    const pieces = piecesOf(transcript.slice(start, end).trim());
    end = start - 1;
    for (const piece of pieces.toReversed()) {
      const text = cutMiddle(piece.text, Math.min(left, piece.who === "agent" ? MAX_TEXT : MAX_TOOL));
      left -= text.length;
      if (text !== "") said.push({ ...piece, text });
      if (left <= 0) break;
    }
  }
  return said.toReversed();
}

const MAX_TEXT = 2_000;
const MAX_TOOL = 400;

function piecesOf(line: string): readonly Said[] {
  if (line === "") return [];
  const entry = parse(line);
  if (entry === null) return [{ who: "output", text: line }];
  // Where agents put the message itself.
  const message = [entry["message"], entry["payload"], entry].find((part) => isRecord(part)) ?? entry;
  return messagePieces(asRecord(message), asText(entry["type"]));
}

function messagePieces(message: JsonRecord, entryType: string): readonly Said[] {
  const type = asText(message["type"]);
  if (/function_call_output|tool_call_output/.test(type)) return tool("tool result", message["output"]);
  if (/function_call|tool_call|shell_call/.test(type)) return [called(message)];
  const role = asText(message["role"]) || entryType;
  const content = message["content"] ?? message["parts"];
  const parts = asRecords(content).flatMap(partPieces);
  const calls = asRecords(message["toolCalls"] ?? message["tool_calls"]).map(called);
  const isAgent = /^(?:assistant|model|gemini|agent)$/.test(role);
  const text = isAgent ? textOf(content).trim() : "";
  return [...(text === "" ? [] : [{ who: "agent", text } as const]), ...parts, ...calls];
}

function partPieces(part: JsonRecord): readonly Said[] {
  const type = asText(part["type"]);
  if (type === "tool_use") return [called(part)];
  if (type === "tool_result") return tool("tool result", part["content"]);
  if (isRecord(part["functionCall"])) return [called(part["functionCall"])];
  if (isRecord(part["functionResponse"])) return tool("tool result", part["functionResponse"]["response"]);
  return [];
}

function called(call: JsonRecord): Said {
  const inner = isRecord(call["function"]) ? call["function"] : call;
  const given = inner["input"] ?? inner["arguments"] ?? inner["args"] ?? inner["action"] ?? null;
  const what = typeof given === "string" ? given : given === null ? "" : JSON.stringify(given);
  return { who: "tool call", text: `${asText(inner["name"]) || asText(inner["type"])} ${what}`.trim() };
}

function tool(who: Said["who"], content: unknown): readonly Said[] {
  const text = typeof content === "string" || Array.isArray(content) ? textOf(content) : JSON.stringify(content ?? "");
  return text.trim() === "" ? [] : [{ who, text: text.trim() }];
}

function cutMiddle(text: string, most: number): string {
  if (text.length <= most) return text;
  const half = Math.max(0, Math.floor((most - GAP.length) / 2));
  return `${text.slice(0, half).toWellFormed()}${GAP}${text.slice(text.length - half).toWellFormed()}`.slice(0, most);
}

const GAP = " […] ";

function parse(line: string): JsonRecord | null {
  if (!line.startsWith("{")) return null;
  try {
    const value: unknown = JSON.parse(line);
    return isRecord(value) ? value : null;
  } catch {
    // Half a line of a call that was killed says nothing that can be read.
    return {};
  }
}
