import { readFileSync, readdirSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { HoldfastError } from "./error.ts";

/**
 * Ends every process that carries the mark, or one that begins with it and a slash, and whatever those have started: asks, waits a
 * moment, forces. Returns when a look at the whole system finds none of them. Agents' tools open sessions of their own and
 * outlive their parents, so neither a process group nor the tree of parents finds them all; their environment does.
 * Our own process and its ancestors are never touched. Throws WORKSPACE_BUSY when something cannot be ended.
 */
export async function terminateTree(params: EndParams): Promise<EndedTree> {
  const { mark, variable = MARK_VARIABLE, graceMs = GRACE_MS, forceMs = FORCE_MS } = params;
  const spared = ancestors();
  const seen = new Map<number, ProcessTarget>();
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
    known = unrelatedProcesses(table, targets);
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

interface EndParams {
  readonly mark: string;
  /** Which variable of a process holds the mark; HOLDFAST_MARK by default. */
  readonly variable?: MarkVariable;
  /** Between asking and forcing. */
  readonly graceMs?: number;
  /** After this much forcing it is said that it cannot be done. */
  readonly forceMs?: number;
}

interface EndedTree {
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

function signal(target: ProcessTarget, sought: Sought, name: NodeJS.Signals): void {
  if (isStill(target, sought)) send(target.entry.pid, name);
}

/** Looked at right before each signal: between a scan and a kill the pid may have been given to somebody else. */
function isStill({ entry, foundBy }: ProcessTarget, { mark, variable }: Sought): boolean {
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

function stuck(mark: string, targets: readonly ProcessTarget[]): HoldfastError {
  const pids = targets.map((target) => target.entry.pid);
  return new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: `${pids.length === 1 ? "Process" : "Processes"} ${pids.join(", ")} of ${mark} could not be ended: still there after SIGKILL`,
    hint: "They belong to another user or hang in the kernel. End them by hand, then resume.",
    retry: "later",
    data: { mark, pids },
  });
}

export interface ProcessTarget {
  readonly entry: ProcessEntry;
  /** A process below a marked one may have dropped the mark (`env -i`) or carry another (a Holdfast inside an agent). */
  readonly foundBy: "mark" | "parent";
}

/** Once seen, a process stays a target until it is gone, also when its parent dies or it changes its environment. */
export function findTargets(params: {
  readonly processes: readonly ProcessEntry[];
  readonly mark: string;
  readonly seen: ReadonlyMap<number, ProcessTarget>;
  readonly spared: ReadonlySet<number>;
}): readonly ProcessTarget[] {
  const { processes, mark, seen, spared } = params;
  const targets = new Map<number, ProcessTarget>();
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

/** The mark itself, or one below it: of a run, its steps. */
function carries(found: string | null, mark: string): boolean {
  return found !== null && (found === mark || found.startsWith(`${mark}/`));
}

/**
 * Who need not be read again: a process that is none of ours starts none of ours, and cannot become ours. One without any environment
 * may be about to show it.
 */
export function unrelatedProcesses(
  table: ProcessTable,
  targets: readonly ProcessTarget[],
): ReadonlyMap<number, ProcessEntry> {
  const others = new Set([...targets.map((target) => target.entry.pid), ...table.doubts.map((doubt) => doubt.pid)]);
  return new Map(table.live.flatMap((entry) => (others.has(entry.pid) ? [] : [[entry.pid, entry] as const])));
}

export interface ProcessEntry {
  readonly pid: number;
  readonly parent: number;
  /** Clock ticks since boot. With the pid it names one process for ever: a later one with the same pid began later. */
  readonly started: string;
  /**
   * HOLDFAST_MARK, or the variable that was asked for, in the environment that it was started with. null: none, or another user's process.
   * A program that writes over its own environment (some databases, for their title) hides it.
   */
  readonly mark: string | null;
}

interface ProcessTable {
  readonly live: readonly ProcessEntry[];
  /**
   * Who may have started somebody after the list was made and before it was read: what vanished meanwhile, what is a zombie by now,
   * and what shows no environment at all because it is just becoming another program. A table without doubts is complete.
   */
  readonly doubts: readonly Doubt[];
}

interface Doubt {
  readonly pid: number;
  readonly why: string;
}

/**
 * null where the system has no /proc that tells. Who is `known` and still listed is taken as it was, which makes a second look short:
 * on a busy host a long one always finds that something vanished meanwhile. `onSight` is called for each other while it is still warm.
 */
export function readProcessTable(
  params: {
    readonly known?: ReadonlyMap<number, ProcessEntry>;
    readonly onSight?: ((entry: ProcessEntry) => void) | undefined;
    readonly variable?: MarkVariable;
  } = {},
): ProcessTable | null {
  const { variable = MARK_VARIABLE } = params;
  if (process.platform !== "linux" || readProcess(process.pid) === null) return null;
  const live: ProcessEntry[] = [];
  const doubts: Doubt[] = [];
  // Newest first: those that live shortest are read soonest after they were listed.
  const pids = readdirSync("/proc").flatMap((name) => (/^\d+$/.test(name) ? [Number(name)] : []));
  for (const pid of pids.toSorted((a, b) => b - a)) {
    const before = params.known?.get(pid);
    const { entry, doubt } = before === undefined ? lookAt(pid, variable) : { entry: before, doubt: null };
    if (entry !== null && before === undefined) params.onSight?.(entry);
    if (entry !== null) live.push(entry);
    if (doubt !== null) doubts.push({ pid, why: doubt });
  }
  return { live, doubts };
}

/** null when it is gone; a zombie has ended too, only its parent has not noticed. */
export function readProcess(pid: number, variable: MarkVariable = MARK_VARIABLE): ProcessEntry | null {
  return lookAt(pid, variable).entry;
}

/** Names the run and the step that a process works for. */
export const MARK_VARIABLE = "HOLDFAST_MARK";
/** Names the Holdfast process that started it: a later one that resumes the same step uses the same mark. */
export const SUPERVISOR_VARIABLE = "HOLDFAST_SUPERVISOR";
type MarkVariable = typeof MARK_VARIABLE | typeof SUPERVISOR_VARIABLE;
/** Parent of the kernel's own threads, which have no environment and never will. */
const KERNEL_THREADS = 2;

function lookAt(
  pid: number,
  variable: MarkVariable,
): { readonly entry: ProcessEntry | null; readonly doubt: string | null } {
  const stat = readQuietly(`/proc/${pid}/stat`);
  // The name stands in brackets and may hold spaces and brackets itself.
  const [state, parent, ...rest] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const started = rest[17];
  if (started === undefined) return { entry: null, doubt: "vanished" };
  if (state === "Z" || state === "X") return { entry: null, doubt: `ended ${started}` };
  const environment = readQuietly(`/proc/${pid}/environ`);
  const entry = { pid, parent: Number(parent), started, mark: markIn(environment, `${variable}=`) };
  const isKernel = pid === KERNEL_THREADS || entry.parent === KERNEL_THREADS;
  return { entry, doubt: environment === "" && !isKernel ? `blank ${started}` : null };
}

function markIn(environment: string, prefix: string): string | null {
  const variable = environment.split("\0").find((text) => text.startsWith(prefix));
  // What the kernel hands out are bytes; a mark may hold any text.
  return variable === undefined ? null : Buffer.from(variable.slice(prefix.length), "latin1").toString("utf8");
}

function readQuietly(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}
