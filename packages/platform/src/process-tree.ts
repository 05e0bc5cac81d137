// Finds and ends every process of a run: by the mark in its environment, by its parent, its group and its session, and by
// what the watchdog recorded. The process table is that of /proc, or that of `ps` where there is no /proc (macOS).

import { readFileSync, readdirSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { HoldfastError } from "./error.ts";
import { type FolderProcess, readFolderProcesses } from "./folder-processes.ts";
import { readProcStat } from "./identity.ts";
import { type OwnNumbers, provenNumbers, readPidCount } from "./pid-reuse.ts";
import { readProcessRecords, readRecordedNumbers, recordDirectory, removeStaleRecords } from "./process-records.ts";
import { readPs, readPsVariables } from "./ps.ts";

/**
 * Ends every process with this mark, or with one below it (`<mark>/…`), and all their descendants. It sends SIGTERM,
 * waits, then sends SIGKILL. It returns when a scan of the whole system finds none of them.
 *
 * Agents' tools open their own sessions and outlive their parents. Process groups and parent links therefore miss some
 * of them; the environment does not. A tool may also clear its environment, and `ps` hides that of macOS's own programs.
 * The search is therefore the union of all of these, and of what the watchdog recorded. This process and its ancestors
 * are never signalled. Throws WORKSPACE_BUSY when a process does not end.
 */
export async function terminateTree(params: EndParams): Promise<EndedTree> {
  const { mark, by = "mark", graceMs = GRACE_MS, forceMs = FORCE_MS } = params;
  const spared = ancestors();
  const groups = new Set(params.groups);
  const numbers = new Map([...recordedNumbers(mark), ...(params.numbers ?? [])]);
  const seen = new Map<number, ProcessTarget>([...recordedTargets(mark), ...(params.seen ?? [])]);
  const found = new Set<string>();
  const reported = new Set<string>();
  let known: ReadonlyMap<number, ProcessEntry> = new Map();
  // Stops a process in the middle of a scan, so that one that forks and exits repeatedly cannot escape to a new pid.
  const hold = (entry: ProcessEntry): void => {
    if (!spared.has(entry.pid) && isUnder(entry[by], mark)) send(entry.pid, "SIGSTOP");
  };
  const began = performance.now();
  for (let round = 0, emptyRounds = 0; ; round += 1) {
    const elapsed = performance.now() - began;
    const isForced = elapsed >= graceMs;
    const count = readPidCount();
    const table = readProcessTable({ known, onSight: isForced ? hold : undefined });
    if (table === null) return { ended: found.size, supported: false };
    const proven = provenNumbers(numbers, count);
    const targets = findTargets({ processes: table.live, mark, by, seen, spared, groups, numbers: proven });
    // A process that we ask to end may start another one in its session and exit.
    for (const number of numbersOf(targets, table.live)) numbers.set(number, count.started);
    known = unrelatedProcesses(table, targets);
    // A zombie, or a process without an environment, raises a doubt only in the first scan that finds it in that state.
    const doubts = table.doubts.map(({ pid, why }) => `${pid} ${why}`).filter((doubt) => !reported.has(doubt));
    for (const doubt of doubts) reported.add(doubt);
    emptyRounds = targets.length === 0 ? emptyRounds + 1 : 0;
    // On a host that forks all the time every scan may raise doubts. Then ENOUGH_SCANS empty scans in a row suffice.
    const isOver = targets.length === 0 && (doubts.length === 0 || emptyRounds === ENOUGH_SCANS);
    if (isOver) {
      forgetRecords(mark, table.live);
      return { ended: found.size, supported: true };
    }
    if (targets.length > 0 && elapsed > graceMs + forceMs) throw stuck(mark, targets);
    // All targets are stopped before any is ended: a script whose command ends first would start its next command.
    const asked = targets.filter(({ entry }) => isForced || !found.has(`${entry.pid} ${entry.started}`));
    for (const name of isForced ? FORCE : ASK) signalAll(asked, { mark, by }, name);
    for (const target of targets) seen.set(target.entry.pid, target);
    for (const { entry } of targets) found.add(`${entry.pid} ${entry.started}`);
    await pause(emptyRounds > 0 ? 1 : Math.min(2 ** round, MAX_PAUSE_MS));
  }
}

/**
 * Processes in a folder that `terminateTree` would not end: nothing but the folder ties them to the mark. null: the system
 * lists no processes.
 */
export function findUnmarked({
  mark,
  folder,
}: {
  readonly mark: string;
  readonly folder: string;
}): readonly FolderProcess[] | null {
  const inside = readFolderProcesses(folder);
  if (inside === null || inside.length === 0) return inside;
  const table = readProcessTable();
  if (table === null) return null;
  const spared = ancestors();
  const numbers = provenNumbers(recordedNumbers(mark), readPidCount());
  const ours = findTargets({ processes: table.live, mark, seen: new Map(recordedTargets(mark)), spared, numbers });
  const known = new Set([...spared, ...ours.map(({ entry }) => entry.pid)]);
  return inside.filter(({ pid }) => !known.has(pid));
}

interface EndParams {
  readonly mark: string;
  /** "supervisor": `mark` is the value of HOLDFAST_SUPERVISOR. Default: that of HOLDFAST_MARK. */
  readonly by?: MarkField;
  /** Milliseconds between SIGTERM and SIGKILL. */
  readonly graceMs?: number;
  /** Milliseconds of repeated SIGKILL after which terminateTree throws. */
  readonly forceMs?: number;
  /** Process groups and sessions that this process knows to be ours. */
  readonly groups?: Iterable<number>;
  /** Those that an earlier look found. */
  readonly numbers?: OwnNumbers;
  /** Processes of ours that an earlier look found, by pid. They are ours even if nothing shows it any more. */
  readonly seen?: ReadonlyMap<number, ProcessTarget>;
}

/** What an earlier supervisor's watchdog recorded for the mark, or for one below it. */
function recordedTargets(mark: string): readonly (readonly [number, ProcessTarget])[] {
  const directory = recordDirectory(mark);
  const recorded = directory === null ? [] : readProcessRecords(directory);
  return recorded.flatMap(({ pid, started, mark: own }) => {
    const entry = { pid, parent: 0, group: null, session: null, started, mark: null, supervisor: null };
    return isUnder(own, mark) ? [[pid, { entry, foundBy: "record" }] as const] : [];
  });
}

function recordedNumbers(mark: string): OwnNumbers {
  const directory = recordDirectory(mark);
  const recorded = directory === null ? [] : readRecordedNumbers(directory);
  return new Map(recorded.flatMap(({ number, seen, mark: own }) => (isUnder(own, mark) ? [[number, seen]] : [])));
}

function forgetRecords(mark: string, live: readonly ProcessEntry[]): void {
  const directory = recordDirectory(mark);
  if (directory === null) return;
  const starts = new Map(live.map(({ pid, started }) => [pid, started]));
  const groups = new Set(live.flatMap(({ group, session }) => [group, session]));
  removeStaleRecords(directory, {
    isLive: ({ pid, started }) => starts.get(pid) === started,
    isInUse: ({ number }) => groups.has(number),
  });
}

interface EndedTree {
  /** The number of processes that were found and ended. */
  readonly ended: number;
  readonly supported: boolean;
}

const ASK = ["SIGSTOP", "SIGTERM", "SIGCONT"] as const;
const FORCE = ["SIGSTOP", "SIGKILL"] as const;
const GRACE_MS = 1000;
const FORCE_MS = 10_000;
const MAX_PAUSE_MS = 50;
const ENOUGH_SCANS = 50;

/** This process, its ancestors, and process 1. */
function ancestors(): ReadonlySet<number> {
  const listed = hasProc() ? null : new Map((readPs() ?? []).map(({ pid, parent }) => [pid, parent]));
  const parentOf = (pid: number): number => (listed === null ? readProcess(pid)?.parent : listed.get(pid)) ?? 0;
  const found = new Set<number>([1]);
  for (let pid = process.pid; pid > 0 && !found.has(pid); pid = parentOf(pid)) found.add(pid);
  return found;
}

interface Sought {
  readonly mark: string;
  readonly by: MarkField;
}

function signalAll(targets: readonly ProcessTarget[], sought: Sought, name: NodeJS.Signals): void {
  if (hasProc()) {
    for (const target of targets) if (isStill(target, sought)) send(target.entry.pid, name);
    return;
  }
  // One look for all of them, because each costs a process.
  const now = new Map(readPs(targets.map(({ entry }) => entry.pid))?.map(({ pid, started }) => [pid, started]));
  for (const { entry } of targets) if (now.get(entry.pid) === entry.started) send(entry.pid, name);
}

/** Checks the process immediately before each signal, because its pid may be reused between the scan and the signal. */
function isStill({ entry, foundBy }: ProcessTarget, { mark, by }: Sought): boolean {
  const now = readProcess(entry.pid);
  if (now?.started !== entry.started) return false;
  // The same process without a mark has executed another program. One with an unrelated mark is not the process we
  // found.
  return foundBy !== "mark" || now[by] === null || isUnder(now[by], mark);
}

function send(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // The process is gone, or we may not signal it. In the second case the next scan finds it and terminateTree finally
    // throws.
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
  /**
   * A descendant of a marked process may have dropped the mark (`env -i`) or have another one (a Holdfast inside an
   * agent).
   */
  readonly foundBy: "mark" | "parent" | "group" | "record";
}

/** Once found, a process is a target until it is gone, even if its parent dies or its environment changes. */
export function findTargets(params: {
  readonly processes: readonly ProcessEntry[];
  readonly mark: string;
  readonly by?: MarkField;
  readonly seen: ReadonlyMap<number, ProcessTarget>;
  readonly spared: ReadonlySet<number>;
  /** Groups and sessions of ours, also after the processes that made them have ended. */
  readonly groups?: ReadonlySet<number>;
  /** Likewise, from an earlier look. */
  readonly numbers?: ReadonlySet<number>;
}): readonly ProcessTarget[] {
  const { processes, mark, by = "mark", seen, spared } = params;
  const targets = new Map<number, ProcessTarget>();
  const groups = new Set([...(params.groups ?? []), ...(params.numbers ?? [])]);
  for (const entry of processes) {
    if (spared.has(entry.pid)) continue;
    const known = seen.get(entry.pid);
    if (known?.entry.started === entry.started) targets.set(entry.pid, { ...known, entry });
    else if (isUnder(entry[by], mark)) targets.set(entry.pid, { entry, foundBy: "mark" });
    // A number that another process has was given out again, whatever pid-reuse.ts derives.
    else if (params.groups?.has(entry.pid) !== true) groups.delete(entry.pid);
  }
  // A group or session of ours has only members of ours (pid-reuse.ts). That of an ancestor is the terminal's.
  const foreign = new Set(processes.flatMap((entry) => (spared.has(entry.pid) ? [entry.group, entry.session] : [])));
  const isOurs = (number: number | null): boolean => number !== null && groups.has(number) && !foreign.has(number);
  for (let before = -1; before !== targets.size;) {
    before = targets.size;
    for (const number of numbersOf([...targets.values()], processes)) groups.add(number);
    for (const entry of processes) {
      if (targets.has(entry.pid) || spared.has(entry.pid)) continue;
      if (targets.has(entry.parent)) targets.set(entry.pid, { entry, foundBy: "parent" });
      else if (isOurs(entry.group) || isOurs(entry.session)) targets.set(entry.pid, { entry, foundBy: "group" });
    }
  }
  return [...targets.values()];
}

/**
 * The numbers that the targets have, and those of their groups and sessions. A process may make a session later, so its
 * own number counts before that. A session whose living leader is no target is the user's.
 */
export function numbersOf(targets: readonly ProcessTarget[], processes: readonly ProcessEntry[]): ReadonlySet<number> {
  const own = new Set(targets.map(({ entry }) => entry.pid));
  const others = new Set(processes.flatMap(({ pid }) => (own.has(pid) ? [] : [pid])));
  const sessions = targets.flatMap(({ entry: { session } }) =>
    session === null || others.has(session) ? [] : [session],
  );
  const groups = targets.flatMap(({ entry: { group } }) => (group === null ? [] : [group]));
  return new Set([...own, ...groups, ...sessions]);
}

/** True for the mark itself and for marks below it, such as the steps of a run. */
function isUnder(found: string | null, mark: string): boolean {
  return found !== null && (found === mark || found.startsWith(`${mark}/`));
}

/**
 * Processes that later scans need not read again: an unrelated process never becomes a target and starts none. A
 * process without an environment is excluded, because it may be about to show one.
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
  /** Process group; null if its leader is in another pid namespace. */
  readonly group: number | null;
  /** Likewise; also null where `ps` lists the table. */
  readonly session: number | null;
  /**
   * Clock ticks since boot, or the second in which it started (ps). Together with the pid it identifies one process: a
   * later one with the same pid started later.
   */
  readonly started: string;
  /**
   * HOLDFAST_MARK from the environment at the start of the process. null if it is not set or the process belongs to
   * another user. A program that overwrites its own environment (some databases, for their title) hides it.
   */
  readonly mark: string | null;
  /** HOLDFAST_SUPERVISOR, likewise. */
  readonly supervisor: string | null;
}

