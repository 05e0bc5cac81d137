import { asRecord, asRecords, isRecord, textOf, type JsonRecord } from "../../core/record.ts";
import type { AgentSessions } from "../../ports/agent.ts";
import { finishedTurn, type TurnLine } from "../frame/finished-turn.ts";
import { readOwnFile, realOf } from "../frame/own-files.ts";
import { readSessionFile, writeSessionFile } from "../frame/session-file.ts";
import { recordOf, sumOf } from "./record.ts";
import { transcriptPlace } from "./transcript-place.ts";

/** Qwen Code's own record of a session: one file. */
export const qwenSessions: AgentSessions = {
  async read({ session, cwd }) {
    const text = readSessionFile({ path: sessionFile({ session, cwd, env: process.env }), title: "Qwen Code" });
    return text === null ? null : { text, lastMessage: null };
  },
  async write({ session, cwd, text }) {
    writeSessionFile({ path: sessionFile({ session, cwd, env: process.env }), text });
  },
  tokensIn(text) {
    const { input, output } = sumOf(recordOf(text));
    return { input, output };
  },
  answerIn: (text, prompt) => finishedTurn(text, prompt, readTurnLine),
};

/** An answer and the tools that it calls are one line, written when the answer is whole. */
function readTurnLine(line: JsonRecord): TurnLine | null {
  const parts = asRecords(asRecord(line["message"])["parts"]);
  const text = textOf(parts.filter(({ thought }) => thought !== true));
  switch (line["type"]) {
    case "system":
      return null;
    case "user":
      return { kind: "prompt", text };
    case "assistant": {
      const isWhole = typeof asRecord(line["usageMetadata"])["totalTokenCount"] === "number";
      return isWhole && !parts.some((part) => isRecord(part["functionCall"]))
        ? { kind: "answer", text }
        : { kind: "open" };
    }
    default:
      return { kind: "open" };
  }
}

/** As it is, for counting; null: there is none. */
export function readRecord(params: Parameters<typeof transcriptPlace>[0]): string | null {
  return readOwnFile(sessionFile(params))?.toString("utf8") ?? null;
}

/** It knows worktrees by their real names. */
export function sessionFile(params: Parameters<typeof transcriptPlace>[0]): string {
  return transcriptPlace({ ...params, cwd: realOf(params.cwd) });
}
