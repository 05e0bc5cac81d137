// The contract of stores: cases that every store must pass, on node:assert alone.

import assert from "node:assert/strict";
import type { Store, VerifyEvent } from "@holdfast/core/store";
import { rejectsWith } from "./refuses.ts";
import { checkpointCases, effectCases, tagAndDropCases } from "./store-contract/checkpoints.ts";
import { commitCases, journalCases, watchCases } from "./store-contract/commits.ts";
import { type StoreCase, assertFrozen, collect, leasedRun, save } from "./store-contract/harness.ts";
import { leaseCases, runCases } from "./store-contract/runs-and-leases.ts";
import { samplePause, signalCases } from "./store-contract/signals.ts";
import { transferCases } from "./store-contract/transfer.ts";

async function assertHealthy(store: Store, run?: string): Promise<Extract<VerifyEvent, { kind: "summary" }>> {
  const events = await collect(store.verify(run === undefined ? {} : { run }));
  assert.deepEqual(
    events.filter((event) => event.kind === "problem"),
    [],
  );
  const last = events.at(-1);
  assert.ok(last?.kind === "summary" && last.ok);
  return last;
}

/** Fills a store with checkpoints, an effect, a tag, tombstones, a meta value and a second run. */
async function populate(store: Store): Promise<void> {
  const lease = await leasedRun(store);
  const messages: string[] = [];
  for (let n = 1; n <= 8; n++) {
    for (let i = 0; i < 200; i++) messages.push(`message ${n * 1000 + i} ${"word ".repeat((n * i) % 30)}`);
    await save(store, lease, { values: { messages, n } });
  }
  const intent = { key: "k", kind: "push", target: "t", payload: "a".repeat(64), detail: {} };
  await store.commit({
    lease,
    entries: [
      { kind: "effect.intended", body: intent },
      { kind: "run.waiting", body: { for: "ci", reason: "r", until: null } },
    ],
  });
  await store.tag({ run: "sample", sequence: 2, name: "t" });
  await store.drop({
    run: "sample",
    drops: [
      { sequence: 1, why: "x" },
      { sequence: 5, why: "y" },
    ],
  });
  await store.setMeta("fact", "value");
  await store.putSignal(samplePause);
  await leasedRun(store, "other");
}

