import type { JournalEntry } from "../../src/core/journal.ts";
import { asRecord } from "../../src/core/record.ts";
import type { LoopLives } from "./kill-loop.ts";
import type { Look } from "./watch-loops.ts";

/** One holding of a run's lease, from the journal and from the one who killed. */
interface Holding {
  readonly pid: number;
  readonly from: number;
  /** When its process was dead, or had let go. */
  readonly to: number;
  /** When it was sent the signal; null: it let go by itself. */
  readonly killedAt: number | null;
}

/** Every state that was shown and cannot have been so at any moment of the look. Empty: the registry was true. */
export function judgeLooks(
  looks: readonly Look[],
  loop: LoopLives,
  entries: readonly JournalEntry[],
): readonly string[] {
  const holdings = holdingsOf(loop, entries);
  const createdAt = timeOf(entries, "run.created") ?? Number.POSITIVE_INFINITY;
  const endedAt = timeOf(entries, "run.ended") ?? Number.POSITIVE_INFINITY;
  const beganAt = timeOf(entries, "checkpoint") ?? Number.POSITIVE_INFINITY;
  return looks.flatMap((look) => {
    const { from, to } = look;
    const shown = look.loops.loops.find(({ run }) => run.id === loop.run);
    const wrong = (why: string): readonly string[] => [
      `${loop.run} at ${new Date(from).toISOString()} (${to - from} ms): ${shown?.standing.kind ?? "not there"}, ${why}`,
    ];
    if (shown === undefined) return createdAt + SLACK_MS < from ? wrong("but it had been made") : [];
    const { standing, holder } = shown;
    const holding = holdings.findLast(({ pid, from: since }) => pid === holder?.pid && since <= to + SLACK_MS);
    switch (standing.kind) {
      case "running":
      case "completing":
      case "queued":
        if (holding === undefined) return wrong(`but ${holder?.pid} never held it`);
        return holding.to + SLACK_MS < from ? wrong(`but ${holding.pid} was gone`) : [];
      case "crashed": {
        if (holding === undefined || holding.killedAt === null) return wrong("but nobody had been killed");
        if (holding.killedAt > to + SLACK_MS) return wrong(`but ${holding.pid} was killed later`);
        const next = holdings.find((other) => other.from > holding.from);
        return next !== undefined && next.from + SLACK_MS < from ? wrong(`but ${next.pid} had taken it up`) : [];
      }
      case "completed":
        return endedAt > to + SLACK_MS ? wrong("but it had not ended") : [];
      case "new":
        return beganAt + SLACK_MS < from ? wrong("but it had begun") : [];
      default:
        return wrong("which nobody made it");
    }
  });
}

/** Times in the journal are whole milliseconds, and taken before the commit. */
const SLACK_MS = 5;

function holdingsOf(loop: LoopLives, entries: readonly JournalEntry[]): readonly Holding[] {
  return entries.flatMap((entry) => {
    if (entry.kind !== "lease.taken") return [];
    const pid = Number(asRecord(entry.body["owner"])["pid"]);
    const life = loop.lives.find((one) => one.pid === pid);
    const released = entries.find(({ kind, epoch }) => kind === "lease.released" && epoch === entry.epoch);
    const ends = released === undefined ? (life?.endedAt ?? Number.POSITIVE_INFINITY) : Date.parse(released.at);
    const killedAt = released === undefined ? (life?.killedAt ?? null) : null;
    // Who let go is shown as holding until that is committed, a moment after its time.
    return [{ pid, from: Date.parse(entry.at), to: released === undefined ? ends : ends + COMMIT_MS, killedAt }];
  });
}

/** A commit waits for its turn and for the disk. */
const COMMIT_MS = 5000;

function timeOf(entries: readonly JournalEntry[], kind: string): number | undefined {
  const found = entries.find((entry) => entry.kind === kind);
  return found === undefined ? undefined : Date.parse(found.at);
}
