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
};

function plain(tokens: ReturnType<typeof sumOfAnswers>): { readonly input: number; readonly output: number } {
  return { input: tokens?.input ?? 0, output: tokens?.output ?? 0 };
}
