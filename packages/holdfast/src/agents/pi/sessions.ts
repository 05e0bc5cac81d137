import { join } from "node:path";
import { asRecord, asRecords, asText, textOf, type JsonRecord } from "../../core/record.ts";
import { finishedTurn, type TurnLine } from "../frame/finished-turn.ts";
import { add, spentOf } from "./reader.ts";
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
  tokensIn(text) {
    const answers = text.split("\n").map((line) => asRecord(parseRecord(line)["message"]));
    const sum = answers.map(spentOf).reduce(add, { input: 0, output: 0, cost: 0 });
    return { input: sum.input, output: sum.output };
  },
  answerIn: (text, prompt) => finishedTurn(text, prompt, readTurnLine),
};

function readTurnLine(line: JsonRecord): TurnLine | null {
  if (line["type"] !== "message") return null;
  const message = asRecord(line["message"]);
  const text = textOf(asRecords(message["content"]).filter(({ type }) => type === "text"));
  if (message["role"] === "user") return { kind: "prompt", text };
  const isEnd = message["role"] === "assistant" && message["stopReason"] === "stop";
  return isEnd ? { kind: "answer", text } : { kind: "open" };
}

export function findSession(params: Parameters<typeof transcriptPlace>[0]): string | null {
  const { folder, ending } = transcriptPlace({ ...params, cwd: realOf(params.cwd) });
  const name = namesIn(folder).find((found) => found.endsWith(ending));
  return name === undefined ? null : join(folder, name);
}