const upkeepCases: readonly StoreCase[] = [
  {
    name: "a tag that is taken from other runs is theirs or this run's, never both",
    async run({ open }) {
      const store = await open();
      for (const run of ["a", "b", "c"]) await save(store, await leasedRun(store, run));
      const tagsOf = async (run: string) => (await store.listCheckpoints({ run })).map(({ tags }) => tags);
      const put = (run: string) =>
        store.tag({ run, sequence: 1, name: "best", move: true, from: ["a", "b", "b", "c"] });
      await put("a");
      await put("b");
      await put("b");
      assert.deepEqual([await tagsOf("a"), await tagsOf("b"), await tagsOf("c")], [[[]], [["best"]], [[]]]);
      const kinds = async (run: string) =>
        (await collect(store.readJournal({ run }))).map(({ kind }) => kind).filter((kind) => kind.startsWith("tag."));
      assert.deepEqual([await kinds("a"), await kinds("b")], [["tag.added", "tag.removed"], ["tag.added"]]);
      await rejectsWith("CHECKPOINT_NOT_FOUND", () =>
        store.tag({ run: "a", sequence: 9, name: "best", move: true, from: ["b"] }),
      );
      await rejectsWith("RUN_NOT_FOUND", () => store.tag({ run: "a", sequence: 1, name: "best", from: ["b", "gone"] }));
      assert.deepEqual([await tagsOf("a"), await tagsOf("b")], [[[]], [["best"]]]);
    },
  },
  {
    name: "a healthy store verifies, whole or one run, and the summary counts",
    async run({ open }) {
      const store = await open();
      assert.deepEqual(
        { ...(await assertHealthy(store)) },
        { kind: "summary", ok: true, runs: 0, entries: 0, checkpoints: 0, chunks: 0, problems: 0 },
      );
      await populate(store);
      const summary = await assertHealthy(await open());
      assert.deepEqual([summary.runs, summary.entries, summary.checkpoints], [2, 16, 6]);
      assert.equal((await assertHealthy(store, "other")).runs, 1);
      const journal = (await collect(store.verify({ run: "sample", scope: "journal" }))).at(-1);
      assert.ok(journal?.kind === "summary" && journal.ok);
      assert.deepEqual([journal.runs, journal.entries], [1, 14]);
      await rejectsWith("RUN_NOT_FOUND", () => collect(store.verify({ run: "gone" })));
      await rejectsWith("INTERRUPTED", () => collect(store.verify({ signal: AbortSignal.abort() })));
    },
  },
  {
    name: "a sweep removes nothing that a checkpoint needs, and a dry run removes nothing",
    async run({ open }) {
      const [store, other] = [await open(), await open()];
      await populate(store);
      const kept = await Promise.all(
        [2, 3, 4, 6, 7, 8].map((sequence) => store.getCheckpoint({ run: "sample", sequence })),
      );
      const dry = await other.sweep({ dryRun: true });
      const report = await other.sweep();
      assert.deepEqual(report, dry);
      for (const handle of [store, other, await open()]) {
        for (const before of kept) {
          assert.deepEqual(await handle.getCheckpoint({ run: "sample", sequence: before.sequence }), before);
        }
        await assertHealthy(handle);
      }
      const again = await other.sweep();
      assert.deepEqual(again, { chunks: 0, freedBytes: 0 });
    },
  },
  {
    name: "a save right after a sweep by another handle does not refer to swept data",
    async run({ open }) {
      const [store, other] = [await open(), await open()];
      const lease = await leasedRun(store);
      const long = Array.from({ length: 500 }, (_, i) => `line ${i} of a text that is kept, dropped and kept again`);
      await save(store, lease, { values: { long } });
      await save(store, lease, { values: {} });
      await other.drop({ run: "sample", drops: [{ sequence: 1, why: "gone" }] });
      await other.sweep();
      await save(store, lease, { values: { long } });
      assert.deepEqual((await (await open()).latest("sample"))?.planes.context.values["long"], long);
      await assertHealthy(store);
    },
  },
  {
    name: "quarantined checkpoints are kept and skipped, and this is reported once",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      for (let n = 1; n <= 3; n++) await save(store, lease, { values: { n } });
      await store.quarantine({ run: "sample", sequences: [3, 2], reason: "damaged" });
      await store.quarantine({ run: "sample", sequences: [3], reason: "again" });
      for (const handle of [store, await open()]) {
        assert.equal((await handle.latest("sample"))?.sequence, 1);
        assert.equal((await handle.getRun("sample"))?.latest?.sequence, 1);
        assert.equal((await handle.getRun("sample"))?.checkpoints, 3);
        const third = await handle.getCheckpoint({ run: "sample", sequence: 3 });
        assert.deepEqual([third.sequence, third.quarantined], [3, true]);
        assert.equal((await handle.latest("sample"))?.quarantined, false);
        const listed = await handle.listCheckpoints({ run: "sample" });
        assert.deepEqual(
          listed.map(({ sequence, quarantined }) => [sequence, quarantined]),
          [
            [3, true],
            [2, true],
            [1, false],
          ],
        );
        assertFrozen(listed);
        const entries = (await collect(handle.readJournal({ run: "sample" }))).filter(
          ({ kind }) => kind === "checkpoint.quarantined",
        );
        assert.deepEqual(
          entries.map(({ body }) => body),
          [{ reason: "damaged", sequences: [3, 2] }],
        );
      }
      const { checkpoint } = await save(store, lease, { values: { n: 4 } });
      assert.equal(checkpoint?.parent?.id, "sample@3");
      assert.equal((await store.latest("sample"))?.sequence, 4);
      await rejectsWith("CHECKPOINT_NOT_FOUND", () => store.quarantine({ run: "sample", sequences: [9], reason: "x" }));
      await store.quarantine({ run: "sample", sequences: [1, 4], reason: "all" });
      assert.equal(await store.latest("sample"), undefined);
      await assertHealthy(store);
    },
  },
  {
    name: "metadata of the store is kept, and the last write wins",
    async run({ open }) {
      const [store, other] = [await open(), await open()];
      assert.equal(await store.getMeta("gc"), undefined);
      await store.setMeta("gc", "one");
      await other.setMeta("gc", "two");
      await other.setMeta("", "");
      assert.equal(await store.getMeta("gc"), "two");
      assert.equal(await store.getMeta(""), "");
    },
  },
  {
    name: "stats count runs, entries and checkpoints",
    async run({ open }) {
      const store = await open();
      await populate(store);
      const { runs, entries, checkpoints, bytes, schema, engine, durability } = await store.stats();
      assert.deepEqual([runs, entries, checkpoints], [2, 16, 6]);
      assert.ok(bytes > 0 && schema > 0 && engine !== "" && durability !== "");
    },
  },
  {
    name: "closing completes pending calls; a second close is not an error; every other call is refused",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      const pending = Array.from({ length: 10 }, (_, n) => save(store, lease, { values: { n } }));
      const closed = store.close();
      await Promise.all([...pending, closed, store.close()]);
      const calls: readonly (() => Promise<unknown>)[] = [
        () => store.createRun({ id: "x", workflow: "w", work: { kind: "none" } }),
        () => store.getRun("sample"),
        () => store.listRuns(),
        () => store.takeLease({ run: "sample", label: "x" }),
        () => store.renewLease(lease),
        () => store.releaseLease(lease),
        () => store.getLease("sample"),
        () => save(store, lease),
        () => store.getCheckpoint({ run: "sample", sequence: 1 }),
        () => store.latest("sample"),
        () => store.listCheckpoints({ run: "sample" }),
        () => collect(store.readJournal({ run: "sample" })),
        () => store.listEffects("sample"),
        () => store.putSignal(samplePause),
        () => store.listSignals(),
        () => store.listSignals("sample"),
        () => store.moveSignal({ run: "sample", id: "a", from: "pending", to: null }),
        () => store.tag({ run: "sample", sequence: 1, name: "t" }),
        () => store.untag({ run: "sample", name: "t" }),
        () => store.drop({ run: "sample", drops: [] }),
        () => store.listTombstones("sample"),
        () => store.sweep(),
        () => collect(store.verify()),
        () => store.quarantine({ run: "sample", sequences: [1], reason: "x" }),
        () => store.stats(),
        () => store.getMeta("k"),
        () => store.setMeta("k", "v"),
        async () => collect(store.watch({ run: "sample", signal: AbortSignal.abort() })),
      ];
      for (const call of calls) await rejectsWith("USAGE", call);
      const other = await open();
      assert.equal((await other.getRun("sample"))?.checkpoints, 10);
    },
  },
];

export { createSetClock } from "./store-contract/harness.ts";
export type { OwnerIdentity, SetClock, StoreCase, StoreHarness } from "./store-contract/harness.ts";

/** Every promise of the store contract, one case each, on node:assert alone, for any test runner and any store. */
export const storeContract: readonly StoreCase[] = [
  ...runCases,
  ...leaseCases,
  ...commitCases,
  ...checkpointCases,
  ...journalCases,
  ...watchCases,
  ...effectCases,
  ...tagAndDropCases,
  ...signalCases,
  ...transferCases,
  ...upkeepCases,
];
