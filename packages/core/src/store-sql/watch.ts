// Streams entries as any process commits them.

import type { JournalEntry } from "../journal.ts";
import { type Driver, type ReadTransaction, type Row, allIn } from "./driver.ts";
import { findRun, journalPage } from "./read.ts";
import { integer, text } from "./schema.ts";

const PAGE = 256;
/** How many rows back an entry may appear that was not there at the last look, where commits have no order. */
const OVERLAP = 1000;
/** How late one that appears further back is found. */
const LOOK_AT_ALL_MS = 60_000;

/**
 * Entries as they are committed, by any process. Of each run in their order; between runs there is no order, since a database may number rows in
 * another order than it commits them. `started` settles when it is known where "now" is: writes of this handle wait for it.
 */
export function watchEntries(
  driver: Driver,
  query: {
    /** null: all runs. */
    readonly run: string | null;
    readonly after: number | null;
    readonly patient: boolean;
    readonly signal: AbortSignal;
    readonly isClosed: () => boolean;
    readonly check: (tx: ReadTransaction, run: string) => Promise<void>;
    readonly onCommit: (listener: () => void) => () => void;
  },
): { readonly entries: AsyncIterable<JournalEntry>; readonly started: Promise<unknown> } {
  const { signal } = query;
  const reached = new Map<number, number>();
  let isDue = true;
  let wake: () => void = () => {};
  const change = (): void => {
    isDue = true;
    wake();
  };
  /** Rows of `entries` up to this place are known. null: not yet. */
  let known: number | null = null;
  let lookedAtAll = Number.NEGATIVE_INFINITY;
  const started = driver.read(async (tx) => {
    if (query.run !== null) await query.check(tx, query.run);
    const { runs, place } = await look(tx);
    if (query.after !== null) return;
    for (const { number, entries } of runs) reached.set(number, entries);
    known = place;
  });
  // The error is thrown where the entries are read.
  started.catch(() => {});

  /** The runs that may have moved. A store may have very many runs, so those without new rows are not read. */
  async function look(tx: ReadTransaction): Promise<Look> {
    if (query.run !== null) {
      await findRun(tx, query.run);
      return { runs: watched(await tx.all(`${RUNS} WHERE id = ?`, [query.run])), place: 0, isWhole: true };
    }
    const now = performance.now();
    if (known === null || (!driver.ordersCommits && now - lookedAtAll > LOOK_AT_ALL_MS)) {
      lookedAtAll = now;
      const [newest] = await tx.all("SELECT coalesce(max(place), 0) AS place FROM entries");
      const place = integer(newest ?? {}, "place");
      return { runs: watched(await tx.all(`${RUNS} ORDER BY run`)), place, isWhole: true };
    }
    const rows = await tx.all("SELECT place, run, entry FROM entries WHERE place > ? ORDER BY place LIMIT ?", [
      known - (driver.ordersCommits ? 0 : OVERLAP),
      2 * OVERLAP,
    ]);
    const moved = rows.filter((row) => integer(row, "entry") > reachedOf(integer(row, "run")));
    const numbers = [...new Set(moved.map((row) => integer(row, "run")))];
    const runs = watched(await allIn(tx, `${RUNS} WHERE run IN (??)`, numbers));
    const place = rows.reduce((last, row) => Math.max(last, integer(row, "place")), known);
    return { runs, place, isWhole: rows.length < 2 * OVERLAP };
  }

  const reachedOf = (number: number): number => reached.get(number) ?? query.after ?? 0;

  /** The next page of one run that has moved. */
  async function nextPage(): Promise<readonly JournalEntry[]> {
    const { page, place, isWhole } = await driver.read(async (tx) => {
      const { runs, ...found } = await look(tx);
      const moved = runs.find(({ number, entries }) => entries > reachedOf(number));
      // Rows count as known when all of their runs have been read.
      if (moved === undefined) return { page: [], ...found };
      return { ...found, page: await journalPage(tx, moved, reachedOf(moved.number), PAGE), place: known };
    });
    isDue ||= !isWhole;
    known = place;
    return page;
  }

  const isOver = (): boolean => signal.aborted || query.isClosed();

  async function* follow(): AsyncGenerator<JournalEntry> {
    const ends = [query.onCommit(change), driver.onChange(change, query.patient)];
    signal.addEventListener("abort", change);
    try {
      await started;
      const numbers = new Map<string, number>();
      while (!isOver()) {
        isDue = false;
        const page = await nextPage();
        for (const entry of page) {
          if (isOver()) return;
          const number = numbers.get(entry.run) ?? (await numberOf(entry.run));
          numbers.set(entry.run, number);
          reached.set(number, entry.entry);
          yield entry;
        }
        if (page.length === 0 && !isDue) await new Promise<void>((resolve) => (wake = resolve));
      }
    } catch (error) {
      if (!query.isClosed()) throw driver.toError(error);
    } finally {
      signal.removeEventListener("abort", change);
      for (const end of ends) end();
    }
  }

  async function numberOf(run: string): Promise<number> {
    return driver.read(async (tx) => (await findRun(tx, run)).number);
  }

  return { entries: follow(), started };
}

const RUNS = "SELECT run, id, entries FROM runs";

interface Watched {
  readonly number: number;
  readonly id: string;
  readonly entries: number;
}

interface Look {
  readonly runs: readonly Watched[];
  /** The newest row of `entries` that was looked at. */
  readonly place: number;
  /** There are no newer ones. */
  readonly isWhole: boolean;
}

function watched(rows: readonly Row[]): readonly Watched[] {
  return rows.map((row) => ({ number: integer(row, "run"), id: text(row, "id"), entries: integer(row, "entries") }));
}
