import { asRecord, asText, textOf, type JsonRecord } from "../../core/record.ts";
import { finishedTurn, type TurnLine } from "../frame/finished-turn.ts";
import type { AgentSessions } from "../../ports/agent.ts";
import { readSessionFile, writeSessionFile } from "../frame/session-file.ts";
import { findRollout } from "./find-rollout.ts";
import { sumOfAnswers } from "./token-count.ts";
import { placeOfLost, transcriptPlace } from "./transcript-place.ts";

/** Codex' own record of a session is one file; it cannot go on from a message of it, so that none is named. */
export const codexSessions: AgentSessions = {
  async read({ session }) {
    const path = findRollout(transcriptPlace({ session, env: process.env }));
    const text = readSessionFile({ path, title: "Codex" });
    return text === null ? null : { text, lastMessage: null };
  },
  async write({ session, text }) {
    const place = transcriptPlace({ session, env: process.env });
    writeSessionFile({ path: findRollout(place) ?? placeOfLost(place, text), text });
  },
  tokensIn: (text) => plain(sumOfAnswers(text)),
  answerIn: (text, prompt) => finishedTurn(text, prompt, readTurnLine),
};

function plain(tokens: ReturnType<typeof sumOfAnswers>): { readonly input: number; readonly output: number } {
  return { input: tokens?.input ?? 0, output: tokens?.output ?? 0 };
}

function readTurnLine(line: JsonRecord): TurnLine | null {
  const payload = asRecord(line["payload"]);
  const type = asText(payload["type"]);
  if (line["type"] === "response_item" && type === "message" && payload["role"] === "user")
    return { kind: "prompt", text: textOf(payload["content"]) };
  if (line["type"] !== "event_msg" || type === "token_count") return null;
  return type === "task_complete" ? { kind: "answer", text: asText(payload["last_agent_message"]) } : { kind: "open" };
}
