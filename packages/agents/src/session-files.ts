// Reads and writes the session files of agents, and finds a completed turn in them.

import { readdirSync, realpathSync } from "node:fs";
import { dirname } from "node:path";
import { type JsonRecord, asRecord, isRecord } from "@holdfast/core/json";
import { createMasking } from "@holdfast/core/mask";
import { HoldfastError } from "@holdfast/platform/error";
import { makeDurableDirectory, readRegularFile, writeDurable } from "@holdfast/platform/files";

/** An agent's session file with secrets masked, so that it may be stored; null if there is none. */
export function readSessionFile(params: { readonly path: string | null; readonly title: string }): string | null {
  const { path, title } = params;
  const file = path === null ? null : readRegularFile({ path, maxBytes: MAX_SESSION_BYTES });
  if (file?.kind === "refused") throw unreadable(title, file.why);
  return file?.kind === "read" ? createMasking().mask(file.bytes.toString("utf8")) : null;
}

export function writeSessionFile({ path, text }: { readonly path: string; readonly text: string }): void {
  makeDurableDirectory(dirname(path));
  writeDurable({ path, data: Buffer.from(text), mode: "replace" });
}

const MAX_SESSION_BYTES = 64 * 1024 * 1024;

function unreadable(title: string, why: string): HoldfastError {
  const hint = `The run goes on; the session can still be gone on with from ${title}'s own file.`;
  return new HoldfastError({ code: "IO_FAILED", message: `A transcript of ${title} cannot be kept: ${why}`, hint });
}

/** The meaning of one line of an agent's record for a turn; null if it has none. */
export type TurnRecord =
  | { readonly kind: "prompt"; readonly text: string }
  /** The turn is in progress, or an error occurred. */
  | { readonly kind: "open" }
  /** The agent has ended the turn with this text. */
  | { readonly kind: "answer"; readonly text: string };

/**
 * The final text of the last turn in a record of JSON lines. It requires that the turn began with this prompt, that the
 * agent ended it, and that no line is truncated. Otherwise null.
 */
export function findCompletedTurn(
  record: string,
  prompt: string,
  read: (line: JsonRecord) => TurnRecord | null,
): string | null {
  let isOwn = false;
  let answer: string | null = null;
  for (const line of record.split("\n")) {
    if (line.trim() === "") continue;
    const parsed = parseLine(line);
    if (parsed === null) return null;
    const said = read(parsed);
    if (said === null) continue;
    if (said.kind === "prompt") isOwn = said.text.trim() === prompt.trim();
    answer = said.kind === "answer" && said.text !== "" ? said.text : null;
  }
  return isOwn ? answer : null;
}

function parseLine(line: string): JsonRecord | null {
  try {
    const value: unknown = JSON.parse(line);
    return isRecord(value) ? value : null;
  } catch {
    return null;
  }
}

/** Reads an agent's own file, unmasked; null if it cannot be read, because a call is judged by its own output. */
export function readAgentFile(path: string): Buffer | null {
  try {
    const file = readRegularFile({ path, maxBytes: MAX_OWN_FILE_BYTES });
    return file.kind === "read" ? file.bytes : null;
  } catch {
    return null;
  }
}

const MAX_OWN_FILE_BYTES = 512 * 1024 * 1024;

export function listNames(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Most agents identify worktrees by their real paths. */
export function realPathOf(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
}

/** Parses a JSON object from a line or a file. Anything else, or an incomplete object, yields an empty record. */
export function parseJsonRecord(text: string): JsonRecord {
  try {
    return asRecord(JSON.parse(text));
  } catch {
    return {};
  }
}
