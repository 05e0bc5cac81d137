// What is kept of an agent call outside the journal: its raw output, and its result until the journal has it. Kept as files, one folder a run.
import { closeSync, constants, createReadStream, mkdirSync, openSync, rmSync, writeSync } from "node:fs";
import { lstat, readdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { HoldfastError } from "@holdfast/platform/error";
import { readRegularFile, writeDurable } from "@holdfast/platform/files";
import type { AgentOutcome } from "./agent.ts";
import { sha256 } from "./json.ts";

export interface AgentCallKey {
  readonly run: string;
  readonly stageAttempt: number;
  readonly step: string;
}

/** The logs of a store's runs. They are information for users, not the record: a failed write is ignored. */
export interface AgentLogs {
  /** The raw output of one agent call. A second call with the same key appends. */
  open(call: AgentCallKey): AgentLog;
  /** Holds the result of a call until the journal has it. After a crash, the next process adopts the result instead of paying again. */
  result(call: AgentCallKey): ResultFile;
  /** A new file for the output of a process in the background. It is listed before the logs of the agents. */
  openConsole(run: string): { readonly path: string; readonly fd: number };
  /** In the order of the calls; empty for a run that called no agent. */
  list(run: string): Promise<readonly AgentLogFile[]>;
  /** Removes all logs of a run. */
  remove(run: string): Promise<void>;
  /** Whole lines from the byte `start` on, and the byte at which to continue. An incomplete last line is left for the next read. */
  read(log: AgentLogFile, start: number): Promise<{ readonly lines: readonly string[]; readonly next: number }>;
}

export interface AgentLog {
  /** Each line is kept when this returns, so a kill loses no line. */
  append(line: string): void;
  close(): Promise<void>;
}

export interface ResultFile {
  /** The text is durable when this returns. A failed write is ignored, because the worst result is one more agent call. */
  write(text: string): void;
  read(): string | null;
  remove(): void;
}

/** The raw output of one agent call. */
export interface AgentLogFile {
  /** Where it is; unique among the logs of a store. */
  readonly path: string;
  readonly stageAttempt: number;
  readonly step: string;
  readonly bytes: number;
  readonly modifiedAt: string;
}

/** Keeps nothing, for runs that leave nothing behind: dry runs and replays. */
export const NO_LOGS: AgentLogs = {
  open: () => ({ append: () => undefined, close: () => Promise.resolve() }),
  result: () => ({ write: () => undefined, read: () => null, remove: () => undefined }),
  openConsole() {
    throw new HoldfastError({
      code: "UNSUPPORTED",
      message: "This store keeps no logs, so no process can run in the background",
      hint: "Run the command without --detach.",
    });
  },
  list: () => Promise.resolve([]),
  remove: () => Promise.resolve(),
  read: (_log, start) => Promise.resolve({ lines: [], next: start }),
};

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
  /** Tools that it reported to have used by then. */
  readonly tools: readonly string[];
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

/** The call ended and its result is stored, so a resume adopts it. */
export function isAnswered(file: ResultFile): boolean {
  return (readResult(file)?.ended ?? null) !== null;
}

/** Marks the result as not adoptable, because the call's files were replaced. Its token count is kept. */
export function forgetResult(file: ResultFile): void {
  const kept = readResult(file) ?? { agent: "", model: null, attempt: 0, tokens: 0, tools: [], ended: null };
  const { inputTokens = 0, outputTokens = 0 } = kept.ended?.outcome.usage ?? {};
  const tokens = Math.max(kept.tokens, (inputTokens ?? 0) + (outputTokens ?? 0));
  storeResult(file, { ...kept, tokens, ended: null, filesGone: true });
}

/** The members of a RunSession that identify a call. */
interface Session {
  readonly run: { readonly id: string };
  readonly attempt: { readonly number: number };
  readonly adapters: { readonly logs: AgentLogs };
}

export function answerFile(runSession: Session, step: string): ResultFile {
  const key: AgentCallKey = { run: runSession.run.id, stageAttempt: runSession.attempt.number, step };
  return runSession.adapters.logs.result(key);
}

/** Returns the stored result of this attempt of this agent. null: there is none, or it belongs to another attempt or agent. */
export function ownResult(
  { runSession }: { readonly runSession: Session },
  step: string,
  own: Pick<StoredResult, "agent" | "model" | "attempt">,
): StoredResult | null {
  const kept = readResult(answerFile(runSession, step));
  const isOwn = kept?.agent === own.agent && kept.model === own.model && kept.attempt === own.attempt;
  return isOwn ? kept : null;
}

/**
 * `<directory>/<run>/<stage attempt>-<step>.log` is the log of a call, and the same name with `.answer` holds its result. Both have the
 * mode 0600.
 */
export function createAgentLogFiles(directory: string, maxBytes = MAX_BYTES): AgentLogs {
  return {
    open: (call) => openLog(join(directory, call.run, `${nameOf(call)}.log`), maxBytes),
    result: (call) => openResult(join(directory, call.run, `${nameOf(call)}.answer`)),
    openConsole: (run) => openConsole(join(directory, run)),
    list: (run) => listLogs(join(directory, run)),
    remove: (run) => rm(join(directory, run), { recursive: true, force: true }),
    read: ({ path }, start) => readLines(path, start),
  };
}

function openLog(path: string, maxBytes: number): AgentLog {
  let room = maxBytes;
  let fd: number | null = null;
  let isOpen = true;
  return {
    append(line) {
      if (!isOpen || room <= 0) return;
      try {
        fd ??= openForAppend(path);
        const bytes = Buffer.from(`${line.replaceAll("\n", "\\n")}\n`);
        room -= bytes.length;
        writeSync(fd, room > 0 ? bytes : FULL);
      } catch {
        room = 0;
      }
    },
    close() {
      isOpen = false;
      if (fd !== null) closeSync(fd);
      fd = null;
      return Promise.resolve();
    },
  };
}

function openForAppend(path: string): number {
  makeFolder(dirname(path));
  const flags =
    constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  return openSync(path, flags, 0o600);
}

function openResult(path: string): ResultFile {
  return {
    write(text) {
      try {
        makeFolder(dirname(path));
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

/** `0-console.log`, then `0-console-2.log`. */
function openConsole(folder: string): { readonly path: string; readonly fd: number } {
  makeFolder(folder);
  for (let count = 1; ; count += 1) {
    const path = join(folder, `0-console${count === 1 ? "" : `-${count}`}.log`);
    try {
      return { path, fd: openSync(path, "wx", 0o600) };
    } catch (error) {
      if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
    }
  }
}

function makeFolder(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
}

/** Encodes the step name, which a workflow chooses freely. Unsafe bytes become %hex. A long name is cut and gets its digest. */
function nameOf({ stageAttempt, step }: AgentCallKey): string {
  const safe = Array.from(Buffer.from(step), (byte) => {
    const character = String.fromCharCode(byte);
    return /[A-Za-z0-9_.-]/.test(character) ? character : `%${byte.toString(16).padStart(2, "0")}`;
  }).join("");
  const name = safe.length > MAX_NAME ? `${safe.slice(0, MAX_NAME)}~${sha256(step).slice(0, 12)}` : safe;
  return `${stageAttempt}-${name}`;
}

const MAX_BYTES = 64 * 1024 * 1024;
const MAX_NAME = 100;
const FULL = Buffer.from("… the log of this call is full; what came after is not in it\n");

async function listLogs(folder: string): Promise<readonly AgentLogFile[]> {
  const names = await readdir(folder).catch((error: unknown) => {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return [];
    throw error;
  });
  const files: AgentLogFile[] = [];
  for (const name of names) {
    const [, stageAttempt, step] = /^(\d+)-(.+)\.log$/.exec(name) ?? [];
    if (stageAttempt === undefined || step === undefined) continue;
    const path = join(folder, name);
    const found = await lstat(path).catch(() => undefined);
    // A link could show any file of the user, and reading a pipe never ends.
    if (found?.isFile() !== true) continue;
    files.push({
      path,
      stageAttempt: Number(stageAttempt),
      step: decodeStep(step),
      bytes: found.size,
      modifiedAt: found.mtime.toISOString(),
    });
  }
  return files.toSorted(
    (a, b) => a.stageAttempt - b.stageAttempt || compare(a.modifiedAt, b.modifiedAt) || compare(a.path, b.path),
  );
}

async function readLines(
  path: string,
  start: number,
): Promise<{ readonly lines: readonly string[]; readonly next: number }> {
  const chunks: Buffer[] = [];
  for await (const chunk of createReadStream(path, { start })) chunks.push(chunk);
  const bytes = Buffer.concat(chunks);
  const end = bytes.lastIndexOf(0x0a) + 1;
  const text = bytes.subarray(0, end).toString("utf8");
  return { lines: text === "" ? [] : text.slice(0, -1).split("\n"), next: start + end };
}

function decodeStep(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
