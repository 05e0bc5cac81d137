// A whole run out of one store and into another: everything stays equal, and a changed record is refused.

import assert from "node:assert/strict";
import { openMemoryStore } from "@holdfast/core/store-memory";
import type { Store, StoredEntry, StoredRun } from "@holdfast/core/store";
import { rejectsWith } from "../refuses.ts";
import { type StoreCase, collect, leasedRun, samplePlanes, save } from "./harness.ts";

/** A run whose holder still has the lease: checkpoints that share chunks, an effect, tags, a tombstone, a quarantine, a long body. */
async function fill(store: Store): Promise<void> {
  const lease = await leasedRun(store);
  const messages: string[] = [];
  for (let n = 1; n <= 6; n++) {
    for (let i = 0; i < 80; i++) messages.push(`message ${n * 1000 + i} ${"word ".repeat((n * i) % 30)}`);
    await save(store, lease, { values: { messages, $n: n } });
  }
  const intent = { key: "k", kind: "push", target: "t", payload: "a".repeat(64), detail: { text: "x".repeat(9000) } };
  await store.commit({
    lease,
    entries: [
      { kind: "effect.intended", body: intent },
      { kind: "run.waiting", body: { for: "ci", reason: "r", until: null } },
    ],
  });
  await store.tag({ run: "sample", sequence: 2, name: "t" });
  await store.drop({ run: "sample", drops: [{ sequence: 1, why: "x" }] });
  await store.quarantine({ run: "sample", sequences: [3], reason: "y" });
}

async function everything(store: Store): Promise<unknown> {
  const run = "sample";
  const checkpoints = await store.listCheckpoints({ run });
  return {
    journal: await collect(store.readJournal({ run })),
    checkpoints: await Promise.all(checkpoints.map(({ sequence }) => store.getCheckpoint({ run, sequence }))),
    tombstones: await store.listTombstones(run),
    effects: await store.listEffects(run),
    run: await store.getRun(run),
  };
}

async function assertHealthy(store: Store): Promise<void> {
  const problems = (await collect(store.verify())).filter((event) => event.kind === "problem");
  assert.deepEqual(problems, []);
}

const THEN = {
  entries: [{ kind: "x.imported", body: { from: "elsewhere" } }] as const,
  checkpoint: { trigger: "import", planes: samplePlanes({ values: { here: true } }) } as const,
};

