import type { JournalEntry } from "../journal.ts";
import type { Driver, ReadTransaction } from "./driver.ts";
import { findRun, journalPage } from "./read.ts";
import { integer, text } from "./schema.ts";

const PAGE = 256;

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
  const started = driver.read(async (tx) => {
    if (query.run !== null) await query.check(tx, query.run);
    for (const { number, entries } of await heads(tx)) if (query.after === null) reached.set(number, entries);
  });
  // The error is thrown where the entries are read.
  started.catch(() => {});

  async function heads(tx: ReadTransaction): Promise<readonly Watched[]> {
    if (query.run !== null) await findRun(tx, query.run);
    const rows = await tx.all(
      `SELECT run, id, entries FROM runs ${query.run === null ? "" : "WHERE id = ? "}ORDER BY run`,
      query.run === null ? [] : [query.run],
    );
    return rows.map((row) => ({ number: integer(row, "run"), id: text(row, "id"), entries: integer(row, "entries") }));
  }

  /** The next page of one run that has moved. */
  async function nextPage(): Promise<readonly JournalEntry[]> {
    return driver.read(async (tx) => {
      for (const { number, id, entries } of await heads(tx)) {
        const from = reached.get(number) ?? query.after ?? 0;
        if (entries > from) return journalPage(tx, { number, id }, from, PAGE);
      }
      return [];
    });
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

interface Watched {
  readonly number: number;
  readonly id: string;
  readonly entries: number;
}
