import { rmSync } from "node:fs";
import { join } from "node:path";
import { asRecord, asText } from "../../core/record.ts";
import type { AgentSessions } from "../../ports/agent.ts";
import { sha256 } from "../../system/hash.ts";
import { parseRecord } from "../frame/parse-record.ts";
import { readSessionFile, writeSessionFile } from "../frame/session-file.ts";
import { chatOf } from "./chat.ts";
import { findChats, projectFolders, readText } from "./chat-files.ts";
import { add, NO_TOKENS } from "./token-count.ts";
import { nameOfLost, transcriptPlace, type TranscriptPlace } from "./transcript-place.ts";

/** Gemini CLI's own record of a session: of its files the one that something was said in. It cannot go on from a message of it. */
export const geminiSessions: AgentSessions = {
  async read({ session, cwd }) {
    const path = mainFile(transcriptPlace({ session, cwd, env: process.env }));
    const text = readSessionFile({ path, title: "Gemini CLI" });
    return text === null ? null : { text, lastMessage: null };
  },
  async write({ session, cwd, text }) {
    const place = transcriptPlace({ session, cwd, env: process.env });
    const path = mainFile(place) ?? join(folderFor(place), "chats", nameOfLost(place, chatOf(text).startTime));
    writeSessionFile({ path, text });
    // What else there is of it is of a later time than what was put back.
    for (const chat of findChats(place)) if (chat.path !== path) rmSync(chat.path, { force: true });
  },
  tokensIn(text) {
    const { input, output } = [...chatOf(text).answers.values()].reduce(add, NO_TOKENS);
    return { input, output };
  },
};

function mainFile(place: TranscriptPlace): string | null {
  return findChats(place).find(({ isHollow }) => !isHollow)?.path ?? null;
}

/** Gemini CLI looks for a folder that bears the worktree's name inside, and at first into a list of its own. */
function folderFor({ tmp, cwd }: TranscriptPlace): string {
  const [folder] = projectFolders({ tmp, cwd });
  if (folder !== undefined) return folder;
  const listed = asText(asRecord(parseRecord(readText(join(tmp, "../projects.json")))["projects"])[cwd]);
  const made = join(tmp, listed === "" ? `worktree-${sha256(cwd).slice(0, 12)}` : listed);
  writeSessionFile({ path: join(made, ".project_root"), text: cwd });
  return made;
}
