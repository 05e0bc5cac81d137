// Runs a program under a mark in its environment and ends its whole process tree afterwards. Also splits and truncates
// its output.

import { type ChildProcess, spawn } from "node:child_process";
import { statSync } from "node:fs";
import { constants } from "node:os";
import type { Writable } from "node:stream";
import { MAX_TIMER_MS } from "./clock.ts";
import { MARK_VARIABLE, terminateTree } from "./process-tree.ts";
import { signalGroup } from "./subprocess.ts";
import { registerChild, watchdogEnvironment } from "./watchdog.ts";

/**
 * Runs a program and returns when its whole process tree is gone. The mark in `env` (see childEnvironment) finds every
 * descendant. If this process dies first, the watchdog ends the tree. Never rejects: the result describes what
 * happened.
 */
export async function runMarked(params: MarkedParams): Promise<MarkedExit> {
  const nothing = { code: null, signal: null, reason: null, survivors: null, milliseconds: 0 };
  if (params.signal.aborted) return { ...nothing, kind: "interrupted" };
  const began = performance.now();
  const started = start(params);
  if (typeof started === "string") return { ...nothing, kind: "not_started", reason: started };
  const unwatch = registerChild(started, params.mark);
  const leaveExit = endAtExit(started);
  const leave = (): void => {
    unwatch();
    leaveExit();
  };
  const { child, exit, watch } = await supervise(started, params);
  const milliseconds = Math.round(performance.now() - began);
  if (exit.kind === "not_started") {
    leave();
    return { ...nothing, kind: "not_started", reason: exit.reason };
  }
  const survivors = await endAll(child, params.mark);
  leave();
  await drain(child);
  const { code, signal } = exit;
  const kind = watch ?? (signal === null ? "exited" : "signalled");
  return { kind, code, signal, reason: null, survivors, milliseconds };
}

interface MarkedParams {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  /** The complete environment, including the mark. */
  readonly env: NodeJS.ProcessEnv;
  readonly mark: string;
  readonly input: string;
  /** Used instead of `input`: receives standard input, which remains open until this function ends it. */
  readonly converse?: (stdin: Writable) => void;
  readonly timeoutMs: number | null;
  /** The program is ended after this long without output; null means no limit. */
  readonly idleMs: number | null;
  readonly signal: AbortSignal;
  /**
   * Called before the program is ended because of a timeout, idleness or an abort. Later output is a reaction to that.
   */
  readonly onStop?: () => void;
  /** Text is decoded as UTF-8 per stream, so a character split across two chunks arrives whole. */
  readonly onOutput: (source: "stdout" | "stderr", text: string) => void;
}

export interface MarkedExit {
  readonly kind: "exited" | "signalled" | "timed_out" | "idle" | "interrupted" | "not_started";
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Why the program was not started; null if it was. */
  readonly reason: string | null;
  /** Which processes could not be ended, and why; null if none remain. */
  readonly survivors: string | null;
  /** Time until the program itself exited. Ending its descendants may take longer. */
  readonly milliseconds: number;
}

type Watch = "timed_out" | "idle" | "interrupted";
type RawExit =
  | { readonly kind: "exited"; readonly code: number | null; readonly signal: NodeJS.Signals | null }
  | { readonly kind: "not_started"; readonly reason: string };

const DRAIN_MS = 1000;

function start(params: MarkedParams): ChildProcess | string {
  // For a missing directory, spawn would report "program not found".
  if (statSync(params.cwd, { throwIfNoEntry: false })?.isDirectory() !== true)
    return `${params.cwd} is not a directory`;
  try {
    return spawn(params.command, params.args, {
      cwd: params.cwd,
      env: { ...params.env, ...watchdogEnvironment() },
      stdio: ["pipe", "pipe", "pipe"],
      // The child gets its own session, so that Ctrl+C in the terminal reaches only this process, which handles it.
      detached: process.platform !== "win32",
      windowsHide: true,
      shell: false,
    });
  } catch (error) {
    // spawn throws for a too long environment or a NUL byte in it; it emits no event.
    return error instanceof Error ? error.message : String(error);
  }
}

async function supervise(
  child: ChildProcess,
  params: MarkedParams,
): Promise<{ readonly child: ChildProcess; readonly exit: RawExit; readonly watch: Watch | null }> {
  let watch: Watch | null = null;
  const { promise, resolve } = Promise.withResolvers<RawExit>();
  const stop = (why: Watch): void => {
    if (watch !== null) return;
    watch = why;
    params.onStop?.();
    // A process that cannot be ended may never exit. The final endAll in runMarked reports it.
    void endAll(child, params.mark).then(() => setTimeout(resolve, DRAIN_MS, NO_EXIT).unref());
  };
  const interrupt = (): void => stop("interrupted");
  const timer =
    params.timeoutMs === null ? null : setTimeout(stop, Math.min(params.timeoutMs, MAX_TIMER_MS), "timed_out");
  const idle = params.idleMs === null ? null : setTimeout(stop, Math.min(params.idleMs, MAX_TIMER_MS), "idle");
  params.signal.addEventListener("abort", interrupt, { once: true });
  for (const source of ["stdout", "stderr"] as const) {
    child[source]?.setEncoding("utf8").on("data", (text: string) => {
      idle?.refresh();
      params.onOutput(source, text);
    });
  }
  // A program that exits without reading its input is judged by its exit code, not by our broken pipe.
  child.stdin?.on("error", () => undefined);
  if (params.converse === undefined) child.stdin?.end(params.input);
  else if (child.stdin !== null) params.converse(child.stdin);
  child.on("error", (error) => resolve({ kind: "not_started", reason: error.message }));
  child.once("exit", (code, signal) => resolve({ kind: "exited", code, signal }));
  const exit = await promise;
  for (const pending of [timer, idle]) if (pending !== null) clearTimeout(pending);
  params.signal.removeEventListener("abort", interrupt);
  return { child, exit, watch };
}

