// The program of the watchdog (see watchdog.ts). Its argument is the supervisor's id. Its input names the supervisor's
// children, one line each. The end of its input means that the supervisor has exited. The watchdog then ends the
// supervisor's processes, scans until it finds none, and exits. Until then it records in the store what it sees of them.

import { setTimeout as pause } from "node:timers/promises";
import { type RecordedProcess, writeProcessRecord } from "./process-records.ts";
import { type ProcessTarget, findTargets, readProcessTable, terminateTree } from "./process-tree.ts";
import type { WatchdogInput, WatchedChild } from "./watchdog.ts";

const SWEEP_MS = 250;
/** Between two looks. The first ones after a start follow sooner, because most programs start their helpers at once. */
const [FIRST_LOOK_MS, LOOK_MS] = [100, 2000];
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
    clearTimeout(next);
    next = setTimeout(look, FIRST_LOOK_MS, FIRST_LOOK_MS);
    return;
  }
  children.delete(input.ended);
  seen.delete(input.ended);
  record();
}

function look(after: number): void {
  if (children.size === 0) return;
  const table = readProcessTable();
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
    const found = findTargets({ processes, mark, seen: before, spared, groups: new Set([pid]) });
    seen.set(pid, new Map(found.map((target) => [target.entry.pid, target])));
  }
  record();
  next = setTimeout(look, after, Math.min(2 * after, LOOK_MS));
}

/** A full disk or a removed store is no reason to stop watching. */
function record(): void {
  const wanted = new Map<string, RecordedProcess[]>([...recorded.keys()].map((directory) => [directory, []]));
  for (const { pid, mark, records } of children.values()) {
    if (records === null) continue;
    const processes = [...(seen.get(pid)?.values() ?? [])].map(({ entry }) => ({
      pid: entry.pid,
      started: entry.started,
      mark,
    }));
    wanted.set(records, [...(wanted.get(records) ?? []), ...processes]);
  }
  for (const [directory, processes] of wanted) {
    const text = JSON.stringify(processes);
    if (text === (recorded.get(directory) ?? "[]")) continue;
    try {
      writeProcessRecord(directory, supervisor, processes);
      recorded.set(directory, text);
    } catch {
      // The next look tries again.
    }
  }
}

async function endAll(): Promise<void> {
  if (supervisor === "") return;
  const all = new Map([...seen.values()].flatMap((targets) => [...targets]));
  for (let sweep = 0; sweep < MAX_SWEEPS; sweep += 1) {
    const { ended, supported } = await terminateTree({
      mark: supervisor,
      by: "supervisor",
      groups: children.keys(),
      seen: all,
    }).catch(() => STUCK);
    if (!supported) return await endGroups();
    if (ended === 0) break;
    await pause(SWEEP_MS);
  }
  // What is still there after so many sweeps stays recorded for the next resume.
  const left = readProcessTable()?.live.some(({ pid, started }) => all.get(pid)?.entry.started === started);
  if (left === false) for (const directory of recorded.keys()) writeProcessRecord(directory, supervisor, []);
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
