import { journalEntry, journalPage } from "./journal.ts";
import type { Handle } from "./handle.ts";
import type { JournalEntry } from "@holdfast/core/journal";
import type { RunRow } from "./runs.ts";

/** How soon a commit by another process is seen. Asking costs a few microseconds. */
const POLL_MS = 50;
const PAGE = 256;

/**
 * `run` absent: entries of all runs, in the order of commit. The place to start from is fixed in the call, not at the
 * first `next()`: nothing committed in between is missed.
 */
export function watch(
  handle: Handle,
  query: {
    readonly run: RunRow | null;
    readonly after: number | null;
    readonly signal: AbortSignal;
    readonly closed: () => boolean;
  },
): AsyncIterable<JournalEntry> {
  const { run, after, signal } = query;
  const { log, transactions } = handle;
  const ids = new Map<number, string>();
  const from = run === null ? null : (after ?? transactions.read(() => handle.places.lastEntry(run.no)?.number ?? 0));
  const start = after === null ? transactions.read(() => log.last()) : 0;

  function idOf(no: number): string {
    const known = ids.get(no) ?? handle.runs.byNumber(no)?.run.id ?? "";
    ids.set(no, known);
    return known;
  }

  function ofRun(row: RunRow, reached: number): readonly JournalEntry[] {
    return transactions.read(() => journalPage(handle, { no: row.no, id: row.run.id }, reached, PAGE));
  }

  async function* entriesOfRun(row: RunRow, first: number): AsyncGenerator<JournalEntry> {
    let reached = first;
    while (!signal.aborted && !query.closed()) {
      const page = ofRun(row, reached);
      for (const entry of page) {
        if (signal.aborted) return;
        reached = entry.entry;
        yield entry;
      }
      if (page.length === 0) await nextChange(handle, signal);
    }
  }

  async function* entriesOfAll(): AsyncGenerator<JournalEntry> {
    let reached = start;
    while (!signal.aborted && !query.closed()) {
      const rows = transactions.read(() =>
        log.from(reached, PAGE).map((row) => ({ pos: row.pos, entry: journalEntry(handle, idOf(row.run), row) })),
      );
      for (const { pos, entry } of rows) {
        if (signal.aborted) return;
        reached = pos;
        if (entry.entry > (after ?? 0)) yield entry;
      }
      if (rows.length === 0) await nextChange(handle, signal);
    }
  }

  return run === null || from === null ? entriesOfAll() : entriesOfRun(run, from);
}

/** A commit of this handle, or time to ask what others did. */
function nextChange(handle: Handle, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, POLL_MS);
    function done(): void {
      clearTimeout(timer);
      handle.listeners.delete(done);
      signal.removeEventListener("abort", done);
      resolve();
    }
    handle.listeners.add(done);
    signal.addEventListener("abort", done, { once: true });
    if (signal.aborted) done();
  });
}
