import { asRecord, asRecords, asText, type JsonRecord } from "../../core/record.ts";
import { finishedTurn, type TurnLine } from "../frame/finished-turn.ts";
import type { AgentSessions } from "../../ports/agent.ts";
import { readSessionFile, writeSessionFile } from "../frame/session-file.ts";
import { spentOf } from "./spent.ts";
import { transcriptPlace } from "./transcript-place.ts";

/** Copilot CLI's own record of a session: one file. */
export const copilotSessions: AgentSessions = {
  async read({ session }) {
    const text = readSessionFile({ path: transcriptPlace({ session, env: process.env }), title: "Copilot CLI" });
    return text === null ? null : { text, lastMessage: null };
  },
  async write({ session, text }) {
    writeSessionFile({ path: transcriptPlace({ session, env: process.env }), text });
  },
  // It writes what an answer took a while after the answer: nothing there is nothing known.
  tokensIn(text) {
    const answers = [...spentOf(text).values()];
    if (answers.length === 0) return null;
    return {
      input: answers.reduce((sum, answer) => sum + answer.input, 0),
      output: answers.reduce((sum, answer) => sum + answer.output, 0),
    };
  },
  answerIn: (text, prompt) => finishedTurn(text, prompt, readTurnLine),
};

function readTurnLine(line: JsonRecord): TurnLine | null {
  const type = asText(line["type"]);
  const data = asRecord(line["data"]);
  if (type === "user.message") return { kind: "prompt", text: asText(data["content"]) };
  // Its end follows each message, of a turn with tools too: a message without a request for one is the last.
  if (type === "assistant.turn_end" || !/^(?:assistant|tool)\./.test(type)) return null;
  const isLast = type === "assistant.message" && asRecords(data["toolRequests"]).length === 0;
  return isLast ? { kind: "answer", text: asText(data["content"]) } : { kind: "open" };
}
