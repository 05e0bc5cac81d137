import { asRecord, asRecords, asText, textOf, type JsonRecord } from "../../core/record.ts";
import { parseRecord } from "../frame/parse-record.ts";
import { tokensOfChat, type TokenCount } from "./token-count.ts";

/** What a session's file says: lines that add or replace a message by its id, or set fields of the whole. */
export interface Chat {
  readonly session: string;
  /** ISO 8601, as it says itself. */
  readonly startTime: string;
  /** Of each answer, by message. */
  readonly answers: ReadonlyMap<string, TokenCount>;
  /** Neither a person nor the model has said anything in it: it cannot be gone on with. */
  readonly isHollow: boolean;
}

export function chatOf(text: string): Chat {
  let session = "";
  let startTime = "";
  let isHollow = true;
  const answers = new Map<string, TokenCount>();
  for (const line of text.split("\n")) {
    // The last line of a call that was killed may be half a line.
    const record = parseRecord(line);
    const set = asRecord(record["$set"]);
    session ||= asText(record["sessionId"]);
    startTime ||= asText(record["startTime"]);
    for (const message of [record, ...asRecords(set["messages"])]) {
      if (isSaid(message)) isHollow = false;
      const tokens = message["type"] === "gemini" ? tokensOfChat(message["tokens"]) : null;
      if (tokens !== null) answers.set(asText(message["id"]), tokens);
    }
  }
  return { session, startTime, answers, isHollow };
}

/** The first message is the program's own, about the place in which it works. */
function isSaid({ type, content }: JsonRecord): boolean {
  if (type === "gemini") return true;
  return type === "user" && !textOf(content).trimStart().startsWith("<session_context>");
}