interface ProcessTable {
  readonly live: readonly ProcessEntry[];
  /**
   * Processes that may have started another one unseen while the table was read. They vanished meanwhile, became
   * zombies, or show no environment because they are executing another program. A table without doubts is complete.
   */
  readonly doubts: readonly Doubt[];
}

interface Doubt {
  readonly pid: number;
  readonly why: string;
}

/**
 * null if the system has neither a usable /proc nor a `ps` that answers. A `known` process that is still listed is not read again, which keeps later
 * scans short. On a busy host a long scan always misses a process that vanished meanwhile. `onSight` is called for
 * every other process right after it was read.
 */
export function readProcessTable(
  params: {
    readonly known?: ReadonlyMap<number, ProcessEntry>;
    readonly onSight?: ((entry: ProcessEntry) => void) | undefined;
  } = {},
): ProcessTable | null {
  if (!hasProc()) return process.platform === "darwin" ? readPsTable() : null;
  const live: ProcessEntry[] = [];
  const doubts: Doubt[] = [];
  // Newest first: short-lived processes are read soonest after they were listed.
  const pids = readdirSync("/proc").flatMap((name) => (/^\d+$/.test(name) ? [Number(name)] : []));
  for (const pid of pids.toSorted((a, b) => b - a)) {
    const before = params.known?.get(pid);
    const { entry, doubt } = before === undefined ? readEntry(pid) : { entry: before, doubt: null };
    if (entry !== null && before === undefined) params.onSight?.(entry);
    if (entry !== null) live.push(entry);
    if (doubt !== null) doubts.push({ pid, why: doubt });
  }
  return { live, doubts };
}

