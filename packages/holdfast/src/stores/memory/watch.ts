import type { MemoryRun, MemoryWorld } from "./world.ts";
import type { JournalEntry } from "../../core/journal/journal.ts";

/** The place to start from is fixed in the call: nothing committed before the first `next()` is missed. */
export function watchWorld(
  world: MemoryWorld,
  query: {
    readonly run: MemoryRun | null;
    readonly after: number | null;
    readonly signal: AbortSignal;
    readonly closed: () => boolean;
  },
): AsyncIterable<JournalEntry> {
  const { run, signal } = query;
  const entries = run === null ? world.log : run.entries;
  const after = query.after ?? 0;
  let next = query.after === null ? entries.length : run === null ? 0 : after;

  async function* follow(): AsyncGenerator<JournalEntry> {
    while (!signal.aborted && !query.closed()) {
      const entry = entries[next];
      if (entry === undefined) {
        await change(world, signal);
        continue;
      }
      next += 1;
      if (entry.entry > after || query.after === null) yield entry;
    }
  }
  return follow();
}

function change(world: MemoryWorld, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    function done(): void {
      world.listeners.delete(done);
      signal.removeEventListener("abort", done);
      resolve();
    }
    world.listeners.add(done);
    signal.addEventListener("abort", done, { once: true });
    if (signal.aborted) done();
  });
}
