/**
 * Who continues a run that waits: a process with `--wait`, the worker, or for a submitted run the workers of its queue, on any machine. Without
 * them, only the user does. The first two are found by locks that the operating system releases when their process dies.
 */
import { isAbsolute, join } from "node:path";
import { sha256 } from "@holdfast/core/json";
import type { RunWithStatus } from "@holdfast/core/run-statuses";
import { makeDurableDirectory } from "@holdfast/platform/files";
import { type ProcessLock, holdProcessLock, readProcessLock, sweepProcessLocks } from "@holdfast/platform/process-lock";
import { endsByItself } from "./worker/plan-work.ts";
import { openWorkerState } from "./worker/worker-state.ts";

export type Continuer = "process" | "worker";

/**
 * Shows that this process waits to continue the run: a lock in `waiting/` of the store's directory. null: the lock cannot be held here, or
 * another process waits already.
 */
export function announceWait(store: string, run: string): ProcessLock | null {
  // A store on a server has no directory.
  if (!isAbsolute(store)) return null;
  const directory = join(store, DIRECTORY);
  try {
    makeDurableDirectory(directory);
    sweepProcessLocks(directory, [lockName(run)]);
    return holdProcessLock(directory, lockName(run));
  } catch {
    // The lock only informs, and a store that cannot be written is reported by what writes to it.
    return null;
  }
}

const DIRECTORY = "waiting";

function lockName(run: string): string {
  return sha256(run).slice(0, 32);
}

/** Who continues a run with this status; null: only the user does, or it does not wait. Changes nothing. */
export function continuerOf(
  place: {
    readonly store: string;
    /** The main worktree. */
    readonly root: string | null;
    readonly env: Readonly<Record<string, string | undefined>>;
  },
  { run: { id: run }, status, submitted }: Pick<RunWithStatus, "run" | "status" | "submitted">,
): Continuer | null {
  if (status.kind !== "waiting") return null;
  const isWaitedFor =
    isAbsolute(place.store) && readProcessLock(join(place.store, DIRECTORY), lockName(run)) === "held";
  if (isWaitedFor) return "process";
  return endsByItself(status) && (submitted || isLookedAfter(place)) ? "worker" : null;
}

function isLookedAfter({ store, root, env }: Parameters<typeof continuerOf>[0]): boolean {
  const worker = openWorkerState(env);
  if (!worker.repositories().some((one) => one.root === root || one.store === store)) return false;
  return worker.worker("own") !== null;
}
