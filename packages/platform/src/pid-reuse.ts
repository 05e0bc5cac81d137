// Decides whether the number of an ended process can name another process by now. A process that cleared its environment
// and lost its parent still has the session and the group of the process that made them. That process may have ended, so
// its start time cannot be compared.
//
// The proof that such a process belongs to the run:
//
// 1. A session or a group has the number of the process that made it. Members come only by fork, or by setpgid from the
//    same session. So all members of a session or group of our process are ours.
// 2. The kernel gives out no number that a process, a group or a session has. So a number means the same as long as it is
//    in use.
// 3. A number that is free again comes last: the kernel gives out ascending numbers and begins again at the largest one.
//    A number that was in use at one look and means something else now costs a whole cycle of new processes and threads.
//    Only a program with special rights can choose its number (a container that is restored).
//
// So a number that we saw in use is still ours, or unused, until the system has started a cycle of processes. After that
// nothing is proved, and a process is ended only if its own pid and start time are recorded. A process that has such a
// number as its own pid, and is not recorded with its start time, disproves it at any time (findTargets).

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