const NO_EXIT: RawExit = { kind: "exited", code: null, signal: null };

async function endAll(child: ChildProcess, mark: string): Promise<string | null> {
  try {
    const { supported } = await terminateTree({ mark, groups: child.pid === undefined ? [] : [child.pid] });
    if (!supported) await endGroup(child);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** Where no table of processes can be read, only the process group can be ended. A descendant in its own session escapes. */
async function endGroup(child: ChildProcess): Promise<void> {
  for (const signal of ["SIGTERM", "SIGKILL"] as const) {
    if (!signalGroup(child.pid, signal)) return;
    await new Promise((resolve) => setTimeout(resolve, DRAIN_MS));
  }
}

/**
 * Kills the process group when this process exits immediately, for example after a second Ctrl+C. There is no time to
 * search by mark, and an agent that continues alone costs money and writes files. Returns a function that removes the
 * handler.
 */
function endAtExit({ pid }: ChildProcess): () => void {
  const force = (): void => void signalGroup(pid, "SIGKILL");
  process.on("exit", force);
  return () => void process.off("exit", force);
}

/** An unrelated process may hold the other end of a pipe open, so this waits only DRAIN_MS for the remaining output. */
async function drain(child: ChildProcess): Promise<void> {
  const streams = [child.stdout, child.stderr].filter((stream) => stream !== null && !stream.closed);
  const closed = streams.map((stream) => new Promise((resolve) => stream?.once("close", resolve)));
  const { promise: late, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, DRAIN_MS);
  await Promise.race([Promise.all(closed), late]);
  clearTimeout(timer);
  for (const stream of [child.stdin, child.stdout, child.stderr]) stream?.destroy();
}

/** The exit status that a shell reports: 128 plus the signal number for a program that a signal ended. */
export function exitStatus(exit: Pick<MarkedExit, "code" | "signal">): number | null {
  return exit.signal === null ? exit.code : 128 + constants.signals[exit.signal];
}

/**
 * The environment of a child that works for a run. It drops variables that point git at a repository, since we may run
 * inside a hook. It also drops the HOLDFAST_ variables of an outer Holdfast. The mark comes last, so that nothing
 * overrides it.
 */
export function childEnvironment(params: {
  readonly base: NodeJS.ProcessEnv;
  readonly mark: string;
  readonly env: Readonly<Record<string, string>>;
}): NodeJS.ProcessEnv {
  const kept = Object.entries(params.base).filter(([name]) => !/^(?:GIT|HOLDFAST)_/i.test(name));
  return { ...Object.fromEntries(kept), ...params.env, [MARK_VARIABLE]: params.mark };
}

/**
 * Splits a stream into lines. A longer line is passed on in pieces of `maxCharacters`, so that it cannot exhaust the
 * memory.
 */
export function createLineSplitter(params: {
  readonly onLine: (line: string) => void;
  readonly maxCharacters?: number;
}): {
  add(text: string): void;
  /** Passes on the last line if no newline ended it. */
  end(): void;
} {
  const limit = params.maxCharacters ?? 1_000_000;
  let pending = "";
  return {
    add(text) {
      const lines = (pending + text).split("\n");
      pending = lines.pop() ?? "";
      for (const line of lines) params.onLine(line.endsWith("\r") ? line.slice(0, -1) : line);
      while (pending.length >= limit) {
        params.onLine(pending.slice(0, limit));
        pending = pending.slice(limit);
      }
    },
    end() {
      if (pending !== "") params.onLine(pending);
      pending = "";
    },
  };
}

/** Keeps only the last part of a text stream, because an agent may print for hours. */
export function createOutputTail(maxCharacters: number): { add(text: string): void; text(): string } {
  let pieces: string[] = [];
  let length = 0;
  return {
    add(text) {
      pieces.push(text);
      length += text.length;
      // Pieces are joined only at twice the limit, so each character is copied once or twice instead of once per piece.
      if (length <= 2 * maxCharacters) return;
      pieces = [pieces.join("").slice(-maxCharacters)];
      length = maxCharacters;
    },
    text: () => pieces.join("").slice(-maxCharacters),
  };
}
