// What is kept of an agent call outside the journal: its raw output, and its result until the journal has it.
import { HoldfastError } from "@holdfast/platform/error";
import type { AgentOutcome } from "./agent.ts";

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
  const kept = readResult(file) ?? { agent: "", model: null, attempt: 0, tokens: 0, ended: null };
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
