// Identity and liveness of processes, and random ids, seeds and names.

import { randomBytes } from "node:crypto";
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { errorCode } from "./error.ts";
import type { LockState } from "./process-lock.ts";
import { readBootSession, readPs } from "./ps.ts";

/** Identifies one process, even after its pid is reused. */
export interface ProcessIdentity {
  readonly host: string;
  readonly pid: number;
  /** Start time of the process as the kernel reports it; null if it cannot be read. */
  readonly started: string | null;
  readonly boot: string | null;
}

export type ProcessLiveness = "alive" | "dead" | "unknown";

export function processIdentity(pid = process.pid): ProcessIdentity {
  return pid === process.pid ? (own ??= readIdentity(pid)) : readIdentity(pid);
}

/** The identity of this process, which never changes. It is read once, because every lease check needs it. */
let own: ProcessIdentity | undefined;

function readIdentity(pid: number): ProcessIdentity {
  return { host: hostname(), pid, started: startOf(pid), boot: bootOf() };
}

/**
 * Returns "dead" only with proof. `lock` is the state of the owner's lock file (process-lock.ts), where it has one:
 * - held: the owner is alive, even if it is stopped or its machine slept;
 * - free: the owner of the same kernel is dead, unless its pid and start time show it alive. Locks of another kernel may
 *   not be visible here.
 * Without a lock file, only an earlier boot of this host, a missing pid or a reused pid proves the death. Equal boot ids
 * mean the same kernel whatever the host is called. Processes on another host or in another pid namespace are "unknown".
 */
export function livenessOf(owner: ProcessIdentity, self: ProcessIdentity, lock: LockState = "absent"): ProcessLiveness {
  if (lock === "held") return "alive";
  const seen = livenessByPid(owner, self);
  return seen === "unknown" && lock === "free" && isSameKernel(owner, self) ? "dead" : seen;
}

function livenessByPid(owner: ProcessIdentity, self: ProcessIdentity): ProcessLiveness {
  if (!isSameKernel(owner, self)) {
    return owner.host === self.host && owner.boot !== null && self.boot !== null ? "dead" : "unknown";
  }
  if (!hasSharedPids(owner, self)) return "unknown";
  if (owner.pid === self.pid && owner.started !== null && owner.started === self.started) return "alive";
  if (!isAlive(owner.pid)) return "dead";
  const started = startOf(owner.pid);
  if (started === null || owner.started === null) return "unknown";
  return started === owner.started ? "alive" : "dead";
}

export function isSameKernel(owner: ProcessIdentity, self: ProcessIdentity): boolean {
  if (owner.boot === null || self.boot === null) return owner.boot === self.boot && owner.host === self.host;
  return bootId(owner.boot) === bootId(self.boot);
}

/**
 * True if a signal or a debugger has stopped the process. Valid only for a live owner, because the pid may be reused.
 */
export function isSuspended(owner: ProcessIdentity): boolean {
  const state = hasSharedPids(owner, processIdentity()) ? statusOf(owner.pid)?.state : undefined;
  return state === "T" || state === "t";
}

/**
 * True if the owner's pid identifies a process here and nothing shows that it belongs to another one by now. A live
 * owner in another pid namespace must not be signalled: its pid is that of an unrelated process here.
 */
export function canSignal(owner: ProcessIdentity, self: ProcessIdentity): boolean {
  return hasSharedPids(owner, self) && livenessByPid(owner, self) !== "dead";
}

function hasSharedPids(owner: ProcessIdentity, self: ProcessIdentity): boolean {
  return isSameKernel(owner, self) && owner.boot === self.boot;
}

/** "ended" for a zombie: it has exited, and its parent has not reaped it yet. null if the start cannot be read. */
function startOf(pid: number): string | null {
  const status = statusOf(pid);
  return status?.state === "Z" || status?.state === "X" ? "ended" : (status?.started ?? null);
}

interface ProcessStatus {
  /** One letter, such as T for a stopped process. */
  readonly state: string;
  readonly started: string;
}

function statusOf(pid: number): ProcessStatus | null {
  if (process.platform === "darwin") return psStatusOf(pid);
  const fields = readProcStat(pid)?.fields;
  // Clock ticks since boot, field 22 of /proc/<pid>/stat.
  const [state, started] = [fields?.[0], fields?.[19]];
  return state === undefined || started === undefined ? null : { state, started };
}

/** A caller that waits for a process asks many times a second, and each answer costs a process. */
const PS_VALID_MS = 1000;
const psAnswers = new Map<number, { readonly at: number; readonly status: ProcessStatus | null }>();

function psStatusOf(pid: number): ProcessStatus | null {
  const known = psAnswers.get(pid);
  if (known !== undefined && performance.now() - known.at < PS_VALID_MS) return known.status;
  const found = readPs([pid]);
  const [entry] = found ?? [];
  // A process that has gone since its pid was tested has ended.
  const gone = found === null ? null : { state: "X", started: "" };
  const status = entry === undefined ? gone : { state: entry.state.slice(0, 1), started: entry.started };
  psAnswers.set(pid, { at: performance.now(), status });
  return status;
}

/**
 * The name of a process's program, and the fields of /proc/<pid>/stat from the third on; null if the process is gone or the file cannot be
 * read.
 */
export function readProcStat(pid: number): { readonly name: string; readonly fields: readonly string[] } | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`);
    // The name is in brackets and may itself contain spaces and brackets.
    const end = stat.lastIndexOf(")");
    return {
      name: stat.toString("utf8", stat.indexOf("(") + 1, end),
      fields: stat.toString("latin1", end + 2).split(" "),
    };
  } catch {
    return null;
  }
}

/** `<boot id>/<pid namespace>`. A pid from another namespace of the same kernel has no meaning here. */
function bootOf(): string | null {
  if (process.platform === "darwin") {
    const session = readBootSession();
    return session === "" ? null : `${session}/macos`;
  }
  try {
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
    return `${boot}/${readlinkSync("/proc/self/ns/pid")}`;
  } catch {
    return null;
  }
}

/** Identifies the boot of the kernel; null if the system does not report it. */
export function ownBootId(): string | null {
  const { boot } = processIdentity();
  return boot === null ? null : bootId(boot);
}

function bootId(boot: string): string {
  return boot.split("/", 1)[0] ?? "";
}

/** Whether a process has this pid, also one of another user. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return errorCode(error) === "EPERM";
  }
}

/** An unguessable unique id for handle tokens, store ids and temporary file names. */
export function randomId(): string {
  return randomBytes(16).toString("hex");
}

/** A random seed for a run that needs one and was given none. It fits into 31 bits, which every program accepts. */
export function randomSeed(): number {
  return randomBytes(4).readUInt32LE() >>> 1;
}

/** A short name that users can read and type. It distinguishes runs of the same work. */
export function randomName(): string {
  const alphabet = "abcdefghijkmnpqrstuvwxyz23456789";
  return [...randomBytes(5)].map((byte) => alphabet[byte % alphabet.length]).join("");
}