export const transferCases: readonly StoreCase[] = [
  {
    name: "a run that is exported and imported is the same run, and the commit that follows is part of it",
    async run({ open }) {
      const store = await open();
      await fill(store);
      const stored = await store.exportRun("sample");
      await using other = disposable(openMemoryStore());
      assert.equal(await other.store.importRun({ stored, label: "test", first: null }), "imported");
      assert.deepEqual(await everything(other.store), await everything(store));
      assert.deepEqual(await other.store.exportRun("sample"), stored);
      await using third = disposable(openMemoryStore());
      assert.equal(await third.store.importRun({ stored, label: "test", first: THEN }), "imported");
      await assertHealthy(third.store);
      assert.equal(await third.store.getLease("sample"), undefined);
      assert.deepEqual((await third.store.latest("sample"))?.planes.context.values, { here: true });
      assert.equal(await third.store.importRun({ stored, label: "test", first: THEN }), "same");
      const before = await everything(third.store);
      assert.deepEqual(await everything(third.store), before);
    },
  },
  {
    name: "an import works beside other runs, and refuses another run of that id and a shorter copy of it",
    async run({ open }) {
      await using source = disposable(openMemoryStore());
      await fill(source.store);
      const stored = await source.store.exportRun("sample");
      const store = await open();
      await save(store, await leasedRun(store, "before"));
      assert.equal(await store.importRun({ stored, label: "test", first: THEN }), "imported");
      await assertHealthy(store);
      await source.store.tag({ run: "sample", sequence: 4, name: "later" });
      const longer = await source.store.exportRun("sample");
      await rejectsWith("RUN_EXISTS", () => store.importRun({ stored: longer, label: "test", first: THEN }));
      const lease = await store.takeLease({ run: "sample", label: "here" });
      await save(store, lease, { values: { on: 1 } });
      assert.equal(await store.importRun({ stored, label: "test", first: THEN }), "same");
      await assertHealthy(store);
    },
  },
  {
    name: "a copy is the same run in both stores, and is extended where the run has gone further, in both directions",
    async run({ open }) {
      const store = await open();
      await fill(store);
      await using other = disposable(openMemoryStore());
      const copy = async (from: Store, to: Store): Promise<string> =>
        to.importRun({ stored: await from.exportRun("sample"), label: "copy", first: null, copy: true });
      assert.equal(await copy(store, other.store), "imported");
      await assertHealthy(other.store);
      assert.deepEqual(await everything(other.store), await everything(store));
      assert.equal(await copy(store, other.store), "same");
      // The holder is this process: its lease holds in the copy too, until it is stale.
      await rejectsWith("LEASE_HELD", () => other.store.takeLease({ run: "sample", label: "other" }));
      await store.tag({ run: "sample", sequence: 4, name: "later" });
      await rejectsWith("LEASE_HELD", () => copy(store, other.store));
      await store.close();

      const again = await open();
      await using fresh = disposable(openMemoryStore());
      assert.equal(await copy(again, fresh.store), "imported");
      const lease = await fresh.store.takeLease({ run: "sample", label: "elsewhere" });
      await save(fresh.store, lease, { values: { on: 1 } });
      await fresh.store.drop({ run: "sample", drops: [{ sequence: 5, why: "z" }] });
      await fresh.store.untag({ run: "sample", name: "t" });
      await fresh.store.releaseLease(lease);
      assert.equal(await copy(fresh.store, again), "extended");
      await assertHealthy(again);
      assert.deepEqual(await everything(again), await everything(fresh.store));
      assert.deepEqual(await again.exportRun("sample"), await fresh.store.exportRun("sample"));
      assert.equal(await copy(again, fresh.store), "same");

      await save(again, await again.takeLease({ run: "sample", label: "here" }), { values: { on: 2 } });
      await save(fresh.store, await fresh.store.takeLease({ run: "sample", label: "there" }), { values: { on: 3 } });
      await rejectsWith("RUN_EXISTS", () => copy(fresh.store, again));
    },
  },
  {
    name: "a record in which anything was changed, left out, moved or added is refused, and nothing is written",
    async run({ open }) {
      await using source = disposable(openMemoryStore());
      await fill(source.store);
      const stored = await source.store.exportRun("sample");
      const store = await open();
      for (const [what, wrong] of changed(stored)) {
        await rejectsWith("FORMAT_DAMAGED", () => store.importRun({ stored: wrong, label: "test", first: THEN })).catch(
          (error: unknown) => assert.fail(`${what}: ${String(error)}`),
        );
        assert.equal(await store.getRun("sample"), undefined, what);
      }
      assert.equal((await store.stats()).entries, 0);
    },
  },
];

function changed(stored: StoredRun): readonly (readonly [string, StoredRun])[] {
  const { entries, chunks } = stored;
  const withEntries = (change: (all: StoredEntry[]) => void): StoredRun => {
    const all = [...entries];
    change(all);
    return { ...stored, entries: all };
  };
  const edits: (readonly [string, StoredRun])[] = [
    ["no entries", { ...stored, entries: [] }],
    ["another head", { ...stored, head: "0".repeat(64) }],
    ["another id", { ...stored, birth: { ...stored.birth, id: "../x" } }],
    ["a label", { ...stored, birth: { ...stored.birth, labels: { a: 1 } } }],
    ["a field", { ...stored, birth: { ...stored.birth, more: 1 } }],
    ["a chunk left out", { ...stored, chunks: chunks.slice(1) }],
    ["a chunk changed", { ...stored, chunks: chunks.map((text, i) => (i === 0 ? `${text} ` : text)) }],
  ];
  for (const [i, entry] of entries.entries()) {
    const put = (change: Partial<StoredEntry>) => withEntries((all) => (all[i] = { ...entry, ...change }));
    edits.push(
      [`entry ${i + 1} left out`, withEntries((all) => all.splice(i, 1))],
      [`entry ${i + 1} twice`, withEntries((all) => all.splice(i, 0, entry))],
      [`body ${i + 1}`, put({ body: entry.body.replace("{", '{"a":1,') })],
      [`time ${i + 1}`, put({ at: "2020-01-01T00:00:00.000Z" })],
      [`no time ${i + 1}`, put({ at: "soon" })],
      [`epoch ${i + 1}`, put({ epoch: entry.epoch + 1 })],
      [`kind ${i + 1}`, put({ kind: entry.kind === "note" ? "x.note" : "note" })],
      [`planes ${i + 1}`, put({ planes: entry.planes === null ? "{}" : entry.planes.replace("work", "walk") })],
      [`no planes ${i + 1}`, entry.planes === null ? put({ planes: "[]" }) : put({ planes: null })],
    );
  }
  return edits;
}

function disposable(store: Store): AsyncDisposable & { readonly store: Store } {
  return { store, [Symbol.asyncDispose]: () => store.close() };
}
