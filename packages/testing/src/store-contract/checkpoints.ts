// Cases of the store contract about checkpoints, effects, tags and drops.

import assert from "node:assert/strict";
import type { NewEntry } from "@holdfast/core/journal";
import type { Lease } from "@holdfast/core/lease";
import type { Store } from "@holdfast/core/store";
import { rejectsWith } from "../refuses.ts";
import { type StoreCase, assertFrozen, collect, leasedRun, save } from "./harness.ts";

export const checkpointCases: readonly StoreCase[] = [
  {
    name: "checkpoints are numbered 1, 2, 3 … and each names the one before as its parent",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      const made = [];
      for (let n = 1; n <= 3; n++) made.push((await save(store, lease, { values: { n } })).checkpoint);
      assert.deepEqual(
        made.map((one) => one?.id),
        ["sample@1", "sample@2", "sample@3"],
      );
      assert.equal(made[0]?.parent, null);
      assert.deepEqual({ ...made[2]?.parent }, { id: "sample@2", digest: made[1]?.digest });
      assert.equal(new Set(made.map((one) => one?.digest)).size, 3);
      const read = await (await open()).getCheckpoint({ run: "sample", sequence: 2 });
      const { planes, ...summary } = read;
      assert.deepEqual(summary, made[1]);
      assert.deepEqual(planes.context.values, { n: 2 });
    },
  },
  {
    name: "latest is the newest checkpoint by sequence, not by time, and undefined when there is none",
    async run({ open, clock }) {
      const store = await open();
      const lease = await leasedRun(store);
      assert.equal(await store.latest("sample"), undefined);
      for (const [n, at] of [
        [1, "2026-03-01T00:00:00.000Z"],
        [2, "2001-01-01T00:00:00.000Z"],
        [3, "1990-01-01T00:00:00.000Z"],
      ] as const) {
        clock.set(at);
        await save(store, lease, { values: { n } });
        assert.equal((await store.latest("sample"))?.sequence, n);
      }
      const [newest] = await store.listCheckpoints({ run: "sample", limit: 1 });
      assert.equal(newest?.sequence, 3);
      assert.equal(newest?.createdAt, "1990-01-01T00:00:00.000Z");
      assert.equal((await store.getRun("sample"))?.latest?.sequence, 3);
      assert.equal((await (await open()).latest("sample"))?.sequence, 3);
    },
  },
  {
    name: "lists come newest first, in pages, and by trigger and stage",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      for (let n = 1; n <= 12; n++) {
        await save(store, lease, {
          trigger: n % 3 === 0 ? "stage" : "iteration",
          stage: n <= 6 ? "plan" : "code",
          iteration: n,
        });
      }
      for (const handle of [store, await open()]) {
        const list = async (query: object) =>
          (await handle.listCheckpoints({ run: "sample", ...query })).map(({ sequence }) => sequence);
        assert.deepEqual(await list({}), [12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1]);
        assert.deepEqual(await list({ limit: 3 }), [12, 11, 10]);
        assert.deepEqual(await list({ limit: 3, before: 10 }), [9, 8, 7]);
        assert.deepEqual(await list({ before: 1 }), []);
        assert.deepEqual(await list({ before: 1000, limit: 1 }), [12]);
        assert.deepEqual(await list({ limit: 0 }), []);
        assert.deepEqual(await list({ trigger: "stage" }), [12, 9, 6, 3]);
        assert.deepEqual(await list({ trigger: "stage", stage: "plan" }), [6, 3]);
        assert.deepEqual(await list({ stage: "plan", limit: 2, before: 6 }), [5, 4]);
      }
    },
  },
  {
    name: "a checkpoint that does not exist is refused",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      await save(store, lease);
      const error = await rejectsWith("CHECKPOINT_NOT_FOUND", () =>
        store.getCheckpoint({ run: "sample", sequence: 2 }),
      );
      assert.equal(error.data["checkpoint"], "sample@2");
      for (const sequence of [0, -1, 1.5, Number.NaN]) {
        await rejectsWith("USAGE", () => store.getCheckpoint({ run: "sample", sequence }));
      }
    },
  },
  {
    name: "a long transcript that grows keeps every earlier version",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      const messages: { role: string; text: string }[] = [];
      const lengths: number[] = [];
      let firstAdded = 0;
      let lastAdded = 0;
      for (let turn = 1; turn <= 12; turn++) {
        for (let i = 0; i < (turn === 1 ? 400 : 3); i++)
          messages.push({
            role: i % 2 === 0 ? "user" : "agent",
            text: `turn ${turn}, message ${i}: ${`${turn * 7919 + i * 104729} `.repeat(20)}`,
          });
        if (turn === 8) messages[5] = { role: "user", text: "edited" };
        if (turn === 9) messages.splice(100, 1);
        const { checkpoint } = await save(store, lease, { values: { messages, turn } });
        if (turn === 1) firstAdded = checkpoint?.size.added ?? 0;
        lastAdded = checkpoint?.size.added ?? 0;
        lengths.push(messages.length);
      }
      assert.ok(lastAdded * 4 < firstAdded, `an append added ${lastAdded} bytes, the first save ${firstAdded}`);
      for (const handle of [store, await open()]) {
        for (const [i, length] of lengths.entries()) {
          const { planes } = await handle.getCheckpoint({ run: "sample", sequence: i + 1 });
          const found = planes.context.values["messages"];
          assert.ok(Array.isArray(found));
          assert.equal(found.length, length);
          assert.equal(Reflect.get(found[5], "text") === "edited", i + 1 >= 8);
        }
        assert.deepEqual((await handle.latest("sample"))?.planes.context.values["messages"], messages);
      }
    },
  },
];

