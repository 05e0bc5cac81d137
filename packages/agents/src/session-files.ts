// Reads and writes the session files of agents, and finds a completed turn in them.

import { existsSync, readdirSync, statSync } from "node:fs";
import { dirname } from "node:path";
import type { AgentSessions } from "@holdfast/core/agent";
import { type JsonRecord, asRecord, isRecord } from "@holdfast/core/json";
import { createMasking } from "@holdfast/core/mask";
import { HoldfastError } from "@holdfast/platform/error";
import { makeDurableDirectory, readRegularFile, realPath, writeDurable } from "@holdfast/platform/files";

/** The variables of an environment that locate an agent's files. */
export type Environment = Readonly<Record<string, string | undefined>>;

/** A session of an agent: its id, its worktree, and the environment that locates the agent's files. */
export interface SessionKey {
  readonly session: string;
  readonly cwd: string;
  readonly env: Environment;
}

/** The sessions of an agent that stores each session in one file of JSON lines. */
export function createFileSessions(params: {
  readonly title: string;
  /** The session's file; null if there is none. */
  readonly find: (key: SessionKey) => string | null;
  /** Where to put a file that the agent has lost. */
  readonly create: (key: SessionKey, text: string) => string;
  readonly tokensIn: NonNullable<AgentSessions["tokensIn"]>;
  readonly readTurn: (line: JsonRecord) => TurnRecord | null;
  /** The last message at which the agent can fork a session. */
  readonly lastMessage?: (text: string) => string | null;
  /** The record for a worktree at another path, of another machine for example. Absent: the agent accepts it as it is. */
  readonly relocate?: (text: string, cwd: string) => string;
}): AgentSessions {
  const { title, find, create, tokensIn, readTurn, lastMessage = () => null, relocate = (text) => text } = params;
  return {
    async read(at) {
      const text = readSessionFile({ path: find({ ...at, env: process.env }), title });
      return text === null ? null : { text, lastMessage: lastMessage(text) };
    },
    async write({ text, ...at }) {
      const key = { ...at, env: process.env };
      writeSessionFile({ path: find(key) ?? create(key, text), text: relocate(text, realPathOf(at.cwd)) });
    },
    tokensIn,
    answerIn: (text, prompt) => findCompletedTurn(text, prompt, readTurn),
    askedIn: (text, prompt) => hasPrompt(text, prompt, readTurn),
  };
}

/** An agent's session file with secrets masked, so that it may be stored; null if there is none. */
export function readSessionFile(params: { readonly path: string | null; readonly title: string }): string | null {
  const { path, title } = params;
  const file = path === null ? null : readRegularFile({ path, maxBytes: MAX_SESSION_BYTES });
  if (file?.kind === "refused") throw unreadable(title, file.why);
  return file?.kind === "read" ? createMasking().mask(file.bytes.toString("utf8")) : null;
}

/** The text may come from another machine. One that is longer than any that Holdfast stores is refused. */
export function writeSessionFile({ path, text }: { readonly path: string; readonly text: string }): void {
  if (text.length > MAX_SESSION_BYTES)
    throw new HoldfastError({ code: "IO_FAILED", message: `The record for ${path} is longer than 64 MiB` });
  makeDurableDirectory(dirname(path));
  writeDurable({ path, data: Buffer.from(text), mode: "replace" });
}

const MAX_SESSION_BYTES = 64 * 1024 * 1024;

function unreadable(title: string, why: string): HoldfastError {
  const hint = `The run continues, and the session can still be resumed from ${title}'s own file.`;
  return new HoldfastError({ code: "IO_FAILED", message: `A transcript of ${title} cannot be copied: ${why}`, hint });
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
function findCompletedTurn(
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
    const turn = read(parsed);
    if (turn === null) continue;
    if (turn.kind === "prompt") isOwn = turn.text.trim() === prompt.trim();
    answer = turn.kind === "answer" && turn.text !== "" ? turn.text : null;
  }
  return isOwn ? answer : null;
}

function hasPrompt(record: string, prompt: string, read: (line: JsonRecord) => TurnRecord | null): boolean {
  return record.split("\n").some((line) => {
    const parsed = parseLine(line);
    const turn = parsed === null ? null : read(parsed);
    return turn?.kind === "prompt" && turn.text.includes(prompt.trim());
  });
}

function parseLine(line: string): JsonRecord | null {
  try {
    const value: unknown = JSON.parse(line);
    return isRecord(value) ? value : null;
  } catch {
    return null;
  }
}

/** Reads an agent's own file, unmasked; null if it cannot be read, because a call is classified by its own output. */
function readAgentFile(path: string): Buffer | null {
  try {
    const file = readRegularFile({ path, maxBytes: MAX_OWN_FILE_BYTES });
    return file.kind === "read" ? file.bytes : null;
  } catch {
    return null;
  }
}

const MAX_OWN_FILE_BYTES = 512 * 1024 * 1024;

/** The text of an agent's own file between two byte offsets; "" if it cannot be read. */
export function readAgentText(path: string, from = 0, to?: number): string {
  return readAgentFile(path)?.subarray(from, to).toString("utf8") ?? "";
}

/** The path, or null if there is no file. */
export function existing(path: string): string | null {
  return existsSync(path) ? path : null;
}

/** 0 if the file does not exist. */
export function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

export function listNames(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** Most agents identify worktrees by their real paths. */
export function realPathOf(path: string): string {
  return realPath(path) ?? path;
}

/** Parses a JSON object from a line or a file. Anything else, or an incomplete object, yields an empty record. */
export function parseJsonRecord(text: string): JsonRecord {
  try {
    return asRecord(JSON.parse(text));
  } catch {
    return {};
  }
}

export function asNumber(value: unknown): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

/** A number of tokens or dollars; 0 if there is none. A number that cannot be one is NaN, so that no sum with it is a number: it is unknown. */
export function asCount(value: unknown): number {
  if (typeof value !== "number") return 0;
  return Number.isFinite(value) && value >= 0 ? value : Number.NaN;
}
