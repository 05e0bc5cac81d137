import { readFileSync, readlinkSync } from "node:fs";
import { hostname } from "node:os";
import type { LeaseOwner, OwnerLiveness } from "../core/lease/lease.ts";

/** What tells this process from any other, also from a later one with the same pid. */
export type ProcessIdentity = Pick<LeaseOwner, "host" | "pid" | "started" | "boot">;

export function processIdentity(pid = process.pid): ProcessIdentity {
  return { host: hostname(), pid, started: startOf(pid), boot: bootOf() };
}

/**
 * "dead" only on proof: an earlier boot of this host, a pid that is gone, or one that was given to a later process.
 * Another host, or another pid namespace of this one, cannot be looked into: "unknown".
 */
export function livenessOf(owner: ProcessIdentity, self: ProcessIdentity): OwnerLiveness {
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
