// Decides whether a number that one of our processes had can name another process by now.
//
// An example: our process 500 starts process 501 in its session, 500, and ends. Process 501 clears its environment, so nothing but session 500
// shows that it is ours. May it be ended? Yes, unless the kernel has made a new session 500. Three facts decide:
//
// 1. A session or a group has the number of the process that made it. Others join it only by a fork, or by setpgid in the same session. So all
//    of its members are ours.
// 2. The kernel gives out no number that a process, a group or a session has.
// 3. The kernel gives out ascending numbers, and begins again after the largest one. So a free number is not given out again before a cycle of
//    new processes and threads. Only a program with special rights chooses its number (a restored container).
//
// So each number is kept with the count of started processes at which it was last seen in use. It is ours, or unused, until a cycle of starts
// later. After that, only a process whose pid and start time are recorded is ended. A process with such a number as its pid and another start
// time disproves the number at any time (findTargets).

import { readFileSync } from "node:fs";
import { uptime } from "node:os";

/** A point in the sequence of all processes that the system has started since its boot. */
export interface PidCount {
  /** Processes and threads started until now. */
  readonly started: number;
  /** No number is given out twice within so many. */
  readonly cycle: number;
}

export function readPidCount(): PidCount {
  const started = Number(/^processes (\d+)$/m.exec(readQuietly("/proc/stat"))?.[1] ?? 0);
  const largest = Number(readQuietly("/proc/sys/kernel/pid_max"));
  const inUse = Number(/\/(\d+) /.exec(readQuietly("/proc/loadavg"))?.[1] ?? Number.NaN);
  // A sandbox may always report 0 processes.
  if (started > 0 && largest > 0 && inUse > 0) return { started, cycle: Math.max(0, largest / 2 - inUse) };
  return { started: Math.ceil(uptime() * STARTS_PER_SECOND), cycle: LARGEST_MAC_PID / 2 };
}

// Half a cycle is left for numbers that are reserved, and for a fork that fails after it took its number.
const LARGEST_MAC_PID = 99_999;
/** macOS has no count. With the half cycle, twice as many in each second of a whole minute would be needed for a reuse. */
const STARTS_PER_SECOND = 1000;

/** The numbers of processes, groups and sessions of ours, each with the count when it was last seen in use. */
export type OwnNumbers = ReadonlyMap<number, number>;

/** Those that can mean nothing else by now. */
export function provenNumbers(numbers: OwnNumbers, { started, cycle }: PidCount): ReadonlySet<number> {
  return new Set([...numbers].flatMap(([number, seen]) => (started - seen < cycle ? [number] : [])));
}

/**
 * Adds the numbers in use, and drops those that were not in use for a while. A look may miss a process that starts
 * another one meanwhile, so one look without a number does not prove that it is free.
 */
export function updateNumbers(numbers: OwnNumbers, inUse: Iterable<number>, { started }: PidCount): OwnNumbers {
  const kept = [...numbers].filter(([, seen]) => started - seen < KEPT_STARTS);
  return new Map([...kept, ...[...inUse].map((number) => [number, started] as const)]);
}

/** Also limits the size of a record: each number costs at least one start. */
const KEPT_STARTS = 1000;

function readQuietly(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}
