import type { Checks, CheckRun } from "../ports/forge.ts";

/** One failure fails all, at once; nothing passes while something is pending; no runs at all is "none", which is no failure. */
export function checksOf(runs: readonly CheckRun[]): Checks {
  if (runs.length === 0) return { state: "none", runs };
  if (runs.some(({ state }) => state === "failed")) return { state: "failed", runs };
  if (runs.some(({ state }) => state === "pending")) return { state: "pending", runs };
  return { state: "passed", runs };
}
