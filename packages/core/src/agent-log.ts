// Files of one agent call: the raw output log, and the result file that survives until the journal has the result.
import { closeSync, constants, mkdirSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { readRegularFile, writeDurable } from "@holdfast/platform/files";
import type { AgentCallKey, ResultFile } from "./adapters.ts";
import type { AgentOutcome } from "./agent.ts";
import { sha256 } from "./json.ts";
import type { RunSession } from "./run-session.ts";
import type { StageExecution } from "./step.ts";

/**
 * Opens the log of one agent call, `<directory>/<run>/<stage attempt>-<step>.log`. Each line is in the file when
 * `append` returns, so a kill loses no line. The log is information for users, not the record: a failed write is
 * ignored.
 */
export function openAgentLog(params: {
  readonly directory: string;
  readonly run: string;
  readonly stageAttempt: number;
  readonly step: string;
  readonly maxBytes?: number;
}): { readonly path: string; append(line: string): void; close(): Promise<void> } {
  const path = agentLogPath(params);
  let room = params.maxBytes ?? MAX_BYTES;
  let fd: number | null = null;
  let isOpen = true;
  const append = (line: string): void => {
    if (!isOpen || room <= 0) return;
    try {
      fd ??= openForAppend(params, path);
      const bytes = Buffer.from(`${line.replaceAll("\n", "\\n")}\n`);
      room -= bytes.length;
      writeSync(fd, room > 0 ? bytes : FULL);
    } catch {
      room = 0;
    }
  };
  const close = (): Promise<void> => {
    isOpen = false;
    if (fd !== null) closeSync(fd);
    fd = null;
    return Promise.resolve();
  };
  return { path, append, close };
}

/** Opens `<stage attempt>-<step>.answer` next to the call's log, mode 0600. It holds the result until the journal has it. */
export function openResultFile(params: {
  readonly directory: string;
  readonly run: string;
  readonly stageAttempt: number;
  readonly step: string;
}): { write(text: string): void; read(): string | null; remove(): void } {
  const path = agentLogPath(params).replace(/\.log$/, ".answer");
  return {
    write(text) {
      try {
        mkdirSync(join(params.directory, params.run), { recursive: true, mode: 0o700 });
        writeDurable({ path, data: Buffer.from(text), mode: "replace" });
      } catch {
        // The journal may still receive the result. If it does not, the call runs again, as without this file.
      }
    },
    read() {
      try {
        const file = readRegularFile({ path, maxBytes: MAX_BYTES });
        return file.kind === "read" ? file.bytes.toString("utf8") : null;
      } catch {
        return null;
      }
    },
    remove: () => rmSync(path, { force: true }),
  };
}

/** Encodes the step name, which a workflow chooses freely. Unsafe bytes become %hex. A long name is cut and gets its digest. */
function agentLogPath(params: {
  readonly directory: string;
  readonly run: string;
  readonly stageAttempt: number;
  readonly step: string;
}): string {
  const safe = Array.from(Buffer.from(params.step), (byte) => {
    const character = String.fromCharCode(byte);
    return /[A-Za-z0-9_.-]/.test(character) ? character : `%${byte.toString(16).padStart(2, "0")}`;
  }).join("");
  const name = safe.length > MAX_NAME ? `${safe.slice(0, MAX_NAME)}~${sha256(params.step).slice(0, 12)}` : safe;
  return join(params.directory, params.run, `${params.stageAttempt}-${name}.log`);
}

const MAX_BYTES = 64 * 1024 * 1024;
const MAX_NAME = 100;
const FULL = Buffer.from("… the log of this call is full; what came after is not in it\n");

function openForAppend(params: { readonly directory: string; readonly run: string }, path: string): number {
  mkdirSync(join(params.directory, params.run), { recursive: true, mode: 0o700 });
  const flags =
    constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  return openSync(path, flags, 0o600);
}

/**
 * State of one agent call attempt that is not in the journal yet: the tokens reported so far and, after the end, the
 * result. The next process counts the tokens of an attempt that died, and adopts a result instead of paying for it
 * again.
 */
export interface StoredResult {
  readonly agent: string;
  readonly model: string | null;
  readonly attempt: number;
  /** Tokens that the agent reported while it worked. */
  readonly tokens: number;
  /** null: the agent had not ended. */
  readonly ended: { readonly outcome: AgentOutcome; readonly milliseconds: number } | null;
  /** A resume has replaced the files that the call worked on. No result of it may be adopted, not even from the agent's record. */
  readonly filesGone?: true;
}

export function storeResult(file: ResultFile, kept: StoredResult): void {
  file.write(JSON.stringify(kept));
}

/** null: no result was stored, or it cannot be read. */
export function readResult(file: ResultFile): StoredResult | null {
  const text = file.read();
  if (text === null) return null;
  try {
    // The file is written as a whole by storeResult of the same version.
    return JSON.parse(text) as StoredResult;
  } catch {
    return null;
  }
}

/** Marks the result as not adoptable, because the call's files were replaced. Its token count is kept. */
export function forgetResult(file: ResultFile): void {
  const kept = readResult(file) ?? { agent: "", model: null, attempt: 0, tokens: 0, ended: null };
  const { inputTokens = 0, outputTokens = 0 } = kept.ended?.outcome.usage ?? {};
  const tokens = Math.max(kept.tokens, (inputTokens ?? 0) + (outputTokens ?? 0));
  storeResult(file, { ...kept, tokens, ended: null, filesGone: true });
}

export function answerFile(runSession: RunSession, step: string): ResultFile {
  const key: AgentCallKey = { run: runSession.run.id, stageAttempt: runSession.attempt.number, step };
  return runSession.adapters.agentAnswer(key);
}

/** Returns the stored result of this attempt of this agent. null: there is none, or it belongs to another attempt or agent. */
export function ownResult(
  { runSession }: StageExecution,
  step: string,
  own: Pick<StoredResult, "agent" | "model" | "attempt">,
): StoredResult | null {
  const kept = readResult(answerFile(runSession, step));
  const isOwn = kept?.agent === own.agent && kept.model === own.model && kept.attempt === own.attempt;
  return isOwn ? kept : null;
}
