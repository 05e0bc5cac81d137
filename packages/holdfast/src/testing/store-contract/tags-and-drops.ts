import assert from "node:assert/strict";
import { assertFrozen, collect } from "./harness.ts";
import { refuses } from "../refuses.ts";
import type { StoreCase } from "./harness.ts";
import { leasedRun, save } from "./sample.ts";
import type { Lease } from "../../core/lease/lease.ts";
import type { Store } from "../../ports/store.ts";

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
      const error = await refuses("TAG_EXISTS", () => store.tag({ run: "sample", sequence: 2, name: "best" }));
      assert.equal(error.data["sequence"], 1);
      await store.tag({ run: "sample", sequence: 2, name: "best", move: true });
      assert.deepEqual(
        (await store.listCheckpoints({ run: "sample" })).map(({ tags }) => tags),
        [[], ["best"], []],
      );
      await refuses("CHECKPOINT_NOT_FOUND", () => store.tag({ run: "sample", sequence: 9, name: "x" }));
      for (const name of ["", "12", "latest", "a b", "a@b", "x".repeat(129)]) {
        await refuses("USAGE", () => store.tag({ run: "sample", sequence: 1, name }));
      }
    },
  },
  {
    name: "removing a tag, also one that is not there, is no error",
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
    name: "a dropped checkpoint leaves a tombstone, its place in the journal, and nothing else",
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
        const error = await refuses("CHECKPOINT_DROPPED", () => handle.getCheckpoint({ run: "sample", sequence: 2 }));
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
    name: "dropping what is gone is no error; the newest, a tagged and a missing one are refused, all or nothing",
    async run({ open }) {
      const store = await open();
      await withCheckpoints(store, 4);
      await store.tag({ run: "sample", sequence: 2, name: "keep" });
      const first = await store.drop({ run: "sample", drops: [{ sequence: 1, why: "first" }] });
      const entries = (await store.getRun("sample"))?.entries;
      assert.deepEqual(await store.drop({ run: "sample", drops: [{ sequence: 1, why: "again" }] }), first);
      await refuses("CONFLICT", () =>
        store.drop({
          run: "sample",
          drops: [
            { sequence: 3, why: "x" },
            { sequence: 4, why: "newest" },
          ],
        }),
      );
      await refuses("CONFLICT", () =>
        store.drop({
          run: "sample",
          drops: [
            { sequence: 3, why: "x" },
            { sequence: 2, why: "tagged" },
          ],
        }),
      );
      await refuses("CHECKPOINT_NOT_FOUND", () =>
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
      await refuses("CHECKPOINT_DROPPED", () => store.tag({ run: "sample", sequence: 1, name: "late" }));
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
