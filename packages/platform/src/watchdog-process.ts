// The program of the watchdog (see watchdog.ts). Its argument is the supervisor's id. Its input names process groups:
// `+PID` started, `-PID` ended. The end of its input means that the supervisor has exited. The watchdog then ends the
// supervisor's processes, scans until it finds none, and exits.

import { setTimeout as pause } from "node:timers/promises";
import {
  type ProcessTarget,
  SUPERVISOR_VARIABLE,
  findTargets,
  readProcessTable,
  terminateTree,
} from "./process-tree.ts";

const SWEEP_MS = 250;
const LOOK_MS = 2000;
/** About a minute in total: a process that survives SIGKILL for so long hangs in the kernel. */
const MAX_SWEEPS = 6;

const [, , supervisor = ""] = process.argv;
// The working directory of a process cannot be unmounted.
process.chdir("/");
// Signals to the whole group are for the supervisor to handle. The watchdog learns of the supervisor's end from the
// pipe.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => undefined);

const groups = new Set<number>();
/**
 * On macOS nothing shows any more to whom a program of the system belongs once it has left its parent and its group.
 * The watchdog remembers what it has seen of the supervisor's processes, and outlives the supervisor.
 */
const seen = new Map<number, ProcessTarget>();
const looking = process.platform === "darwin" ? setInterval(look, LOOK_MS) : undefined;
let rest = "";
process.stdin.setEncoding("utf8");
process.stdin.on("data", (text: string) => {
  const lines = (rest + text).split("\n");
  rest = lines.pop() ?? "";
  for (const line of lines) {
    const pid = Number(line.slice(1));
    if (line.startsWith("+")) groups.add(pid);
    else groups.delete(pid);
  }
});
process.stdin.once("close", () => {
  clearInterval(looking);
  void endAll();
});
process.stdin.on("error", () => undefined);

function look(): void {
  if (groups.size === 0) return seen.clear();
  const table = readProcessTable({ variable: SUPERVISOR_VARIABLE });
  if (table === null) return;
  const targets = findTargets({
    processes: table.live,
    mark: supervisor,
    seen,
    spared: new Set([1, process.pid]),
    groups,
  });
  seen.clear();
  for (const target of targets) seen.set(target.entry.pid, target);
}

async function endAll(): Promise<void> {
  if (supervisor === "") return;
  for (let sweep = 0; sweep < MAX_SWEEPS; sweep += 1) {
    const { ended, supported } = await terminateTree({
      mark: supervisor,
      variable: SUPERVISOR_VARIABLE,
      groups,
      seen,
    }).catch(() => STUCK);
    if (!supported) return await endGroups();
    if (ended === 0) return;
    await pause(SWEEP_MS);
  }
}

const STUCK = { ended: 1, supported: true };
const GRACE_MS = 1000;

async function endGroups(): Promise<void> {
  for (const signal of ["SIGTERM", "SIGKILL"] as const) {
    for (const pid of groups) {
      try {
        process.kill(process.platform === "win32" ? pid : -pid, signal);
      } catch {
        groups.delete(pid);
      }
    }
    if (groups.size > 0) await pause(GRACE_MS);
  }
}
