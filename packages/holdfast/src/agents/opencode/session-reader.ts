import { existsSync } from "node:fs";
import { join } from "node:path";
import { asRecord, asText, type JsonRecord } from "../../core/record.ts";
import type { SessionReader } from "../../ports/agent.ts";
import { createMasking } from "../../system/own-secrets.ts";
import { parseRecord } from "../frame/parse-record.ts";

/** opencode keeps all sessions in one SQLite database. Holdfast reads a session's messages from it, and never writes it. */
export const opencodeRecords: SessionReader = {
  async tokens({ session }) {
    const messages = await messagesOf(session);
    return messages === null ? null : messages.map(tokensOf).reduce(add, { input: 0, output: 0 });
  },
  async answer({ session }, prompt) {
    const messages = (await messagesOf(session)) ?? [];
    const begin = messages.findLastIndex(({ data }) => data["role"] === "user");
    const last = messages.at(-1);
    // A message that ends with "stop" is the last of its turn; before a tool call it ends with "tool-calls".
    if (last === undefined || last.data["role"] !== "assistant" || last.data["finish"] !== "stop") return null;
    if (last.data["error"] !== undefined || asRecord(last.data["time"])["completed"] === undefined) return null;
    const { mask } = createMasking();
    const asked = messages[begin]?.text ?? "";
    const isOwn = [asked, mask(asked)].some((text) => text.trim() === prompt.trim());
    return isOwn && last.text !== "" ? mask(last.text) : null;
  },
};

interface Message {
  readonly data: JsonRecord;
  readonly text: string;
}

/** In their order; null: the session or the database is not there, or it has another form. */
async function messagesOf(session: string): Promise<readonly Message[] | null> {
  const path = databaseIn(process.env);
  if (!existsSync(path)) return null;
  const { DatabaseSync } = await import("node:sqlite");
  try {
    using database = new DatabaseSync(path, { readOnly: true });
    const parts = database.prepare("SELECT message_id, data FROM part WHERE session_id = ? ORDER BY id").all(session);
    const messages = database.prepare("SELECT id, data FROM message WHERE session_id = ? ORDER BY id").all(session);
    if (messages.length === 0) return null;
    return messages.map(({ id, data }) => ({
      data: parseRecord(asText(data)),
      text: parts
        .filter((part) => part["message_id"] === id)
        .map((part) => parseRecord(asText(part["data"])))
        .flatMap((part) => (part["type"] === "text" && asText(part["text"]) !== "" ? [asText(part["text"])] : []))
        .join("\n"),
    }));
  } catch {
    return null;
  }
}

function databaseIn(env: NodeJS.ProcessEnv): string {
  const data = env["XDG_DATA_HOME"] || join(env["HOME"] ?? "/", ".local", "share");
  return join(data, "opencode", "opencode.db");
}

interface Tokens {
  readonly input: number;
  readonly output: number;
}

/** As a step's end on standard output counts them: what a cache gave is input, thoughts are output. */
function tokensOf({ data }: Message): Tokens {
  const tokens = asRecord(data["tokens"]);
  const cache = asRecord(tokens["cache"]);
  return {
    input: count(tokens["input"]) + count(cache["read"]) + count(cache["write"]),
    output: count(tokens["output"]) + count(tokens["reasoning"]),
  };
}

function add(one: Tokens, other: Tokens): Tokens {
  return { input: one.input + other.input, output: one.output + other.output };
}

function count(value: unknown): number {
  return typeof value === "number" && value >= 0 ? value : 0;
}
