import { setTimeout as pause } from "node:timers/promises";
import { HoldfastError } from "../core/error.ts";
import { MARK_VARIABLE, readProcess, readProcessTable, type MarkVariable, type ProcessEntry } from "./process-table.ts";
import { carries, findTargets, strangersOf, type Target } from "./process-targets.ts";

/**
 * Ends every process that carries the mark, or one that begins with it and a slash, and whatever those have started: asks, waits a
 * moment, forces. Returns when a look at the whole system finds none of them. Agents' tools open sessions of their own and
 * outlive their parents, so neither a process group nor the tree of parents finds them all; their environment does.
 * Our own process and its ancestors are never touched. Throws WORKSPACE_BUSY when something cannot be ended.
 */
export async function endTree(params: EndParams): Promise<EndedTree> {
  const { mark, variable = MARK_VARIABLE, graceMs = GRACE_MS, forceMs = FORCE_MS } = params;
  const spared = ancestors();
  const seen = new Map<number, Target>();
  const told = new Set<string>();
  let known: ReadonlyMap<number, ProcessEntry> = new Map();
  // In the middle of a look, so that what forks and exits over and over is held before it has hopped on.
  const hold = (entry: ProcessEntry): void => {
    if (!spared.has(entry.pid) && carries(entry.mark, mark)) send(entry.pid, "SIGSTOP");
  };
  const began = performance.now();
  for (let round = 0, emptyRounds = 0; ; round += 1) {
    const elapsed = performance.now() - began;
    const isForced = elapsed >= graceMs;
    const table = readProcessTable({ known, onSight: isForced ? hold : undefined, variable });
    if (table === null) return { ended: 0, supported: false };
    const targets = findTargets({ processes: table.live, mark, seen, spared });
    known = strangersOf(table, targets);
    // A zombie, or a process without any environment, raises a doubt only when it is first seen so.
    const doubts = table.doubts.map(({ pid, why }) => `${pid} ${why}`).filter((doubt) => !told.has(doubt));
    for (const doubt of doubts) told.add(doubt);
    emptyRounds = targets.length === 0 ? emptyRounds + 1 : 0;
    // On a host that forks all the time no look may be beyond doubt; so many empty ones in a row are as good.
    const isOver = targets.length === 0 && (doubts.length === 0 || emptyRounds === ENOUGH_LOOKS);
    if (isOver) return { ended: seen.size, supported: true };
    if (targets.length > 0 && elapsed > graceMs + forceMs) throw stuck(mark, targets);
    // Held before any of them is ended: a script whose command ends first would go on with its next one.
    const asked = targets.filter(({ entry }) => isForced || !seen.has(entry.pid));
    for (const name of isForced ? FORCE : ASK) for (const target of asked) signal(target, { mark, variable }, name);
    for (const target of targets) seen.set(target.entry.pid, target);
    await pause(emptyRounds > 0 ? 1 : Math.min(2 ** round, MAX_PAUSE_MS));
  }
}

export interface EndParams {
  readonly mark: string;
  /** Which variable of a process holds the mark; HOLDFAST_MARK by default. */
  readonly variable?: MarkVariable;
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

const ASK = ["SIGSTOP", "SIGTERM", "SIGCONT"] as const;
const FORCE = ["SIGSTOP", "SIGKILL"] as const;
const GRACE_MS = 1000;
const FORCE_MS = 10_000;
const MAX_PAUSE_MS = 50;
const ENOUGH_LOOKS = 50;

/** Ourselves, our parents up to the first process, and that one. */
function ancestors(): ReadonlySet<number> {
  const found = new Set<number>([1]);
  for (let pid = process.pid; pid > 0 && !found.has(pid); pid = readProcess(pid)?.parent ?? 0) found.add(pid);
  return found;
}

interface Sought {
  readonly mark: string;
  readonly variable: MarkVariable;
}

function signal(target: Target, sought: Sought, name: NodeJS.Signals): void {
  if (isStill(target, sought)) send(target.entry.pid, name);
}

/** Looked at right before each signal: between a scan and a kill the pid may have been given to somebody else. */
function isStill({ entry, foundBy }: Target, { mark, variable }: Sought): boolean {
  const now = readProcess(entry.pid, variable);
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
