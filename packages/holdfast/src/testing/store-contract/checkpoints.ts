import assert from "node:assert/strict";
import { refuses } from "../refuses.ts";
import type { StoreCase } from "./harness.ts";
import { leasedRun, save } from "./sample.ts";

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
    name: "latest is the newest checkpoint whatever the clock says, and undefined when there is none",
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
    name: "a checkpoint that is not there is refused",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      await save(store, lease);
      const error = await refuses("CHECKPOINT_NOT_FOUND", () => store.getCheckpoint({ run: "sample", sequence: 2 }));
      assert.equal(error.data["checkpoint"], "sample@2");
      for (const sequence of [0, -1, 1.5, Number.NaN]) {
        await refuses("USAGE", () => store.getCheckpoint({ run: "sample", sequence }));
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
