import { type ChildProcess, spawn } from "node:child_process";
import { basename, extname } from "node:path";
import { randomId } from "./identity.ts";
import { SUPERVISOR_VARIABLE } from "./process-tree.ts";

/*
 * The watchdog of this process: a small program in a session of its own that reads a pipe whose other end only we hold. When we end, however
 * that comes about (SIGKILL, out of memory, a crash), the kernel closes the pipe, and the watchdog ends every process that carries our
 * HOLDFAST_SUPERVISOR. While we are stopped (SIGSTOP, a suspended laptop) the pipe stays open and the agents keep working.
 */

/**
 * The variable that puts a child under the watchdog, which is started with the first one. Without a watchdog (no memory, no process left) the
 * child runs all the same: the next resume ends what a dead process left, by its mark.
 */
export function watchdogEnvironment(): Readonly<Record<string, string>> {
  running ??= start();
  return { [SUPERVISOR_VARIABLE]: SUPERVISOR };
}

/** For systems without /proc, where a process group is all that can be found. Returns what to call when the child has ended. */
export function registerChild({ pid }: ChildProcess): () => void {
  if (pid === undefined) return () => undefined;
  groups.add(pid);
  running?.stdin?.write(`+${pid}\n`);
  return () => {
    groups.delete(pid);
    running?.stdin?.write(`-${pid}\n`);
  };
}

const SUPERVISOR = randomId();
const groups = new Set<number>();
let running: ChildProcess | null = null;
let restarts = 0;
/** One that cannot stay alive is not started over and over. */
const MAX_RESTARTS = 5;

function start(): ChildProcess | null {
  try {
    const child = spawn(process.execPath, ["--disable-warning=ExperimentalWarning", PROGRAM, SUPERVISOR], {
      // By a relative path, so that `pkill -f holdfast` does not take the watchdog along.
      cwd: import.meta.dirname,
      env: Object.fromEntries(KEPT_VARIABLES.map((name) => [name, process.env[name]])),
      stdio: ["pipe", "ignore", "ignore"],
      detached: true,
      windowsHide: true,
    });
    child.on("error", () => forget(child));
    child.once("exit", () => {
      forget(child);
      if (groups.size === 0 || restarts === MAX_RESTARTS) return;
      restarts += 1;
      running ??= start();
    });
    child.stdin.on("error", () => undefined);
    // It waits for us, not we for it.
    child.unref();
    if ("unref" in child.stdin && typeof child.stdin.unref === "function") child.stdin.unref();
    for (const pid of groups) child.stdin.write(`+${pid}\n`);
    return child;
  } catch {
    return null;
  }
}

function forget(child: ChildProcess): void {
  if (running === child) running = null;
}

/** What Node itself may need to start; nothing of the user's, and no mark. */
const KEPT_VARIABLES = ["PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SystemRoot"];

/** Beside this file in whatever form it was built: .ts in the sources, .js in the library, .cjs beside the command line's bundle. */
const PROGRAM = `./watchdog-process${extname(basename(import.meta.filename))}`;
