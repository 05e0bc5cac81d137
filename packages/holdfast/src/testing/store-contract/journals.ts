import assert from "node:assert/strict";
import { collect } from "./harness.ts";
import type { StoreCase } from "./harness.ts";
import { leasedRun, save } from "./sample.ts";
import { birthDigest, entryHash } from "../../core/journal/chain.ts";
import { canonicalJson } from "../../core/values/index.ts";
import { sha256 } from "../../system/hash.ts";

export const journalCases: readonly StoreCase[] = [
  {
    name: "the journal is numbered without gaps and chained from the birth record on",
    async run({ open, clock }) {
      const store = await open();
      const lease = await leasedRun(store);
      for (let n = 1; n <= 5; n++) {
        clock.set(`2026-03-0${6 - n}T00:00:00.000Z`);
        await store.commit({ lease, entries: [{ kind: "step.finished", body: { n } }] });
        await save(store, lease, { values: { n } });
      }
      await store.tag({ run: "sample", sequence: 1, name: "first" });
      await store.drop({ run: "sample", drops: [{ sequence: 2, why: "test" }] });
      await store.releaseLease(lease);
      for (const handle of [store, await open()]) {
        const run = await handle.getRun("sample");
        assert.ok(run);
        const { id, createdAt, workflow, work, forkedFrom, labels } = run;
        let previous = birthDigest({ id, createdAt, workflow, work, forkedFrom, labels }, sha256);
        const journal = await collect(handle.readJournal({ run: "sample" }));
        assert.equal(journal.length, 15);
        assert.equal(run.entries, 15);
        for (const [i, entry] of journal.entries()) {
          assert.equal(entry.entry, i + 1);
          const body = canonicalJson(entry.body);
          assert.equal(entry.hash, entryHash(previous, { ...entry, body }, sha256));
          assert.equal(entry.digest, entry.kind === "checkpoint" ? entry.hash : sha256(body));
          previous = entry.hash;
        }
      }
    },
  },
  {
    name: "the journal is read from any place on, and as far as asked",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      const other = await leasedRun(store, "other");
      for (let n = 3; n <= 700; n += 2) {
        const pair = [{ kind: "note", body: { n } } as const, { kind: "note", body: { n: n + 1 } } as const];
        await Promise.all([
          store.commit({ lease, entries: pair }),
          store.commit({ lease: other, entries: [{ kind: "note", body: {} }] }),
        ]);
      }
      for (const handle of [store, await open()]) {
        const read = async (query: object) =>
          (await collect(handle.readJournal({ run: "sample", ...query }))).map(({ entry }) => entry);
        const all = Array.from({ length: 700 }, (_, i) => i + 1);
        assert.deepEqual(await read({}), all);
        assert.deepEqual(await read({ after: 650 }), all.slice(650));
        assert.deepEqual(await read({ after: 5, limit: 600 }), all.slice(5, 605));
        assert.deepEqual(await read({ after: 700 }), []);
        assert.deepEqual(await read({ limit: 0 }), []);
        const [one] = await collect(handle.readJournal({ run: "sample", after: 322, limit: 1 }));
        assert.deepEqual(one?.body, { n: 323 });
      }
    },
  },
  {
    name: "writers without the lease and the lease's holder never overwrite each other",
    async run({ open }) {
      const [store, other] = [await open(), await open()];
      const lease = await leasedRun(store);
      for (let n = 1; n <= 10; n++) {
        const saved = save(store, lease, { values: { n } });
        if (n > 2) await other.tag({ run: "sample", sequence: n - 2, name: `t${n}` });
        await saved;
        await other.tag({ run: "sample", sequence: n, name: `u${n}` });
      }
      const journal = await collect(other.readJournal({ run: "sample" }));
      assert.deepEqual(
        journal.map(({ entry }) => entry),
        Array.from({ length: 30 }, (_, i) => i + 1),
      );
      assert.equal((await store.latest("sample"))?.sequence, 10);
    },
  },
];
