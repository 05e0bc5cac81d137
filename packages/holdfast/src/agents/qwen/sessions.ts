import type { AgentSessions } from "../../ports/agent.ts";
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
};

/** As it is, for counting; null: there is none. */
export function readRecord(params: Parameters<typeof transcriptPlace>[0]): string | null {
  return readOwnFile(sessionFile(params))?.toString("utf8") ?? null;
}

/** It knows worktrees by their real names. */
export function sessionFile(params: Parameters<typeof transcriptPlace>[0]): string {
  return transcriptPlace({ ...params, cwd: realOf(params.cwd) });
}
