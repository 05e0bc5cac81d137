import type { JournalEntry } from "@holdfast/core/journal";
import { asRecord } from "@holdfast/core/json";
import type { Life, LoopLives } from "./kill-loop.ts";
import type { Look } from "./watch-loops.ts";

/**
 * One period in which a process holds a run's lease. The journal's time was taken before the commit, so the period
 * began then at the earliest, and at the latest when the process reported that it works. It ended, at the latest, when
 * the process had exited.
 */
interface Holding extends Life {
  readonly takenAt: number;
}

/** Every shown state that cannot have been true at any moment of the read. Empty: the registry was correct. */
export function judgeLooks(
  looks: readonly Look[],
  loop: LoopLives,
  entries: readonly JournalEntry[],
): readonly string[] {
  const holdings = holdingsOf(loop, entries);
  const doneAt = timeOf(entries, "run.ended") ?? Number.POSITIVE_INFINITY;
  const heardBefore = (moment: number) => loop.lives.some(({ heardAt }) => heardAt !== null && heardAt < moment);
  return looks.flatMap((look) => {
    const { from, to } = look;
    const shown = look.runs.find(({ id }) => id === loop.run);
    const wrong = (why: string): readonly string[] => [
      `${loop.run} at ${new Date(from).toISOString()} (${to - from} ms): ${shown?.status.kind ?? "not there"}, ${why}`,
    ];
    if (shown === undefined) return heardBefore(from) && doneAt > to + ROUNDED_MS ? wrong("but it was at work") : [];
    const { status } = shown;
    const holder = "holder" in status ? status.holder : null;
    const at = holdings.findLastIndex(({ pid, takenAt }) => pid === holder?.pid && takenAt <= to + ROUNDED_MS);
    const holding = holdings[at];
    switch (status.kind) {
      case "running":
      case "queued":
        if (status.kind === "running" && status.starting) return [];
        if (holding === undefined) return wrong(`but ${holder?.pid} never held it`);
        return holding.endedAt < from ? wrong(`but ${holding.pid} was gone`) : [];
      case "crashed": {
        if (holding === undefined || holding.killedAt === null) return wrong("but no process was killed");
        if (holding.killedAt > to) return wrong(`but ${holding.pid} was killed later`);
        const later = holdings.slice(at + 1).find(({ heardAt }) => heardAt !== null && heardAt < from);
        return later === undefined ? [] : wrong(`but ${later.pid} had taken it up`);
      }
      case "done":
        return doneAt > to + ROUNDED_MS ? wrong("but it was not done") : [];
      case "paused":
        if (status.started) return wrong("which no signal made it");
        return heardBefore(from) ? wrong("but it was at work") : [];
      default:
        return wrong("which no action caused");
    }
  });
}

/** Times in the journal are whole milliseconds. */
const ROUNDED_MS = 1;

function holdingsOf(loop: LoopLives, entries: readonly JournalEntry[]): readonly Holding[] {
  return entries.flatMap((entry) => {
    if (entry.kind !== "lease.taken") return [];
    const pid = Number(asRecord(entry.body["owner"])["pid"]);
    const life = loop.lives.find((one) => one.pid === pid);
    return life === undefined ? [] : [{ ...life, takenAt: Date.parse(entry.at) }];
  });
}

function timeOf(entries: readonly JournalEntry[], kind: string): number | undefined {
  const found = entries.find((entry) => entry.kind === kind);
  return found === undefined ? undefined : Date.parse(found.at);
}