const payload = "a".repeat(64);

function intended(key: string, digest = payload): NewEntry {
  return { kind: "effect.intended", body: { key, kind: "push", target: "origin", payload: digest, detail: {} } };
}

function done(key: string): NewEntry {
  return { kind: "effect.settled", body: { key, outcome: "done", adopted: false, receipt: { url: "u" } } };
}

export const effectCases: readonly StoreCase[] = [
  {
    name: "the ledger is the fold of the effect entries",
    async run({ open, clock }) {
      const store = await open();
      const lease = await leasedRun(store);
      clock.set("2026-03-01T10:00:00.000Z");
      await store.commit({ lease, entries: [intended("push"), intended("label")] });
      clock.set("2026-03-01T11:00:00.000Z");
      await store.commit({
        lease,
        entries: [done("push"), { kind: "effect.unknown", body: { key: "label", reason: "cut off" } }],
      });
      const effects = await (await open()).listEffects("sample");
      assert.deepEqual(
        effects.map(({ key, state }) => [key, { ...state }]),
        [
          ["label", { kind: "unknown", at: "2026-03-01T11:00:00.000Z", reason: "cut off" }],
          ["push", { kind: "done", at: "2026-03-01T11:00:00.000Z", adopted: false, receipt: { url: "u" } }],
        ],
      );
      assert.deepEqual(
        [effects[1]?.run, effects[1]?.kind, effects[1]?.target, effects[1]?.payload],
        ["sample", "push", "origin", payload],
      );
      assertFrozen(effects);
      await store.commit({
        lease,
        entries: [
          intended("label"),
          { kind: "effect.settled", body: { key: "label", outcome: "failed", reason: "refused" } },
        ],
      });
      assert.deepEqual((await store.listEffects("sample"))[0]?.state, {
        kind: "failed",
        at: "2026-03-01T11:00:00.000Z",
        reason: "refused",
      });
    },
  },
  {
    name: "one key stands for one payload, an outcome needs an intent, and done stays done",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      await store.commit({ lease, entries: [intended("push"), done("push")] });
      const before = await store.listEffects("sample");
      const bad: readonly (readonly NewEntry[])[] = [
        [intended("push", "b".repeat(64))],
        [intended("new"), intended("new", "b".repeat(64))],
        [done("never intended")],
        [{ kind: "effect.settled", body: { key: "push", outcome: "failed", reason: "r" } }],
        [{ kind: "effect.unknown", body: { key: "push", reason: "r" } }],
        [{ kind: "effect.intended", body: { key: "" } }],
      ];
      for (const entries of bad)
        await rejectsWith("CONFLICT", () => store.commit({ lease, entries: [{ kind: "note", body: {} }, ...entries] }));
      assert.equal((await store.getRun("sample"))?.entries, 4);
      await store.commit({ lease, entries: [intended("push"), done("push")] });
      assert.deepEqual(await store.listEffects("sample"), before);
    },
  },
  {
    name: "a failed effect may be tried again with another payload; an effect that may have happened may not",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      const other = "b".repeat(64);
      const failed: NewEntry = { kind: "effect.settled", body: { key: "push", outcome: "failed", reason: "refused" } };
      const unknown: NewEntry = { kind: "effect.unknown", body: { key: "push", reason: "cut off" } };
      await store.commit({ lease, entries: [intended("push")] });
      await rejectsWith("CONFLICT", () => store.commit({ lease, entries: [intended("push", other)] }));
      await store.commit({ lease, entries: [unknown] });
      await rejectsWith("CONFLICT", () => store.commit({ lease, entries: [intended("push", other)] }));
      await store.commit({ lease, entries: [failed] });
      const elsewhere = { ...intended("push", other).body, target: "upstream" };
      await rejectsWith("CONFLICT", () =>
        store.commit({ lease, entries: [{ kind: "effect.intended", body: elsewhere }] }),
      );
      await store.commit({ lease, entries: [intended("push", other)] });
      const [effect] = await store.listEffects("sample");
      assert.deepEqual([effect?.payload, effect?.state.kind], [other, "intended"]);
      for await (const event of store.verify()) assert.notEqual(event.kind, "problem");
    },
  },
  {
    name: "each run has its own ledger",
    async run({ open }) {
      const store = await open();
      const [a, b] = [await leasedRun(store, "a"), await leasedRun(store, "b")];
      await Promise.all([
        store.commit({ lease: a, entries: [intended("k")] }),
        store.commit({ lease: b, entries: [intended("k", "b".repeat(64))] }),
      ]);
      assert.equal((await store.listEffects("a"))[0]?.payload, payload);
      assert.equal((await store.listEffects("b"))[0]?.payload, "b".repeat(64));
    },
  },
];