function hasProc(): boolean {
  return process.platform === "linux" && readEntry(process.pid).entry !== null;
}

/**
 * The marks are read first, so that a process that starts in between is at least listed. A process may still start
 * another one between the two looks, so the first table of a search is never complete.
 */
function readPsTable(): ProcessTable | null {
  const variables = readPsVariables([MARK_VARIABLE, SUPERVISOR_VARIABLE]);
  const listed = variables === null ? null : readPs();
  if (variables === null || listed === null) return null;
  const [marks, supervisors] = variables;
  const live = listed.flatMap(({ pid, parent, group, state, started }) => {
    const own = { mark: marks?.get(pid) ?? null, supervisor: supervisors?.get(pid) ?? null };
    return state.startsWith("Z") ? [] : [{ pid, parent, group, session: null, started, ...own }];
  });
  return { live, doubts: [{ pid: 0, why: "first look" }] };
}

/** null if the process is gone. A zombie counts as gone: only its parent has not reaped it yet. */
export function readProcess(pid: number): ProcessEntry | null {
  if (process.platform !== "darwin") return readEntry(pid).entry;
  return readPsTable()?.live.find((entry) => entry.pid === pid) ?? null;
}

/** Names the run and the step that a process works for. */
export const MARK_VARIABLE = "HOLDFAST_MARK";
/**
 * Names the Holdfast process that started it. HOLDFAST_MARK cannot: a process that resumes the same step uses the same
 * mark.
 */
