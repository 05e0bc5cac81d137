import { randomBytes } from "node:crypto";
import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";

/** What tells this process from any other, also from a later one with the same pid. */
export interface ProcessIdentity {
  readonly host: string;
  readonly pid: number;
  /** Start time of the process as the kernel reports it; null where it cannot be read. */
  readonly started: string | null;
  readonly boot: string | null;
}

export type ProcessLiveness = "alive" | "dead" | "unknown";

export function processIdentity(pid = process.pid): ProcessIdentity {
  return { host: hostname(), pid, started: startOf(pid), boot: bootOf() };
}

/**
 * "dead" only on proof: an earlier boot of this host, a pid that is gone, or one that was given to a later process.
 * Another host, or another pid namespace of this one, cannot be looked into: "unknown".
 */
export function livenessOf(owner: ProcessIdentity, self: ProcessIdentity): ProcessLiveness {
  if (owner.host !== self.host) return "unknown";
  if (owner.boot !== self.boot) {
    if (owner.boot === null || self.boot === null) return "unknown";
    return bootId(owner.boot) === bootId(self.boot) ? "unknown" : "dead";
  }
  if (!exists(owner.pid)) return "dead";
  const started = startOf(owner.pid);
  if (started === null || owner.started === null) return "unknown";
  return started === owner.started ? "alive" : "dead";
}

/** Stopped by a signal or a debugger. Only of an owner that is alive: the pid alone says nothing. */
export function isSuspended(owner: ProcessIdentity): boolean {
  const state = statOf(owner.pid)?.[0];
  return state === "T" || state === "t";
}

/** Clock ticks since boot, field 22 of /proc/<pid>/stat. The name before it may hold spaces and brackets. */
function startOf(pid: number): string | null {
  const fields = statOf(pid);
  // A zombie has ended; only its parent has not noticed.
  if (fields?.[0] === "Z" || fields?.[0] === "X") return "ended";
  return fields?.[19] ?? null;
}

/** From the third field on. */
function statOf(pid: number): readonly string[] | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  } catch {
    return null;
  }
}

/** `<boot id>/<pid namespace>`: pids of another namespace of one kernel say nothing to us. */
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
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
}

/** Unguessable and unique: handle tokens, store ids, temporary names. */
export function randomId(): string {
  return randomBytes(16).toString("hex");
}

/** For a run that is to be seeded and was given none. Fits what every program takes for a seed. */
export function randomSeed(): number {
  return randomBytes(4).readUInt32LE() >>> 1;
}

/** Short, for a person to read and to type: what tells two runs of the same work apart. */
export function randomName(): string {
  const alphabet = "abcdefghijkmnpqrstuvwxyz23456789";
  return [...randomBytes(5)].map((byte) => alphabet[byte % alphabet.length]).join("");
}
