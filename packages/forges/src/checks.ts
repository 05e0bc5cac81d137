import type { CheckRun, Checks } from "@holdfast/core/forge";
import { HoldfastError } from "@holdfast/platform/error";

/** One failure fails all, at once; nothing passes while something is pending; no runs at all is "none", which is no failure. */
export function combineChecks(runs: readonly CheckRun[]): Checks {
  if (runs.length === 0) return { state: "none", runs };
  if (runs.some(({ state }) => state === "failed")) return { state: "failed", runs };
  if (runs.some(({ state }) => state === "pending")) return { state: "pending", runs };
  return { state: "passed", runs };
}

export function requireCommit(commit: string): void {
  if (/^[0-9a-f]{40,64}$/.test(commit)) return;
  throw new HoldfastError({ code: "USAGE", message: `${commit} is not a commit`, hint: "Give its whole name." });
}

/** FORGE_FAILED, for now: what was pushed a moment ago may still be on its way. */
export function unknownCommit(forge: string, commit: string): HoldfastError {
  return new HoldfastError({
    code: "FORGE_FAILED",
    message: `${forge} does not know the commit ${commit} yet`,
    hint: "Push it first; right after a push it may take a moment.",
    retry: "later",
  });
}

/** Of how many checks that failed the log is read. */
export const MAX_FAILED_LOGS = 5;

/** What a job said last; null where that cannot be read: that its check failed is known without it. */
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

/** What a job printed, without the time before each line, the marks of groups and sections, and the colours. */
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