export const SUPERVISOR_VARIABLE = "HOLDFAST_SUPERVISOR";
type MarkField = "mark" | "supervisor";
/** Parent of the kernel's own threads, which never have an environment. */
const KERNEL_THREADS = 2;

function readEntry(pid: number): { readonly entry: ProcessEntry | null; readonly doubt: string | null } {
  const [state, parent, ...rest] = readProcStat(pid)?.fields ?? [];
  const started = rest[17];
  if (started === undefined) return { entry: null, doubt: "vanished" };
  if (state === "Z" || state === "X") return { entry: null, doubt: `ended ${started}` };
  const environment = readQuietly(`/proc/${pid}/environ`);
  const entry = {
    pid,
    parent: Number(parent),
    group: Number(rest[0]) > 0 ? Number(rest[0]) : null,
    session: Number(rest[1]) > 0 ? Number(rest[1]) : null,
    started,
    mark: markIn(environment, `${MARK_VARIABLE}=`),
    supervisor: markIn(environment, `${SUPERVISOR_VARIABLE}=`),
  };
  const isKernel = pid === KERNEL_THREADS || entry.parent === KERNEL_THREADS;
  return { entry, doubt: environment === "" && !isKernel ? `blank ${started}` : null };
}

function markIn(environment: string, prefix: string): string | null {
  const variable = environment.split("\0").find((text) => text.startsWith(prefix));
  // The kernel returns bytes; the mark is UTF-8 text.
  return variable === undefined ? null : Buffer.from(variable.slice(prefix.length), "latin1").toString("utf8");
}

function readQuietly(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}
