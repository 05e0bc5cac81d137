import { type ChildProcess, spawn } from "node:child_process";
import { statSync } from "node:fs";
import { constants } from "node:os";
import type { Writable } from "node:stream";
import { MAX_TIMER_MS } from "./clock.ts";
import { MARK_VARIABLE, terminateTree } from "./process-tree.ts";
import { registerChild, watchdogEnvironment } from "./watchdog.ts";

/**
 * Runs a program whose whole tree must be gone when this returns, whatever it started: the mark in `env` (see childEnvironment)
 * finds it. Where we end before it does, the watchdog ends it. Never rejects: what happened is the result.
 */
export async function runMarked(params: MarkedParams): Promise<MarkedExit> {
  const nothing = { code: null, signal: null, reason: null, survivors: null, milliseconds: 0 };
  if (params.signal.aborted) return { ...nothing, kind: "interrupted" };
  const began = performance.now();
  const started = start(params);
  if (typeof started === "string") return { ...nothing, kind: "not_started", reason: started };
  const unwatch = registerChild(started);
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
  /** The whole environment, mark included. */
  readonly env: NodeJS.ProcessEnv;
  readonly mark: string;
  readonly input: string;
  /** Instead of `input`: gets standard input, which stays open until it is ended there. */
  readonly converse?: (stdin: Writable) => void;
  readonly timeoutMs: number | null;
  /** Without a byte of output for this long it is ended. */
  readonly idleMs: number | null;
  readonly signal: AbortSignal;
  /** Before it is ended for one of these reasons: what it prints from here on is its answer to that. */
  readonly onStop?: () => void;
  /** Decoded as UTF-8, each stream by itself: a character that two chunks share comes whole. */
  readonly onOutput: (source: "stdout" | "stderr", text: string) => void;
}

export interface MarkedExit {
  readonly kind: "exited" | "signalled" | "timed_out" | "idle" | "interrupted" | "not_started";
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Why it was not started. */
  readonly reason: string | null;
  /** Which processes could not be ended, and why; null: none is left. */
  readonly survivors: string | null;
  /** Until the program itself had ended; what it left behind may have taken longer. */
  readonly milliseconds: number;
}

type Watch = "timed_out" | "idle" | "interrupted";
type RawExit =
  | { readonly kind: "exited"; readonly code: number | null; readonly signal: NodeJS.Signals | null }
  | { readonly kind: "not_started"; readonly reason: string };

const DRAIN_MS = 1000;

function start(params: MarkedParams): ChildProcess | string {
  // spawn calls a missing directory "program not found".
  if (statSync(params.cwd, { throwIfNoEntry: false })?.isDirectory() !== true)
    return `${params.cwd} is not a directory`;
  try {
    return spawn(params.command, params.args, {
      cwd: params.cwd,
      env: { ...params.env, ...watchdogEnvironment() },
      stdio: ["pipe", "pipe", "pipe"],
      // Its own session: Ctrl+C in our terminal is ours to handle.
      detached: process.platform !== "win32",
      windowsHide: true,
      shell: false,
    });
  } catch (error) {
    // Too long an environment or a NUL byte in it is thrown, not told by an event.
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
    // Where something cannot be ended there may never be an exit; the last look after this one tells it.
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
    const { supported } = await terminateTree({ mark });
    if (!supported) await endGroup(child);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** Without /proc this is all that can be reached: what opened a session of its own escapes. */
async function endGroup(child: ChildProcess): Promise<void> {
  for (const signal of ["SIGTERM", "SIGKILL"] as const) {
    try {
      if (child.pid !== undefined) process.kill(process.platform === "win32" ? child.pid : -child.pid, signal);
    } catch {
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, DRAIN_MS));
  }
}

/**
 * Whoever leaves at once (a second Ctrl+C) has no time to look for what carries the mark, but an agent that goes on alone costs money
 * and writes files. Returns what to call when it has ended.
 */
function endAtExit({ pid }: ChildProcess): () => void {
  const force = (): void => {
    try {
      if (pid !== undefined) process.kill(process.platform === "win32" ? pid : -pid, "SIGKILL");
    } catch {
      // Gone already.
    }
  };
  process.on("exit", force);
  return () => void process.off("exit", force);
}

/** A process that is none of ours may hold the other end of a pipe; what is in it by now is what we take. */
async function drain(child: ChildProcess): Promise<void> {
  const streams = [child.stdout, child.stderr].filter((stream) => stream !== null && !stream.closed);
  const closed = streams.map((stream) => new Promise((resolve) => stream?.once("close", resolve)));
  const { promise: late, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, DRAIN_MS);
  await Promise.race([Promise.all(closed), late]);
  clearTimeout(timer);
  for (const stream of [child.stdin, child.stdout, child.stderr]) stream?.destroy();
}

/** What a shell would have reported for a program that a signal ended. */
export function exitStatus(exit: Pick<MarkedExit, "code" | "signal">): number | null {
  return exit.signal === null ? exit.code : 128 + constants.signals[exit.signal];
}

/**
 * The environment of a child that works for a run. Ours is the base, less what points git at some repository (we may run inside a hook)
 * and less what an outer Holdfast said about its own run. The mark comes last: nothing may take its place.
 */
export function childEnvironment(params: {
  readonly base: NodeJS.ProcessEnv;
  readonly mark: string;
  readonly env: Readonly<Record<string, string>>;
}): NodeJS.ProcessEnv {
  const kept = Object.entries(params.base).filter(([name]) => !/^(?:GIT|HOLDFAST)_/i.test(name));
  return { ...Object.fromEntries(kept), ...params.env, [MARK_VARIABLE]: params.mark };
}

/** Cuts a stream into lines. A line without an end is handed on in pieces of `maxCharacters`, so that it cannot fill the memory. */
export function createLineSplitter(params: {
  readonly onLine: (line: string) => void;
  readonly maxCharacters?: number;
}): {
  add(text: string): void;
  /** Hands on the last line, when no newline ended it. */
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

/** The last part of a stream of text, without keeping the rest: an agent may print for hours. */
export function createOutputTail(maxCharacters: number): { add(text: string): void; text(): string } {
  let pieces: string[] = [];
  let length = 0;
  return {
    add(text) {
      pieces.push(text);
      length += text.length;
      // Joined only when twice as much is there: each character is copied once or twice, not once a piece.
      if (length <= 2 * maxCharacters) return;
      pieces = [pieces.join("").slice(-maxCharacters)];
      length = maxCharacters;
    },
    text: () => pieces.join("").slice(-maxCharacters),
  };
}
