import assert from "node:assert/strict";
import type { StoreCase } from "./harness.ts";
import { leasedRun, save } from "./sample.ts";
import type { JournalEntry } from "../../core/journal/journal.ts";

async function take(entries: AsyncIterable<JournalEntry>, count: number, abort: AbortController): Promise<string[]> {
  const found: string[] = [];
  for await (const { run, entry, kind } of entries) {
    found.push(`${run}:${entry}:${kind}`);
    if (found.length === count) abort.abort();
  }
  return found;
}

export const watchCases: readonly StoreCase[] = [
  {
    name: "a watch of one run sees what any handle commits from now on, then ends with its signal",
    async run({ open }) {
      const [store, other] = [await open(), await open()];
      const lease = await leasedRun(store);
      await leasedRun(store, "noise");
      const here = new AbortController();
      const there = new AbortController();
      const watches = [
        take(store.watch({ run: "sample", signal: here.signal }), 2, here),
        take(other.watch({ run: "sample", signal: there.signal }), 2, there),
      ];
      await save(store, lease);
      await other.tag({ run: "sample", sequence: 1, name: "t" });
      for (const seen of await Promise.all(watches))
        assert.deepEqual(seen, ["sample:3:checkpoint", "sample:4:tag.added"]);
    },
  },
  {
    name: "a watch begins where it is told, and nothing between the call and the first look is missed",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      const abort = new AbortController();
      const fromStart = store.watch({ run: "sample", after: 0, signal: abort.signal });
      const fromNow = store.watch({ run: "sample", signal: abort.signal });
      await save(store, lease);
      const first: string[] = [];
      for await (const { entry, kind } of fromStart) {
        first.push(`${entry}:${kind}`);
        if (first.length === 3) break;
      }
      assert.deepEqual(first, ["1:run.created", "2:lease.taken", "3:checkpoint"]);
      for await (const { entry } of fromNow) {
        assert.equal(entry, 3);
        break;
      }
    },
  },
  {
    name: "a watch of all runs sees the entries of every run, each run in its own order",
    async run({ open }) {
      const store = await open();
      const abort = new AbortController();
      const seen = take(store.watch({ signal: abort.signal }), 5, abort);
      const lease = await leasedRun(store, "a");
      await leasedRun(store, "b");
      await save(store, lease);
      // A stable sort by run keeps the order within each.
      const byRun = (lines: readonly string[]): readonly string[] =>
        lines.toSorted((one, other) => one.charCodeAt(0) - other.charCodeAt(0));
      assert.deepEqual(byRun(await seen), [
        "a:1:run.created",
        "a:2:lease.taken",
        "a:3:checkpoint",
        "b:1:run.created",
        "b:2:lease.taken",
      ]);
      const again = new AbortController();
      const later = (await take(store.watch({ after: 1, signal: again.signal }), 3, again)).slice(0, 3);
      assert.deepEqual(byRun(later), ["a:2:lease.taken", "a:3:checkpoint", "b:2:lease.taken"]);
    },
  },
  {
    name: "a watch whose signal is aborted already, or whose store is closed, ends",
    async run({ open }) {
      const store = await open();
      await leasedRun(store);
      for await (const entry of store.watch({ run: "sample", after: 0, signal: AbortSignal.abort() }))
        assert.fail(entry.kind);
      const abort = new AbortController();
      const ended = take(store.watch({ run: "sample", signal: abort.signal }), 99, abort);
      await store.close();
      assert.deepEqual(
        (await ended).filter((line) => !line.endsWith("lease.released")),
        [],
      );
    },
  },
];