async function withCheckpoints(store: Store, count: number): Promise<Lease> {
  const lease = await leasedRun(store);
  for (let n = 1; n <= count; n++) await save(store, lease, { values: { n, text: `${n} `.repeat(3000) } });
  return lease;
}

export const tagAndDropCases: readonly StoreCase[] = [
  {
    name: "a tag names one checkpoint, needs no lease, and shows wherever the checkpoint does",
    async run({ open }) {
      const [store, other] = [await open(), await open()];
      await withCheckpoints(store, 3);
      await other.tag({ run: "sample", sequence: 2, name: "good" });
      await other.tag({ run: "sample", sequence: 2, name: "also" });
      assert.deepEqual((await store.getCheckpoint({ run: "sample", sequence: 2 })).tags, ["also", "good"]);
      assert.deepEqual(
        (await store.listCheckpoints({ run: "sample" })).map(({ tags }) => tags),
        [[], ["also", "good"], []],
      );
      const journal = (await store.getRun("sample"))?.entries;
      await store.tag({ run: "sample", sequence: 2, name: "good" });
      assert.equal((await store.getRun("sample"))?.entries, journal);
    },
  },
  {
    name: "a tag that names another checkpoint is moved only when asked",
    async run({ open }) {
      const store = await open();
      await withCheckpoints(store, 3);
      await store.tag({ run: "sample", sequence: 1, name: "best" });
      const error = await rejectsWith("TAG_EXISTS", () => store.tag({ run: "sample", sequence: 2, name: "best" }));
      assert.equal(error.data["sequence"], 1);
      await store.tag({ run: "sample", sequence: 2, name: "best", move: true });
      assert.deepEqual(
        (await store.listCheckpoints({ run: "sample" })).map(({ tags }) => tags),
        [[], ["best"], []],
      );
      await rejectsWith("CHECKPOINT_NOT_FOUND", () => store.tag({ run: "sample", sequence: 9, name: "x" }));
      for (const name of ["", "12", "latest", "a b", "a@b", "x".repeat(129)]) {
        await rejectsWith("USAGE", () => store.tag({ run: "sample", sequence: 1, name }));
      }
    },
  },
  {
    name: "removing a tag, even one that does not exist, is not an error",
    async run({ open }) {
      const store = await open();
      await withCheckpoints(store, 2);
      await store.tag({ run: "sample", sequence: 1, name: "t" });
      await store.untag({ run: "sample", name: "t" });
      await store.untag({ run: "sample", name: "t" });
      assert.deepEqual((await store.getCheckpoint({ run: "sample", sequence: 1 })).tags, []);
      const kinds = (await collect(store.readJournal({ run: "sample", after: 4 }))).map(({ kind, epoch }) => [
        kind,
        epoch,
      ]);
      assert.deepEqual(kinds, [
        ["tag.added", 0],
        ["tag.removed", 0],
      ]);
    },
  },
  {
    name: "a dropped checkpoint leaves a tombstone, its entry in the journal, and nothing else",
    async run({ open, clock }) {
      const [store, other] = [await open(), await open()];
      const lease = await withCheckpoints(store, 5);
      const before = await collect(store.readJournal({ run: "sample" }));
      const doomed = await other.getCheckpoint({ run: "sample", sequence: 2 });
      clock.set("2026-05-01T00:00:00.000Z");
      const stones = await other.drop({
        run: "sample",
        drops: [
          { sequence: 4, why: "old" },
          { sequence: 2, why: "older" },
        ],
      });
      assert.deepEqual(
        stones.map(({ sequence, why }) => [sequence, why]),
        [
          [2, "older"],
          [4, "old"],
        ],
      );
      const { entry, digest, trigger, createdAt } = doomed;
      assert.deepEqual(
        { ...stones[0] },
        {
          run: "sample",
          sequence: 2,
          entry,
          digest,
          trigger,
          createdAt,
          droppedAt: "2026-05-01T00:00:00.000Z",
          why: "older",
        },
      );
      assertFrozen(stones);
      for (const handle of [store, other, await open()]) {
        assert.deepEqual(await handle.listTombstones("sample"), stones);
        const error = await rejectsWith("CHECKPOINT_DROPPED", () =>
          handle.getCheckpoint({ run: "sample", sequence: 2 }),
        );
        assert.equal(error.data["why"], "older");
        assert.deepEqual(
          (await handle.listCheckpoints({ run: "sample" })).map(({ sequence }) => sequence),
          [5, 3, 1],
        );
        assert.deepEqual(
          (await handle.listCheckpoints({ run: "sample", before: 5, limit: 1 })).map(({ sequence }) => sequence),
          [3],
        );
        assert.equal((await handle.getRun("sample"))?.checkpoints, 3);
        const after = await collect(handle.readJournal({ run: "sample" }));
        assert.deepEqual(after.slice(0, before.length), before);
        assert.equal(after.at(-1)?.kind, "checkpoint.dropped");
      }
      const { checkpoint } = await save(store, lease, { values: { n: 6 } });
      assert.equal(checkpoint?.sequence, 6);
      assert.deepEqual((await store.getCheckpoint({ run: "sample", sequence: 3 })).planes.context.values["n"], 3);
    },
  },
  {
    name: "dropping a dropped checkpoint is not an error; the newest, a tagged and a missing one are refused, all or nothing",
    async run({ open }) {
      const store = await open();
      await withCheckpoints(store, 4);
      await store.tag({ run: "sample", sequence: 2, name: "keep" });
      const first = await store.drop({ run: "sample", drops: [{ sequence: 1, why: "first" }] });
      const entries = (await store.getRun("sample"))?.entries;
      assert.deepEqual(await store.drop({ run: "sample", drops: [{ sequence: 1, why: "again" }] }), first);
      await rejectsWith("CONFLICT", () =>
        store.drop({
          run: "sample",
          drops: [
            { sequence: 3, why: "x" },
            { sequence: 4, why: "newest" },
          ],
        }),
      );
      await rejectsWith("CONFLICT", () =>
        store.drop({
          run: "sample",
          drops: [
            { sequence: 3, why: "x" },
            { sequence: 2, why: "tagged" },
          ],
        }),
      );
      await rejectsWith("CHECKPOINT_NOT_FOUND", () =>
        store.drop({
          run: "sample",
          drops: [
            { sequence: 3, why: "x" },
            { sequence: 7, why: "none" },
          ],
        }),
      );
      assert.deepEqual(await store.drop({ run: "sample", drops: [] }), []);
      assert.equal((await store.getRun("sample"))?.entries, entries);
      assert.deepEqual(
        (await store.listCheckpoints({ run: "sample" })).map(({ sequence }) => sequence),
        [4, 3, 2],
      );
      await rejectsWith("CHECKPOINT_DROPPED", () => store.tag({ run: "sample", sequence: 1, name: "late" }));
      await store.untag({ run: "sample", name: "keep" });
      const stones = await store.drop({
        run: "sample",
        drops: [
          { sequence: 2, why: "a" },
          { sequence: 2, why: "b" },
        ],
      });
      assert.deepEqual(
        stones.map(({ sequence, why }) => [sequence, why]),
        [[2, "a"]],
      );
    },
  },
];
