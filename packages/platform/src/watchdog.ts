// Starts the watchdog of this process: a small program in its own session that reads a pipe held open only by us. When
// this process ends in any way (SIGKILL, out of memory, a crash), the kernel closes the pipe. The watchdog then ends
// every process with our HOLDFAST_SUPERVISOR. While this process is stopped (SIGSTOP, a suspended laptop), the pipe
// remains open and the agents keep working.

import { type ChildProcess, spawn } from "node:child_process";
import { basename, extname } from "node:path";
import { processIdentity, randomId } from "./identity.ts";
import { readPidCount } from "./pid-reuse.ts";
import { recordDirectory, writeProcessRecord } from "./process-records.ts";
import { SUPERVISOR_VARIABLE } from "./process-tree.ts";

/**
 * The variable that puts a child under the watchdog; the first call starts the watchdog. If it cannot start (no memory,
 * no free process), the child runs without it. The next resume then ends orphaned processes by their mark.
 */
export function watchdogEnvironment(): Readonly<Record<string, string>> {
  running ??= start();
  return { [SUPERVISOR_VARIABLE]: SUPERVISOR };
}

/**
 * Registers a child and its process group. Until it has ended, the watchdog records the child's descendants in the store
 * that the mark belongs to. Returns a function to call when the child and its descendants have ended.
 */
export function registerChild({ pid }: ChildProcess, mark: string): () => void {
  if (pid === undefined) return () => undefined;
  const child = { pid, mark, records: recordDirectory(mark) };
  children.set(pid, child);
  send(running, { started: child });
  if (child.records !== null) starts.set(pid, { started: processIdentity(pid).started, seen: readPidCount().started });
  recordChildren(child.records);
  return () => {
    children.delete(pid);
    starts.delete(pid);
    recordChildren(child.records);
    send(running, { ended: pid });
  };
}

/**
 * Records the children themselves at once: a shell of macOS shows no mark, and the watchdog may be killed before its first
 * look. A full disk is no reason to end the child.
 */
function recordChildren(directory: string | null): void {
  if (directory === null) return;
  const own = [...children.values()].filter(({ records }) => records === directory);
  const processes = own.flatMap(({ pid, mark }) => {
    const started = starts.get(pid)?.started ?? null;
    return started === null ? [] : [{ pid, started, mark }];
  });
  // Each child has its own session.
  const numbers = own.map(({ pid, mark }) => ({ number: pid, seen: starts.get(pid)?.seen ?? 0, mark }));
  try {
    writeProcessRecord(directory, `${SUPERVISOR}-children`, { processes, numbers });
  } catch {
    // The mark and the watchdog are left to find them.
  }
}

/** A child as the watchdog knows it. */
export interface WatchedChild {
  /** Also the id of its process group. */
  readonly pid: number;
  readonly mark: string;
  /** Where its descendants are recorded; null: nowhere. */
  readonly records: string | null;
}

/** One line of the watchdog's input. */
export type WatchdogInput = { readonly started: WatchedChild } | { readonly ended: number };

function send(watchdog: ChildProcess | null, input: WatchdogInput): void {
  watchdog?.stdin?.write(`${JSON.stringify(input)}\n`);
}

const SUPERVISOR = randomId();
const children = new Map<number, WatchedChild>();
/** When each child started, and the count of all processes then. */
const starts = new Map<number, { readonly started: string | null; readonly seen: number }>();
let running: ChildProcess | null = null;
let restarts = 0;
/** Limits the restarts of a watchdog that keeps exiting. */
const MAX_RESTARTS = 5;

function start(): ChildProcess | null {
  try {
    const child = spawn(process.execPath, ["--disable-warning=ExperimentalWarning", PROGRAM, SUPERVISOR], {
      // The program has a relative path, so that `pkill -f holdfast` does not match the watchdog.
      cwd: import.meta.dirname,
      env: Object.fromEntries(KEPT_VARIABLES.map((name) => [name, process.env[name]])),
      stdio: ["pipe", "ignore", "ignore"],
      detached: true,
      windowsHide: true,
    });
    child.on("error", () => forget(child));
    child.once("exit", () => {
      forget(child);
      if (children.size === 0 || restarts === MAX_RESTARTS) return;
      restarts += 1;
      running ??= start();
    });
    child.stdin.on("error", () => undefined);
    // The watchdog must not keep this process alive.
    child.unref();
    if ("unref" in child.stdin && typeof child.stdin.unref === "function") child.stdin.unref();
    for (const one of children.values()) send(child, { started: one });
    return child;
  } catch {
    return null;
  }
}

function forget(child: ChildProcess): void {
  if (running === child) running = null;
}

/** Variables that Node may need to start. No other variable of the user and no mark is passed on. */
const KEPT_VARIABLES = ["PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SystemRoot"];

/**
 * The program lies next to this file with the same extension: .ts in the sources, .js in the library, .cjs in the CLI
 * bundle.
 */
const PROGRAM = `./watchdog-process${extname(basename(import.meta.filename))}`;
