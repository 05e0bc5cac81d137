// The program of the watchdog (see watchdog.ts). Its argument is the supervisor's id. Its input names the supervisor's
// children, one line each. The end of its input means that the supervisor has exited. The watchdog then ends the
// supervisor's processes, scans until it finds none, and exits. Until then it records in the store what it sees of them.

import { setTimeout as pause } from "node:timers/promises";
import { type OwnNumbers, provenNumbers, readPidCount, updateNumbers } from "./pid-reuse.ts";
import { writeProcessRecord } from "./process-records.ts";
import {
  type ProcessEntry,
  type ProcessTarget,
  findTargets,
  numbersOf,
  readProcessTable,
  terminateTree,
  unrelatedProcesses,
} from "./process-tree.ts";
import type { WatchdogInput, WatchedChild } from "./watchdog.ts";

const SWEEP_MS = 250;
/**
 * Between two looks. The first ones after a start follow sooner, because most programs start their helpers at once. A look
 * with `ps` starts two processes.
 */
const [FIRST_LOOK_MS, LOOK_MS] = [100, process.platform === "linux" ? 1000 : 2000];
/** At most a fiftieth of the time is spent on looks, also where there are thousands of processes. */
const PAUSE_FACTOR = 50;
/** About a minute in total: a process that survives SIGKILL for so long hangs in the kernel. */
const MAX_SWEEPS = 6;

const [, , supervisor = ""] = process.argv;
// The working directory of a process cannot be unmounted.
process.chdir("/");
// Signals to the whole group are for the supervisor to handle. The watchdog learns of the supervisor's end from the
// pipe.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => undefined);

const children = new Map<number, WatchedChild>();
/**
 * What the watchdog has seen of each child's processes. Once a process has left its parent and its group and shows no
 * mark, nothing else shows to whom it belongs.
 */
const seen = new Map<number, ReadonlyMap<number, ProcessTarget>>();
/** Their numbers, groups and sessions, also of processes that have ended. */
const numbers = new Map<number, OwnNumbers>();
/** Processes of others, which a look need not read again. */
let known: ReadonlyMap<number, ProcessEntry> = new Map();
/** The content of each record, to write it only when it changes. */
const recorded = new Map<string, string>();
let next: NodeJS.Timeout | undefined;
let rest = "";
process.stdin.setEncoding("utf8");
process.stdin.on("data", (text: string) => {
  const lines = (rest + text).split("\n");
  rest = lines.pop() ?? "";
  for (const line of lines) hear(JSON.parse(line));
});
process.stdin.once("close", () => {
  clearTimeout(next);
  void endAll();
});
process.stdin.on("error", () => undefined);

function hear(input: WatchdogInput): void {
  if ("started" in input) {
    children.set(input.started.pid, input.started);
    // A look may have taken the child for a process of others.
    known = new Map();
    clearTimeout(next);
    next = setTimeout(look, FIRST_LOOK_MS, FIRST_LOOK_MS);
    return;
  }
  children.delete(input.ended);
  seen.delete(input.ended);
  numbers.delete(input.ended);
  record();
}

function look(after: number): void {
  if (children.size === 0) return;
  const began = performance.now();
  const count = readPidCount();
  const table = readProcessTable({ known });
  const spared = new Set([1, process.pid]);
  // A mark alone proves nothing: after a lost lease, another Holdfast process may run the same step.
  const processes = (table?.live ?? []).map((entry) =>
    entry.supervisor === supervisor ? entry : { ...entry, mark: null },
  );
  const live = new Map(processes.map((entry) => [entry.pid, entry]));
  for (const { pid, mark } of table === null ? [] : children.values()) {
    const before = new Map(seen.get(pid));
    // The child itself may have replaced its environment. Its pid is not reused before the supervisor has reaped it.
    const root = live.get(pid);
    if (root !== undefined) before.set(pid, { entry: root, foundBy: "record" });
    const own = numbers.get(pid) ?? new Map();
    const ours = { groups: new Set([pid]), numbers: provenNumbers(own, count) };
    const found = findTargets({ processes, mark, seen: before, spared, ...ours });
    seen.set(pid, new Map(found.map((target) => [target.entry.pid, target])));
    numbers.set(pid, updateNumbers(own, numbersOf(found, processes), count));
  }
  if (table !== null)
    known = unrelatedProcesses(
      table,
      [...seen.values()].flatMap((targets) => [...targets.values()]),
    );
  record();
  next = setTimeout(look, Math.max(after, PAUSE_FACTOR * (performance.now() - began)), Math.min(2 * after, LOOK_MS));
}

/** A full disk or a removed store is no reason to stop watching. */
function record(): void {
  const watched = [...children.values()];
  for (const directory of new Set([...recorded.keys(), ...watched.flatMap(({ records }) => records ?? [])])) {
    const own = watched.filter(({ records }) => records === directory);
    const content = {
      processes: own.flatMap(({ pid, mark }) =>
        [...(seen.get(pid)?.values() ?? [])].map(({ entry }) => ({ pid: entry.pid, started: entry.started, mark })),
      ),
      // An older count proves less, but nothing wrong, and the record is not written anew at each look.
      numbers: own.flatMap(({ pid, mark }) =>
        [...(numbers.get(pid) ?? [])].map(([number, count]) => ({ number, seen: count - (count % COUNT_STEP), mark })),
      ),
    };
    const text = JSON.stringify(content);
    if (text === (recorded.get(directory) ?? EMPTY)) continue;
    try {
      writeProcessRecord(directory, supervisor, content);
      recorded.set(directory, text);
    } catch {
      // The next look tries again.
    }
  }
}

const COUNT_STEP = 1000;
const NOTHING = { processes: [], numbers: [] };
const EMPTY = JSON.stringify(NOTHING);

async function endAll(): Promise<void> {
  if (supervisor === "") return;
  for (let sweep = 0; sweep < MAX_SWEEPS; sweep += 1) {
    const { ended, supported } = await terminateTree({
      mark: supervisor,
      by: "supervisor",
      groups: children.keys(),
      numbers: new Map([...numbers.values()].flatMap((own) => [...own])),
      seen: new Map([...seen.values()].flatMap((targets) => [...targets])),
    }).catch(() => STUCK);
    if (!supported) return await endGroups();
    if (ended === 0) {
      for (const directory of recorded.keys()) writeProcessRecord(directory, supervisor, NOTHING);
      return;
    }
    await pause(SWEEP_MS);
  }
  // What is still there after so many sweeps stays recorded for the next resume.
}

const STUCK = { ended: 1, supported: true };
const GRACE_MS = 1000;

async function endGroups(): Promise<void> {
  const groups = new Set(children.keys());
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
