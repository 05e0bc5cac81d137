import { join } from "node:path";
import { asText } from "../../core/record.ts";
import type { AgentSessions } from "../../ports/agent.ts";
import { namesIn, realOf } from "../frame/own-files.ts";
import { parseRecord } from "../frame/parse-record.ts";
import { readSessionFile, writeSessionFile } from "../frame/session-file.ts";
import { nameOf, transcriptPlace } from "./transcript-place.ts";

/** pi's own record of a session: one file. */
export const piSessions: AgentSessions = {
  async read({ session, cwd }) {
    const text = readSessionFile({ path: findSession({ session, cwd, env: process.env }), title: "pi" });
    return text === null ? null : { text, lastMessage: null };
  },
  async write({ session, cwd, text }) {
    const place = transcriptPlace({ session, cwd: realOf(cwd), env: process.env });
    const [head = ""] = text.split("\n", 1);
    const lost = join(place.folder, nameOf(place, asText(parseRecord(head)["timestamp"])));
    writeSessionFile({ path: findSession({ session, cwd, env: process.env }) ?? lost, text });
  },
};

export function findSession(params: Parameters<typeof transcriptPlace>[0]): string | null {
  const { folder, ending } = transcriptPlace({ ...params, cwd: realOf(params.cwd) });
  const name = namesIn(folder).find((found) => found.endsWith(ending));
  return name === undefined ? null : join(folder, name);
}
