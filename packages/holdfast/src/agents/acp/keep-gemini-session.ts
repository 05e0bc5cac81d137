import { existsSync, renameSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { findChats, removeHollowChats } from "../gemini/chat-files.ts";
import { transcriptPlace } from "../gemini/transcript-place.ts";

/**
 * Gemini CLI names a session's file after the minute. Loaded in the very minute in which it was begun, a session's file is opened anew under the
 * same name, empty: the session is gone. So a file of this minute gets the name of an earlier one first; it is found by what is in it.
 * And whatever session is entered next, the empty double of another would cost that one its life (see removeHollowChats).
 */
export function keepGeminiSession(params: {
  /** The one that is gone on with; null: a new one begins. */
  readonly session: string | null;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
}): void {
  const { session, cwd, env } = params;
  const place = transcriptPlace({ session: session ?? "", cwd, env });
  removeHollowChats(place);
  if (session === null) return;
  for (const { path } of findChats(place)) {
    const older = join(dirname(path), basename(path).replace(MINUTE, EARLIEST));
    if (older !== path && !existsSync(older)) renameSync(path, older);
  }
}

const MINUTE = /^session-\d{4}-\d\d-\d\dT\d\d-\d\d/;
const EARLIEST = "session-2000-01-01T00-00";
