import { realpathSync } from "node:fs";
import type { AgentSessions } from "../../ports/agent.ts";
import { readRegularFile } from "../../system/regular-file.ts";
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
  try {
    const file = readRegularFile({ path: sessionFile(params), maxBytes: MAX_BYTES });
    return file.kind === "read" ? file.bytes.toString("utf8") : null;
  } catch {
    return null;
  }
}

const MAX_BYTES = 512 * 1024 * 1024;

/** It knows worktrees by their real names. */
export function sessionFile(params: Parameters<typeof transcriptPlace>[0]): string {
  try {
    return transcriptPlace({ ...params, cwd: realpathSync(params.cwd) });
  } catch {
    return transcriptPlace(params);
  }
}
