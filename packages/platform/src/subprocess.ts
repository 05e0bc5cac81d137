// Runs programs with timeouts, abort signals and bounded output, and finds programs on PATH.

import { type ChildProcessByStdio, spawn } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { statfs } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { PassThrough, Readable, type Writable } from "node:stream";

/** Runs a program to its end and collects its output. A failure of the program is a result, never an exception. */
export async function runProcess(params: RunParams): Promise<ProcessResult> {
  const running = startProcess(params);
  const limit = params.maxOutputBytes ?? DEFAULT_OUTPUT_BYTES;
  const chunks: Buffer[] = [];
  let size = 0;
  let overflowed = false;
  running.stdout.on("data", (chunk: Buffer) => {
    if (overflowed) return;
    overflowed = size + chunk.length > limit;
    chunks.push(chunk.subarray(0, limit - size));
    size += chunk.length;
    if (overflowed) running.kill();
  });
  running.stdin.end(params.input);
  const exit = await running.exit;
  return { ...exit, kind: overflowed ? "overflowed" : exit.kind, stdout: Buffer.concat(chunks) };
}

/** For streaming callers: they read `stdout` to its end (or destroy it) and then await `exit`. */
export function startProcess(params: StartParams): RunningProcess {
  // The child gets its own process group: a kill reaches its descendants, and Ctrl+C in a terminal does not interrupt
  // it.
  const child: ChildProcessByStdio<Writable, Readable, Readable> = spawn(params.command, params.args, {
    cwd: params.cwd,
    env: params.env,
    stdio: ["pipe", "pipe", "pipe"],
    detached: process.platform !== "win32",
    windowsHide: true,
    shell: false,
  });
  // Without free file descriptors, Node returns a child without streams and emits the error later.
  const streams = child.stdin === undefined ? noStreams() : child;
  const stderr = keepTail(streams.stderr);
  let ended: "timed_out" | "aborted" | undefined;
  let force: NodeJS.Timeout | undefined;

  const kill = (): void => {
    signalGroup(child.pid, "SIGTERM");
    force ??= setTimeout(() => signalGroup(child.pid, "SIGKILL"), KILL_GRACE_MS);
  };
  const stop = (why: "timed_out" | "aborted"): void => {
    ended ??= why;
    kill();
  };
  const onAbort = (): void => stop("aborted");
  const timer = params.timeoutMs === undefined ? undefined : setTimeout(() => stop("timed_out"), params.timeoutMs);
  if (params.signal?.aborted === true) onAbort();
  params.signal?.addEventListener("abort", onAbort, { once: true });
  // A program that exits without reading its input is judged by its exit code, not by our broken pipe.
  streams.stdin.on("error", () => undefined);

  const exit = new Promise<ProcessExit>((resolve) => {
    const settle = (value: ProcessExit): void => {
      clearTimeout(timer);
      clearTimeout(force);
      params.signal?.removeEventListener("abort", onAbort);
      resolve(value);
    };
    child.once("error", (error) =>
      settle({ kind: "not_started", code: null, signal: null, stderr: error.message, cause: error }),
    );
    child.once("close", (code, signal) =>
      settle({ kind: ended ?? (signal === null ? "exited" : "signalled"), code, signal, stderr: stderr() }),
    );
  });
  return { pid: child.pid, stdin: streams.stdin, stdout: streams.stdout, exit, kill };
}

interface StartParams {
  readonly command: string;
  /** Passed to the program unchanged; no shell interprets them. */
  readonly args: readonly string[];
  readonly cwd?: string | undefined;
  /** The complete environment of the child. If absent, the child inherits ours. */
  readonly env?: NodeJS.ProcessEnv | undefined;
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

interface RunParams extends StartParams {
  readonly input?: Uint8Array | undefined;
  /** More output than this ends the program with `overflowed`, and the rest is dropped. Default 1 GiB. */
  readonly maxOutputBytes?: number | undefined;
}

export interface ProcessExit {
  readonly kind: "exited" | "signalled" | "timed_out" | "aborted" | "overflowed" | "not_started";
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** The last 16 KiB of standard error, lossily decoded. Use it only in messages. */
  readonly stderr: string;
  readonly cause?: unknown;
}

export interface ProcessResult extends ProcessExit {
  readonly stdout: Buffer;
}

export interface RunningProcess {
  readonly pid: number | undefined;
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly exit: Promise<ProcessExit>;
  /** Ends the whole process group: SIGTERM first, SIGKILL after a second. */
  kill(): void;
}

const DEFAULT_OUTPUT_BYTES = 1024 ** 3;
const STDERR_BYTES = 16 * 1024;
const KILL_GRACE_MS = 1000;

function noStreams(): { readonly stdin: Writable; readonly stdout: Readable; readonly stderr: Readable } {
  return { stdin: new PassThrough().resume(), stdout: Readable.from([]), stderr: Readable.from([]) };
}

function keepTail(stream: Readable): () => string {
  let tail: Buffer = Buffer.alloc(0);
  stream.on("data", (chunk: Buffer) => {
    const joined = Buffer.concat([tail, chunk]);
    tail = joined.length > STDERR_BYTES ? joined.subarray(joined.length - STDERR_BYTES) : joined;
  });
  return () => tail.toString("utf8");
}

/** Signals a child and its process group. Returns false if they are gone already. */
export function signalGroup(pid: number | undefined, signal: NodeJS.Signals): boolean {
  if (pid === undefined) return false;
  try {
    return process.kill(process.platform === "win32" ? pid : -pid, signal);
  } catch {
    return false;
  }
}

/** Full path of a program on PATH; undefined if it is not there. Runs nothing. */
export function findProgram(name: string, path: string = process.env["PATH"] ?? ""): string | undefined {
  for (const folder of path.split(delimiter)) {
    if (folder === "") continue;
    const candidate = join(folder, name);
    try {
      accessSync(candidate, constants.X_OK);
      return candidate;
    } catch {
      continue;
    }
  }
  return undefined;
}

export async function freeBytes(path: string): Promise<number> {
  const { bavail, bsize } = await statfs(path);
  return bavail * bsize;
}

/** The shell call that runs a command line written by the user. Calls that Holdfast composes itself need no shell. */
export function shellCommand(line: string): { readonly command: string; readonly args: readonly string[] } {
  return process.platform === "win32"
    ? { command: "cmd.exe", args: ["/d", "/s", "/c", line] }
    : { command: "/bin/sh", args: ["-c", line] };
}
