import assert from "node:assert/strict";
import { assertFrozen, collect } from "./harness.ts";
import { refuses } from "../refuses.ts";
import type { StoreCase } from "./harness.ts";
import { leasedRun, samplePlanes, save } from "./sample.ts";
import type { Planes } from "../../core/checkpoint/checkpoint.ts";

export const commitCases: readonly StoreCase[] = [
  {
    name: "a commit writes its entries, then its checkpoint, and tells where the run stands",
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
    name: "what goes in is captured in the call: changing it afterwards changes nothing",
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
    name: "what comes out is deeply frozen, and equal to what went in",
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
    name: "values that JSON cannot carry are refused with their path, and nothing is written",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      const cycle: Record<string, unknown> = {};
      cycle["self"] = cycle;
      for (const bad of [undefined, Number.NaN, 1n, new Date(0), new Map(), () => 1, Symbol("s"), cycle]) {
        const planes: unknown = { ...samplePlanes(), extensions: { here: bad } };
        const error = await refuses("NOT_JSON", () =>
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
    name: "one of several overlapping calls that is refused leaves the others alone",
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
    name: "a checkpoint that reckons with another sequence is refused, entries and all",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      await save(store, lease, { sequence: 1 });
      const planes = samplePlanes();
      const error = await refuses("CONFLICT", () =>
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
    name: "kinds that are the store's own, or no kinds, cannot be committed",
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
        await refuses("USAGE", () => store.commit({ lease, entries: [{ kind, body: {} }] }));
      }
      const made: unknown = { kind: "made.up", body: {} };
      await refuses("USAGE", () => store.commit({ lease, entries: [made as { kind: "note"; body: {} }] }));
    },
  },
  {
    name: "an empty commit changes nothing and tells where the run stands",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      const { entry, checkpoint } = await store.commit({ lease });
      assert.equal(entry, 2);
      assert.equal(checkpoint, null);
    },
  },
];
