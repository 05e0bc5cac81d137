import type { DatabaseSync } from "node:sqlite";
import { LAST_POSITION } from "./chunk-id.ts";
import { integer } from "../columns.ts";
import { type Placed, createExtents } from "./extents.ts";
import type { Log } from "../log.ts";
import { HoldfastError } from "@holdfast/platform/error";

/** Where in the log a run's entries and checkpoints stand. */
export interface Places {
  /**
   * Call first in every transaction: takes in what other connections wrote. True when they wrote anything at all, so
   * that whatever else is remembered can be looked at again.
   */
  refresh(): boolean;
  /** Position for the next row. */
  next(): number;
  /** Takes in a row written by this connection; `sequence` of a checkpoint. */
  note(pos: number, run: number, entry: number, sequence: number | null): void;
  /** Whether this connection has written any row. */
  hasWritten(): boolean;
  entry(run: number, entry: number): number | undefined;
  lastEntry(run: number): Placed | undefined;
  mark(run: number, sequence: number): number | undefined;
  /** Checkpoints that are there, newest first, below `before`. */
  marksDown(run: number, before?: number): Iterable<Placed>;
  /** Only in a write transaction. */
  unmark(run: number, sequences: readonly number[]): void;
  /** Something is to be written down, or nothing is known until `refresh`: nobody may presume where an entry goes. */
  isDue(): boolean;
  /** Writes down what is only remembered, if there is enough of it, or `now`. Only in a write transaction. */
  index(when: "due" | "now"): void;
  /** After a rollback, what was noted is not so. */
  forget(): void;
}

/** Rows that may stand unindexed. Each handle holds as many in memory and reads as many when it opens. */
const INDEX_EVERY = 4096;

/** The unindexed rows of one run. Entries and sequences run without gaps, so a first number and positions say all. */
interface RunTail {
  firstEntry: number;
  readonly entries: number[];
  firstSequence: number;
  readonly marks: number[];
}

export function createPlaces(db: DatabaseSync, log: Log): Places {
  const version = db.prepare("PRAGMA data_version");
  const indexedTo = db.prepare("SELECT value FROM meta WHERE key = 'indexed'");
  const setIndexed = db.prepare("UPDATE meta SET value = ? WHERE key = 'indexed'");
  const places = createExtents(db, "places");
  const marks = createExtents(db, "marks");
  const tails = new Map<number, RunTail>();
  let seenVersion: unknown;
  let wrote = false;
  let indexed = 0;
  let last = 0;

  function note(pos: number, run: number, entry: number, sequence: number | null): void {
    last = pos;
    let tail = tails.get(run);
    if (tail === undefined) {
      tail = { firstEntry: entry, entries: [], firstSequence: 0, marks: [] };
      tails.set(run, tail);
    }
    tail.entries.push(pos);
    if (sequence === null) return;
    if (tail.marks.length === 0) tail.firstSequence = sequence;
    tail.marks.push(pos);
  }

  function index(when: "due" | "now"): void {
    if (last === indexed || (when === "due" && last - indexed < INDEX_EVERY)) return;
    for (const [run, tail] of tails) {
      places.add(run, tail.firstEntry, tail.entries);
      if (tail.marks.length > 0) marks.add(run, tail.firstSequence, tail.marks);
    }
    setIndexed.run(last);
    indexed = last;
    tails.clear();
  }

  return {
    refresh() {
      const current = version.get()?.["data_version"];
      if (current === seenVersion) return false;
      seenVersion = current;
      places.forget();
      marks.forget();
      const nowIndexed = integer(indexedTo.get() ?? {}, "value");
      if (nowIndexed !== indexed) {
        tails.clear();
        indexed = nowIndexed;
        last = nowIndexed;
      }
      for (const { pos, run, entry, sequence } of log.placesFrom(last)) note(pos, run, entry, sequence);
      return true;
    },
    next() {
      if (last < LAST_POSITION) return last + 1;
      throw new HoldfastError({
        code: "UNSUPPORTED",
        message: `A store holds at most ${LAST_POSITION} entries`,
        hint: "Begin another store.",
      });
    },
    note(pos, run, entry, sequence) {
      wrote = true;
      note(pos, run, entry, sequence);
    },
    hasWritten: () => wrote,
    entry(run, entry) {
      const tail = tails.get(run);
      if (tail !== undefined && entry >= tail.firstEntry) return tail.entries[entry - tail.firstEntry];
      return places.find(run, entry);
    },
    lastEntry(run) {
      const tail = tails.get(run);
      const pos = tail?.entries.at(-1);
      if (tail !== undefined && pos !== undefined) return { number: tail.firstEntry + tail.entries.length - 1, pos };
      return places.last(run);
    },
    mark(run, sequence) {
      const tail = tails.get(run);
      if (tail !== undefined && tail.marks.length > 0 && sequence >= tail.firstSequence) {
        return tail.marks[sequence - tail.firstSequence];
      }
      return marks.find(run, sequence);
    },
    *marksDown(run, before = Number.MAX_SAFE_INTEGER) {
      const tail = tails.get(run);
      let below = before;
      if (tail !== undefined && tail.marks.length > 0) {
        const { firstSequence } = tail;
        for (let i = Math.min(tail.marks.length, before - firstSequence) - 1; i >= 0; i--) {
          const pos = tail.marks[i];
          if (pos !== undefined) yield { number: firstSequence + i, pos };
        }
        below = Math.min(before, firstSequence);
      }
      yield* marks.down(run, below);
    },
    unmark(run, sequences) {
      // Marks of rows not yet indexed are only in memory, here and in other handles: bring them all to the table first.
      index("now");
      marks.remove(run, sequences);
    },
    isDue: () => seenVersion === undefined || last - indexed >= INDEX_EVERY,
    index,
    forget() {
      tails.clear();
      places.forget();
      marks.forget();
      seenVersion = undefined;
      indexed = 0;
      last = 0;
    },
  };
}
