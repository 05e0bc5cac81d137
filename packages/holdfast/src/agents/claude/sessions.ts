import { dirname } from "node:path";
import { HoldfastError } from "../../core/error.ts";
import { maskSecrets, secretValues } from "../../core/mask.ts";
import { asRecord, asText } from "../../core/record.ts";
import type { AgentSessions } from "../../ports/agent.ts";
import { makeDurableDirectory, writeDurable } from "../../system/durable-file.ts";
import { readRegularFile } from "../../system/regular-file.ts";
import { findTranscript } from "./find-transcripts.ts";
import { tokensInTranscript } from "./usage.ts";
import { transcriptPlace } from "./transcript-place.ts";

/** Claude Code's own record of a session: one file, to which it only ever adds. Its subagents' files are theirs, and no resume reads them. */
export const claudeSessions: AgentSessions = {
  async read({ session, cwd }) {
    const { env } = process;
    const path = findTranscript(transcriptPlace({ session, cwd, env }));
    const file = path === null ? null : readRegularFile({ path, maxBytes: MAX_BYTES });
    if (file?.kind === "refused") throw unreadable(file.why);
    if (file?.kind !== "read") return null;
    const text = maskSecrets(file.bytes.toString("utf8"), secretValues(env));
    return { text, lastMessage: lastMessageIn(text) };
  },
  async write({ session, cwd, text }) {
    const place = transcriptPlace({ session, cwd, env: process.env });
    const path = findTranscript(place) ?? place.file;
    makeDurableDirectory(dirname(path));
    writeDurable({ path, data: Buffer.from(text), mode: "replace" });
  },
  tokensIn: tokensInTranscript,
};

const MAX_BYTES = 64 * 1024 * 1024;

/** The last that a session can be forked at: an answer of the model itself. */
export function lastMessageIn(transcript: string): string | null {
  for (let end = transcript.length; end > 0;) {
    const start = transcript.lastIndexOf("\n", end - 1) + 1;
    const line = transcript.slice(start, end);
    end = start - 1;
    if (!line.includes('"assistant"')) continue;
    const entry = parse(line);
    const { model } = asRecord(entry["message"]);
    const id = asText(entry["uuid"]);
    if (entry["type"] === "assistant" && entry["isSidechain"] !== true && model !== "<synthetic>" && id !== "")
      return id;
  }
  return null;
}

function parse(line: string): ReturnType<typeof asRecord> {
  try {
    return asRecord(JSON.parse(line));
  } catch {
    return {};
  }
}

function unreadable(why: string): HoldfastError {
  const hint = "The run goes on; the session can still be gone on with from Claude Code's own file.";
  return new HoldfastError({ code: "IO_FAILED", message: `A transcript of Claude Code cannot be kept: ${why}`, hint });
}
