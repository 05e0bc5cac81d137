// Cases of the store contract about commits, the journal and watching it.

import assert from "node:assert/strict";
import type { Planes } from "@holdfast/core/checkpoint";
import { type JournalEntry, birthDigest, entryHash } from "@holdfast/core/journal";
import { sha256 } from "@holdfast/core/json";
import { canonicalJson } from "@holdfast/core/values";
import { rejectsWith } from "../refuses.ts";
import { type StoreCase, assertFrozen, collect, leasedRun, samplePlanes, save } from "./harness.ts";

export const commitCases: readonly StoreCase[] = [
  {
    name: "a commit writes its entries, then its checkpoint, and returns the run's last entry",
    async run({ open, clock }) {
      const store = await open();
      const lease = await leasedRun(store);
      clock.set("2026-03-01T10:00:00.000Z");
      const committed = await store.commit({
        lease,
        entries: [
          { kind: "stage.ended", body: { stage: "plan" } },
          { kind: "x.mine", body: { deep: { a: [1, null] } } },
        ],
        checkpoint: {
          trigger: "stage",
          name: "after the plan",
          planes: samplePlanes({ stage: "code", iteration: 3, score: 0.5, tree: "t".repeat(40), values: { a: 1 } }),
        },
      });
      assertFrozen(committed);
      const journal = await collect((await open()).readJournal({ run: "sample" }));
      assert.deepEqual(
        journal.map(({ entry, kind, epoch }) => [entry, kind, epoch]),
        [
          [1, "run.created", 0],
          [2, "lease.taken", 1],
          [3, "stage.ended", 1],
          [4, "x.mine", 1],
          [5, "checkpoint", 1],
        ],
      );
      assert.deepEqual(journal[3]?.body, { deep: { a: [1, null] } });
      assert.equal(committed.entry, 5);
      assert.equal(committed.head, journal[4]?.hash);
      const { checkpoint } = committed;
      assert.ok(checkpoint);
      const { digest, size, ...rest } = checkpoint;
      assert.deepEqual(
        { ...rest },
        {
          id: "sample@1",
          run: "sample",
          sequence: 1,
          entry: 5,
          parent: null,
          trigger: "stage",
          name: "after the plan",
          createdAt: "2026-03-01T10:00:00.000Z",
          stage: "code",
          iteration: 3,
          score: 0.5,
          tree: "t".repeat(40),
          tags: [],
          quarantined: false,
        },
      );
      assert.equal(digest, journal[4]?.digest);
      assert.ok(size.logical > 0 && size.added > 0);
    },
  },
  {
    name: "values are captured in the call: a later change of them changes nothing",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      const values = { list: [1, 2, 3], nested: { text: "before" } };
      const body = { note: { text: "before" } };
      const planes = samplePlanes({ values });
      const pending = store.commit({
        lease,
        entries: [{ kind: "note", body }],
        checkpoint: { trigger: "manual", planes },
      });
      values.list.push(4);
      values.nested.text = "after";
      body.note.text = "after";
      await pending;
      values.list.length = 0;
      const latest = await store.latest("sample");
      assert.deepEqual(latest?.planes.context.values, { list: [1, 2, 3], nested: { text: "before" } });
      const journal = await collect(store.readJournal({ run: "sample", after: 2, limit: 1 }));
      assert.deepEqual(journal[0]?.body, { note: { text: "before" } });
      values.list.push(9);
      await save(store, lease, { values });
      assert.deepEqual((await store.latest("sample"))?.planes.context.values, { list: [9], nested: { text: "after" } });
      assert.deepEqual((await store.getCheckpoint({ run: "sample", sequence: 1 })).planes.context.values, {
        list: [1, 2, 3],
        nested: { text: "before" },
      });
    },
  },
  {
    name: "values are returned deeply frozen and equal to the saved ones",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      const planes = samplePlanes({
        values: {
          text: "ünïcödé \u0000 \u2028 😀",
          numbers: [0, -1, 1.5, 1e21, 5e-324],
          empty: {},
          none: null,
          list: [[], [[]]],
          "": 1,
          __proto__x: true,
        },
      });
      await store.commit({ lease, checkpoint: { trigger: "manual", planes } });
      for (const handle of [store, await open()]) {
        const read = await handle.latest("sample");
        assert.deepEqual(read?.planes, planes);
        assertFrozen(read);
        assertFrozen(await handle.listCheckpoints({ run: "sample" }));
        for (const entry of await collect(handle.readJournal({ run: "sample" }))) assertFrozen(entry);
      }
    },
  },
  {
    name: "values that JSON cannot represent are refused with their path, and nothing is written",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      const cycle: Record<string, unknown> = {};
      cycle["self"] = cycle;
      for (const bad of [undefined, Number.NaN, 1n, new Date(0), new Map(), () => 1, Symbol("s"), cycle]) {
        const planes: unknown = { ...samplePlanes(), extensions: { here: bad } };
        const error = await rejectsWith("NOT_JSON", () =>
          store.commit({
            lease,
            entries: [{ kind: "note", body: {} }],
            checkpoint: { trigger: "manual", planes: planes as Planes },
          }),
        );
        assert.ok(String(error.data["path"]).includes("here"), String(error.data["path"]));
      }
      assert.equal((await store.getRun("sample"))?.entries, 2);
    },
  },
  {
    name: "overlapping calls commit in the order of the calls",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      const other = await leasedRun(store, "other");
      const pending = [];
      for (let i = 1; i <= 40; i++) {
        pending.push(save(store, lease, { values: { i } }));
        pending.push(store.commit({ lease: other, entries: [{ kind: "note", body: { i } }] }));
      }
      const done = await Promise.all(pending);
      const sequences = done.flatMap(({ checkpoint }) => (checkpoint === null ? [] : [checkpoint.sequence]));
      assert.deepEqual(
        sequences,
        Array.from({ length: 40 }, (_, i) => i + 1),
      );
      for (const { sequence, planes } of await Promise.all(
        sequences.map((sequence) => store.getCheckpoint({ run: "sample", sequence })),
      )) {
        assert.deepEqual(planes.context.values, { i: sequence });
      }
      const notes = await collect(store.readJournal({ run: "other", after: 2 }));
      assert.deepEqual(
        notes.map(({ body }) => body["i"]),
        Array.from({ length: 40 }, (_, i) => i + 1),
      );
    },
  },
  {
    name: "a refused call does not affect overlapping calls",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      const stale = { ...lease, epoch: 77 };
      const results = await Promise.allSettled([
        save(store, lease, { values: { n: 1 } }),
        save(store, stale, { values: { n: 2 } }),
        save(store, lease, { sequence: 9, values: { n: 3 } }),
        store.commit({
          lease,
          entries: [{ kind: "effect.settled", body: { key: "none", outcome: "done", adopted: false, receipt: null } }],
        }),
        save(store, lease, { sequence: 2, values: { n: 4, shared: "x".repeat(9000) } }),
        store.createRun({ id: "sample", workflow: "other", work: { kind: "none" } }),
        save(store, lease, { values: { n: 5, shared: "x".repeat(9000) } }),
      ]);
      const codes = results.map((result) => (result.status === "fulfilled" ? "ok" : String(result.reason.code)));
      assert.deepEqual(codes, ["ok", "LEASE_LOST", "CONFLICT", "CONFLICT", "ok", "RUN_EXISTS", "ok"]);
      const values = (
        await Promise.all([1, 2, 3].map((sequence) => store.getCheckpoint({ run: "sample", sequence })))
      ).map(({ planes }) => planes.context.values["n"]);
      assert.deepEqual(values, [1, 4, 5]);
      assert.equal((await store.getRun("sample"))?.entries, 5);
    },
  },
  {
    name: "a checkpoint that expects another sequence is refused with its entries",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      await save(store, lease, { sequence: 1 });
      const planes = samplePlanes();
      const error = await rejectsWith("CONFLICT", () =>
        store.commit({
          lease,
          entries: [{ kind: "note", body: {} }],
          checkpoint: { sequence: 1, trigger: "manual", planes },
        }),
      );
      assert.equal(error.data["next"], 2);
      assert.equal((await store.getRun("sample"))?.entries, 3);
      await save(store, lease, { sequence: 2 });
    },
  },
  {
    name: "reserved and invalid kinds cannot be committed",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      for (const kind of [
        "run.created",
        "lease.taken",
        "tag.added",
        "checkpoint.dropped",
        "checkpoint.quarantined",
      ] as const) {
        await rejectsWith("USAGE", () => store.commit({ lease, entries: [{ kind, body: {} }] }));
      }
      const made: unknown = { kind: "made.up", body: {} };
      await rejectsWith("USAGE", () => store.commit({ lease, entries: [made as { kind: "note"; body: {} }] }));
    },
  },
  {
    name: "an empty commit changes nothing and returns the run's last entry",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      const { entry, checkpoint } = await store.commit({ lease });
      assert.equal(entry, 2);
      assert.equal(checkpoint, null);
    },
  },
];

