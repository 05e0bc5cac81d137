// Identity and liveness of processes, and random ids, seeds and names.

import { randomBytes } from "node:crypto";
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import { errorCode } from "./error.ts";

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
 * Returns "dead" only with proof: an earlier boot of this host, a pid that is gone, or a reused pid. Processes on
 * another host or in another pid namespace cannot be inspected and are "unknown".
 */
export function livenessOf(owner: ProcessIdentity, self: ProcessIdentity): ProcessLiveness {
  if (owner.host !== self.host) return "unknown";
  if (owner.boot !== self.boot) {
    if (owner.boot === null || self.boot === null) return "unknown";
    return bootId(owner.boot) === bootId(self.boot) ? "unknown" : "dead";
  }
  if (owner.pid === self.pid && owner.started !== null && owner.started === self.started) return "alive";
  if (!exists(owner.pid)) return "dead";
  const started = startOf(owner.pid);
  if (started === null || owner.started === null) return "unknown";
  return started === owner.started ? "alive" : "dead";
}

/**
 * True if a signal or a debugger has stopped the process. Valid only for a live owner, because the pid may be reused.
 */
export function isSuspended(owner: ProcessIdentity): boolean {
  const state = statOf(owner.pid)?.[0];
  return state === "T" || state === "t";
}

/** Clock ticks since boot, field 22 of /proc/<pid>/stat. The process name before it may contain spaces and brackets. */
function startOf(pid: number): string | null {
  const fields = statOf(pid);
  // A zombie has exited; its parent has not reaped it yet.
  if (fields?.[0] === "Z" || fields?.[0] === "X") return "ended";
  return fields?.[19] ?? null;
}

/** Fields of /proc/<pid>/stat from the third on; null if the process is gone or the file cannot be read. */
function statOf(pid: number): readonly string[] | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  } catch {
    return null;
  }
}

/** `<boot id>/<pid namespace>`. A pid from another namespace of the same kernel has no meaning here. */
function bootOf(): string | null {
  try {
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
    return `${boot}/${readlinkSync("/proc/self/ns/pid")}`;
  } catch {
    return null;
  }
}

function bootId(boot: string): string {
  return boot.slice(0, boot.indexOf("/"));
}

function exists(pid: number): boolean {
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
