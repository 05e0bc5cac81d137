import { setTimeout as pause } from "node:timers/promises";
import { HoldfastError } from "../core/error.ts";
import { readProcess, readProcessTable, type ProcessEntry } from "./process-table.ts";

/**
 * Ends every process that carries the mark, or one that begins with it and a slash, and whatever those have started: asks, waits a
 * moment, forces. Returns when a look at the whole system finds none of them. Agents' tools open sessions of their own and
 * outlive their parents, so neither a process group nor the tree of parents finds them all; their environment does.
 * Our own process and its ancestors are never touched. Throws WORKSPACE_BUSY when something cannot be ended.
 */
export async function endTree(params: EndParams): Promise<EndedTree> {
  const { mark, graceMs = GRACE_MS, forceMs = FORCE_MS } = params;
  const seen = new Map<number, Target>();
  const known = new Set<string>();
  const began = performance.now();
  for (let round = 0, emptyRounds = 0; ; round += 1) {
    const table = readProcessTable();
    if (table === null) return { ended: 0, supported: false };
    const processes = table.live;
    const targets = findTargets({ processes, mark, seen });
    const isComplete = table.doubts.every((doubt) => known.has(doubt));
    for (const doubt of table.doubts) known.add(doubt);
    if (targets.length === 0) {
      emptyRounds += 1;
      // On a host that forks all the time no look is beyond doubt; so many empty ones in a row are as good.
      if (isComplete || emptyRounds === ENOUGH_LOOKS) return { ended: seen.size, supported: true };
      await pause(1);
      continue;
    }
    emptyRounds = 0;
    const elapsed = performance.now() - began;
    if (elapsed > graceMs + forceMs) throw stuck(mark, targets);
    if (elapsed < graceMs) {
      for (const target of targets) if (!seen.has(target.entry.pid)) signal(target, mark, "SIGTERM");
    } else {
      for (const group of ownGroups(processes, targets)) signalGroup(group, mark);
      for (const target of targets) signal(target, mark, "SIGKILL");
    }
    for (const target of targets) seen.set(target.entry.pid, target);
    await pause(Math.min(2 ** round, MAX_PAUSE_MS, elapsed < graceMs ? graceMs - elapsed : MAX_PAUSE_MS));
  }
}

export interface EndParams {
  readonly mark: string;
  /** Between asking and forcing. */
  readonly graceMs?: number;
  /** After this much forcing it is said that it cannot be done. */
  readonly forceMs?: number;
}

export interface EndedTree {
  /** How many processes there were. */
  readonly ended: number;
  readonly supported: boolean;
}

const GRACE_MS = 1000;
const FORCE_MS = 10_000;
const MAX_PAUSE_MS = 50;
const ENOUGH_LOOKS = 20;

interface Target {
  readonly entry: ProcessEntry;
  /** A process below a marked one may have dropped the mark (`env -i`) or carry another (a Holdfast inside an agent). */
  readonly foundBy: "mark" | "parent";
}

/** Once seen, a process stays a target until it is gone, also when its parent dies or it changes its environment. */
function findTargets(params: {
  readonly processes: readonly ProcessEntry[];
  readonly mark: string;
  readonly seen: ReadonlyMap<number, Target>;
}): readonly Target[] {
  const { processes, mark, seen } = params;
  const spared = ancestors(processes);
  const targets = new Map<number, Target>();
  for (const entry of processes) {
    if (spared.has(entry.pid)) continue;
    const known = seen.get(entry.pid);
    if (known?.entry.started === entry.started) targets.set(entry.pid, known);
    else if (carries(entry.mark, mark)) targets.set(entry.pid, { entry, foundBy: "mark" });
  }
  for (let before = -1; before !== targets.size;) {
    before = targets.size;
    for (const entry of processes) {
      if (!targets.has(entry.parent) || targets.has(entry.pid) || spared.has(entry.pid)) continue;
      targets.set(entry.pid, { entry, foundBy: "parent" });
    }
  }
  return [...targets.values()];
}

function carries(found: string | null, mark: string): boolean {
  return found !== null && (found === mark || found.startsWith(`${mark}/`));
}

/** Ourselves, our parents up to the first process, and that one. */
function ancestors(processes: readonly ProcessEntry[]): ReadonlySet<number> {
  const parents = new Map(processes.map((entry) => [entry.pid, entry.parent]));
  const found = new Set<number>([1]);
  for (let pid = process.pid; pid > 0 && !found.has(pid); pid = parents.get(pid) ?? 0) found.add(pid);
  return found;
}

/** Groups of which every member is a target: one signal reaches also those that fork and exit faster than we can look. */
function ownGroups(processes: readonly ProcessEntry[], targets: readonly Target[]): readonly Target[] {
  const ours = new Set(targets.map((target) => target.entry.pid));
  const mixed = new Set(processes.flatMap((entry) => (ours.has(entry.pid) ? [] : [entry.group])));
  const leaders = new Map(targets.map((target) => [target.entry.group, target]));
  return [...leaders.values()].filter((target) => target.entry.group > 1 && !mixed.has(target.entry.group));
}

function signal(target: Target, mark: string, name: NodeJS.Signals): void {
  if (isStill(target, mark)) send(target.entry.pid, name);
}

function signalGroup(member: Target, mark: string): void {
  if (isStill(member, mark) && readProcess(member.entry.pid)?.group === member.entry.group)
    send(-member.entry.group, "SIGKILL");
}

/** Looked at right before each signal: between a scan and a kill the pid may have been given to somebody else. */
function isStill({ entry, foundBy }: Target, mark: string): boolean {
  const now = readProcess(entry.pid);
  if (now?.started !== entry.started) return false;
  // The same process without a mark has put another program in its place; one with a foreign mark is not the one we found.
  return foundBy === "parent" || now.mark === null || carries(now.mark, mark);
}

function send(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // Gone, which was wanted; or not ours to signal, which the next look finds and the end of the patience tells.
  }
}

function stuck(mark: string, targets: readonly Target[]): HoldfastError {
  const pids = targets.map((target) => target.entry.pid);
  return new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: `${pids.length === 1 ? "Process" : "Processes"} ${pids.join(", ")} of ${mark} could not be ended: still there after SIGKILL`,
    hint: "They belong to another user or hang in the kernel. End them by hand, then resume.",
    retry: "later",
    data: { mark, pids },
  });
}
