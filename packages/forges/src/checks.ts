// Combines the checks of a commit into one state and reads the logs of failed ones.

import type { CheckRun, Checks } from "@holdfast/core/forge";
import { HoldfastError, usageError } from "@holdfast/platform/error";

/**
 * One failure fails the whole set immediately. Nothing passes while a check is pending. Without any runs the state is
 * "none", which is not a failure.
 */
export function combineChecks(runs: readonly CheckRun[]): Checks {
  if (runs.length === 0) return { state: "none", runs };
  if (runs.some(({ state }) => state === "failed")) return { state: "failed", runs };
  if (runs.some(({ state }) => state === "pending")) return { state: "pending", runs };
  return { state: "passed", runs };
}

export function requireCommit(commit: string): void {
  if (/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/.test(commit)) return;
  throw usageError(`${JSON.stringify(commit)} is not a commit id`, "Give the whole id, as `git rev-parse` prints it.");
}

/** FORGE_FAILED with retry "later": the forge may not have processed a recent push yet. */
export function unknownCommit(forge: string, commit: string): HoldfastError {
  return new HoldfastError({
    code: "FORGE_FAILED",
    message: `${forge} does not know the commit ${commit} yet`,
    hint: "Push it first; right after a push it may take a moment.",
    retry: "later",
  });
}

/** The number of failed checks whose log is read. */
export const MAX_FAILED_LOGS = 5;

/** The end of a job's log; null if it cannot be read, because the failure is known without it. */
export async function logTail(read: () => Promise<string | null>): Promise<string | null> {
  try {
    const log = await read();
    return log === null ? null : plainLog(log).slice(-LOG_TAIL);
  } catch (error) {
    if (error instanceof HoldfastError) return null;
    throw error;
  }
}

const LOG_TAIL = 4000;

/** Removes timestamps, group and section markers, and colours from a job's log. */
function plainLog(log: string): string {
  return (
    log
      .replaceAll(/^\uFEFF?\d{4}-\d\d-\d\dT[\d:.]+Z /gm, "")
      .replaceAll(/^##\[(?:group|endgroup)\]/gm, "")
      .replaceAll(/section_(?:start|end):\d+:[^\r\n]*\r?/g, "")
      // oxlint-disable-next-line no-control-regex
      .replaceAll(/\u001B\[[\d;]*[A-Za-z]/g, "")
      .trimEnd()
  );
}
