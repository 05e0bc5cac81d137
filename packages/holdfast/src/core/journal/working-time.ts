import type { JournalEntry } from "./journal.ts";
import { isJsonObject } from "../json.ts";

type TimedEntry = Pick<JournalEntry, "kind" | "at" | "epoch" | "body">;

/**
 * Milliseconds that runs were worked on, as the journal tells: from entry to entry under one lease, and up to the last sign of life of a holder
 * that died. Nobody's time (parked, stopped) is not counted. A clock that was set back counts as nothing, never as less.
 */
export function workingTime(entries: readonly TimedEntry[]): number {
  let total = 0;
  let last: { readonly epoch: number; readonly at: number } | null = null;
  for (const entry of entries) {
    // Tags and drops need no lease and are nobody's work.
    if (entry.epoch === 0) continue;
    const at = Date.parse(entry.at);
    const seen: number | null = entry.kind === "lease.taken" ? lastSeen(entry, last?.epoch) : at;
    const goesOn = last !== null && (entry.kind === "lease.taken" || entry.epoch === last.epoch);
    if (goesOn && last !== null && seen !== null) total += Math.max(0, seen - last.at);
    last = { epoch: entry.epoch, at };
  }
  return total;
}

/** When the holder before was last heard of; null: it let go by itself, or it is not the one whose entries came before. */
function lastSeen({ body }: TimedEntry, epoch: number | undefined): number | null {
  const { from } = body;
  if (!isJsonObject(from) || from["epoch"] !== epoch) return null;
  const seen = Date.parse(String(from["heartbeatAt"]));
  return Number.isFinite(seen) ? seen : null;
}
