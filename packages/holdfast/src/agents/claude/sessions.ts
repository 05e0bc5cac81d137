import { asRecord, asRecords, asText, textOf, type JsonRecord } from "../../core/record.ts";
import { finishedTurn, type TurnLine } from "../frame/finished-turn.ts";
import type { AgentSessions } from "../../ports/agent.ts";
import { parseRecord } from "../frame/parse-record.ts";
import { readSessionFile, writeSessionFile } from "../frame/session-file.ts";
import { findTranscript } from "./find-transcripts.ts";
import { tokensInTranscript } from "./usage.ts";
import { transcriptPlace } from "./transcript-place.ts";

/** Claude Code's own record of a session: one file, to which it only ever adds. Its subagents' files are theirs, and no resume reads them. */
export const claudeSessions: AgentSessions = {
  async read({ session, cwd }) {
    const path = findTranscript(transcriptPlace({ session, cwd, env: process.env }));
    const text = readSessionFile({ path, title: "Claude Code" });
    return text === null ? null : { text, lastMessage: lastMessageIn(text) };
  },
  async write({ session, cwd, text }) {
    const place = transcriptPlace({ session, cwd, env: process.env });
    writeSessionFile({ path: findTranscript(place) ?? place.file, text });
  },
  tokensIn: tokensInTranscript,
  answerIn: (text, prompt) => finishedTurn(text, prompt, readTurnLine),
};

/** The last that a session can be forked at: an answer of the model itself. */
export function lastMessageIn(transcript: string): string | null {
  for (let end = transcript.length; end > 0;) {
    const start = transcript.lastIndexOf("\n", end - 1) + 1;
    const line = transcript.slice(start, end);
    end = start - 1;
    if (!line.includes('"assistant"')) continue;
    const entry = parseRecord(line);
    const { model } = asRecord(entry["message"]);
    const id = asText(entry["uuid"]);
    if (entry["type"] === "assistant" && entry["isSidechain"] !== true && model !== "<synthetic>" && id !== "")
      return id;
  }
  return null;
}

/** Subagents have turns of their own, and what it notes for itself is no part of one. */
function readTurnLine(line: JsonRecord): TurnLine | null {
  if (line["isSidechain"] === true || line["isMeta"] === true) return null;
  const message = asRecord(line["message"]);
  const content = message["content"];
  if (line["type"] === "user") {
    const isResult = asRecords(content).some(({ type }) => type === "tool_result");
    return isResult ? { kind: "open" } : { kind: "prompt", text: textOf(content) };
  }
  if (line["type"] !== "assistant") return null;
  return message["stop_reason"] === "end_turn" ? { kind: "answer", text: textOf(content) } : { kind: "open" };
}