export const journalCases: readonly StoreCase[] = [
  {
    name: "the journal is numbered without gaps and chained from the first record",
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
        let previous = birthDigest({ id, createdAt, workflow, work, forkedFrom, labels });
        const journal = await collect(handle.readJournal({ run: "sample" }));
        assert.equal(journal.length, 15);
        assert.equal(run.entries, 15);
        for (const [i, entry] of journal.entries()) {
          assert.equal(entry.entry, i + 1);
          const body = canonicalJson(entry.body);
          assert.equal(entry.hash, entryHash(previous, { ...entry, body }));
          assert.equal(entry.digest, entry.kind === "checkpoint" ? entry.hash : sha256(body));
          previous = entry.hash;
        }
      }
    },
  },
  {
    name: "the journal is read from any entry, up to any entry",
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
      const here = new AbortController();
      const there = new AbortController();
      const watches = [
        take(store.watch({ run: "sample", signal: here.signal }), 2, here),
        take(other.watch({ run: "sample", patient: true, signal: there.signal }), 2, there),
      ];
      // A write of a handle waits until its watches have begun; writes of other handles do not.
      await leasedRun(other, "noise");
      await save(store, lease);
      await other.tag({ run: "sample", sequence: 1, name: "t" });
      for (const seen of await Promise.all(watches))
        assert.deepEqual(seen, ["sample:3:checkpoint", "sample:4:tag.added"]);
    },
  },
  {
    name: "a watch begins at the given entry, and misses nothing between the call and its first read",
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
      // A stable sort by run keeps the order within each run.
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
