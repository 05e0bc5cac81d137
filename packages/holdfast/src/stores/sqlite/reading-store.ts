import type { HoldfastError } from "@holdfast/platform/error";
import type { JournalEntry } from "@holdfast/core/journal";
import type { CutRun, Store, VerifyEvent, VerifyParams } from "@holdfast/core/store";

/** One opening of the files for reading. */
export interface Reading {
  readonly store: Store;
  /** Runs of which the database holds less than was written. */
  readonly cuts: readonly CutRun[];
  /** Were the files changed since they were opened without a lock? An answer from before may mix two states. */
  readonly moved: () => boolean;
  readonly cutError: (cut: CutRun) => HoldfastError;
}

/**
 * The port for callers that only read. Files at rest are read without a lock and without SQLite's helper files, so that nothing
 * in the directory changes. When a writer appears, the files are opened again under SQLite's locks and the call is repeated. A run
 * that was cut is refused (STORE_CUT) and left out of lists; the other runs stay readable.
 */
export async function createReadingStore(open: () => Promise<Reading>): Promise<Store> {
  let now = await open();
  const opened = [now];
  let reopening: Promise<Reading> | undefined;
  let closing: Promise<void> | undefined;
  const withheld = new Map<number, CutRun>();

  async function current(): Promise<Reading> {
    if (closing !== undefined || !now.moved()) return now;
    reopening ??= open().finally(() => (reopening = undefined));
    const next = await reopening;
    if (!opened.includes(next)) opened.push(next);
    now = next;
    return now;
  }

  async function answer<T>(work: (at: Reading) => Promise<T>): Promise<T> {
    for (;;) {
      const at = await current();
      try {
        const result = await work(at);
        if (closing !== undefined || !at.moved()) return result;
      } catch (error) {
        if (closing !== undefined || !at.moved()) throw error;
      }
    }
  }

  function refuseCut(at: Reading, run: string): void {
    const cut = at.cuts.find((one) => one.run === run);
    if (cut !== undefined) throw at.cutError(cut);
  }

  function ofRun<T>(run: string, work: (store: Store) => Promise<T>): Promise<T> {
    return answer(async (at) => {
      refuseCut(at, run);
      return await work(at.store);
    });
  }

  async function* readJournal(query: JournalQuery): AsyncGenerator<JournalEntry> {
    let { after = 0, limit: left = Number.POSITIVE_INFINITY } = query;
    while (left > 0) {
      const from = after;
      const page = await ofRun(query.run, async (store) => {
        const found: JournalEntry[] = [];
        const limit = Math.min(PAGE, left);
        for await (const entry of store.readJournal({ run: query.run, after: from, limit })) found.push(entry);
        return found;
      });
      yield* page;
      after = page.at(-1)?.entry ?? after;
      left -= page.length;
      if (page.length < PAGE) return;
    }
  }

  /** Where "now" is, is fixed by the first look; a writer that appears later is seen because the files are opened again. */
  async function* watch(query: WatchQuery): AsyncGenerator<JournalEntry> {
    const { run, signal } = query;
    const seen = new Map<string, number>();
    if (query.after === undefined)
      for (const { id, entries } of await answer(({ store }) => store.listRuns())) seen.set(id, entries);
    const isOver = (): boolean => signal.aborted || closing !== undefined;
    while (!isOver()) {
      const at = await current();
      if (run !== undefined) refuseCut(at, run);
      const moved = new AbortController();
      const timer = setInterval(() => (at.moved() ? moved.abort() : undefined), POLL_MS);
      const after = run === undefined ? (query.after ?? 0) : (seen.get(run) ?? query.after ?? 0);
      const until = AbortSignal.any([signal, moved.signal]);
      try {
        for await (const entry of at.store.watch({ ...(run === undefined ? {} : { run }), after, signal: until })) {
          if (entry.entry <= (seen.get(entry.run) ?? 0)) continue;
          seen.set(entry.run, entry.entry);
          yield entry;
        }
      } finally {
        clearInterval(timer);
      }
      if (!moved.signal.aborted) return;
    }
  }

  async function* verify(params: VerifyParams = {}): AsyncGenerator<VerifyEvent> {
    const at = await current();
    const events: VerifyEvent[] = [];
    for await (const event of at.store.verify(params)) {
      if (event.kind === "progress") yield event;
      else events.push(event);
      if (at.moved()) break;
    }
    // A writer came: what was found so far may be half of its work.
    if (at.moved()) yield* verify(params);
    else yield* events;
  }

  return {
    // Methods that write are refused by the database itself: it is open for reading.
    ...now.store,
    getRun: (id) =>
      ofRun(id, async (store) => {
        const found = await store.getRun(id);
        // A run that is gone altogether has left no name: it may be this one.
        const gone = found === undefined ? now.cuts.find(({ run }) => run === null) : undefined;
        if (gone !== undefined) throw now.cutError(gone);
        return found;
      }),
    listRuns: (query) =>
      answer(async ({ store, cuts }) => {
        const found = await store.listRuns(query);
        for (const cut of cuts) withheld.set(cut.number, cut);
        return cuts.length === 0 ? found : Object.freeze(found.filter(({ id }) => !cuts.some(({ run }) => run === id)));
      }),
    getLease: (run) => ofRun(run, (store) => store.getLease(run)),
    listLeases: () => answer(({ store }) => store.listLeases()),
    getCheckpoint: (ref) => ofRun(ref.run, (store) => store.getCheckpoint(ref)),
    latest: (run) => ofRun(run, (store) => store.latest(run)),
    listCheckpoints: (query) => ofRun(query.run, (store) => store.listCheckpoints(query)),
    readJournal,
    watch,
    listEffects: (run) => ofRun(run, (store) => store.listEffects(run)),
    listTombstones: (run) => ofRun(run, (store) => store.listTombstones(run)),
    verify,
    stats: () => answer(({ store }) => store.stats()),
    getMeta: (key) => answer(({ store }) => store.getMeta(key)),
    withheld: () => [...withheld.values()],
    close() {
      closing ??= Promise.all(opened.map(({ store }) => store.close())).then(() => undefined);
      return closing;
    },
  };
}

const PAGE = 256;
const POLL_MS = 50;
type JournalQuery = Parameters<Store["readJournal"]>[0];
type WatchQuery = Parameters<Store["watch"]>[0];
