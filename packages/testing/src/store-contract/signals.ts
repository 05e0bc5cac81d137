// Cases of the store contract: signals to the process that executes a run.

import assert from "node:assert/strict";
import type { CheckpointRequest, StopSignal } from "@holdfast/core/signal";
import { rejectsWith } from "../refuses.ts";
import { type StoreCase, assertFrozen, leasedRun } from "./harness.ts";

export const samplePause: StopSignal = {
  id: "a",
  run: "sample",
  kind: "pause",
  by: "eva",
  at: "2026-03-01T12:00:00.000Z",
  reason: "a \u0000 and a \ud800",
  now: false,
};

function request(id: string, epoch = 1): CheckpointRequest {
  return { id, run: "sample", kind: "checkpoint", epoch, name: `name of ${id}` };
}

const WITHDRAW = { from: "pending", to: null } as const;
const TAKE = { from: "pending", to: "taken" } as const;
const FINISH = { from: "taken", to: null } as const;

export const signalCases: readonly StoreCase[] = [
  {
    name: "a signal is pending for every handle until it is removed, whether or not a lease is held",
    async run({ open }) {
      const [store, other] = [await open(), await open()];
      const lease = await leasedRun(store);
      await leasedRun(store, "second");
      for (const handle of [store, other]) assert.deepEqual(await handle.listSignals("sample"), []);
      await other.putSignal(samplePause);
      const pending = [{ ...samplePause, state: "pending" }];
      for (const handle of [store, other, await open()]) {
        assert.deepEqual(await handle.listSignals("sample"), pending);
        assert.deepEqual(await handle.listSignals(), pending);
        assert.deepEqual(await handle.listSignals("second"), []);
        assertFrozen(await handle.listSignals("sample"));
      }
      await store.releaseLease(lease);
      assert.deepEqual(await store.listSignals("sample"), pending);
      const move = { run: "sample", id: "a" };
      assert.equal(await store.moveSignal({ ...move, ...WITHDRAW }), true);
      assert.equal(await other.moveSignal({ ...move, ...WITHDRAW }), false);
      for (const handle of [store, other]) assert.deepEqual(await handle.listSignals(), []);
    },
  },
  {
    name: "a handle that found no signals sees the next one, by itself and by others",
    async run({ open }) {
      const [store, other] = [await open(), await open()];
      await leasedRun(store);
      for (const sender of [store, other]) {
        for (const handle of [store, other]) assert.deepEqual(await handle.listSignals("sample"), []);
        // A list that overlaps the write may miss it, and must not hide it from the next one.
        const overlapping = store.listSignals("sample");
        await Promise.all([sender.putSignal(request("r")), overlapping]);
        for (const handle of [store, other]) assert.equal((await handle.listSignals("sample")).length, 1);
        await sender.moveSignal({ run: "sample", id: "r", ...WITHDRAW });
      }
    },
  },
  {
    name: "a run has one pause and one abort, the latest of each, and any number of requests",
    async run({ open }) {
      const store = await open();
      await leasedRun(store);
      await store.putSignal(samplePause);
      await store.putSignal({ ...samplePause, id: "b" });
      await store.putSignal({ ...samplePause, id: "c", kind: "abort", now: true });
      for (const id of ["r", "s", "s"]) await store.putSignal(request(id));
      const ids = (await store.listSignals("sample")).map(({ id }) => id);
      assert.deepEqual(ids.toSorted(), ["b", "c", "r", "s"]);
      // Handling the first one must not remove the signal that replaced it.
      assert.equal(await store.moveSignal({ run: "sample", id: "a", ...WITHDRAW }), false);
      assert.equal((await store.listSignals("sample")).length, 4);
    },
  },
  {
    name: "a taken signal cannot be withdrawn or taken again, and sending it again makes it pending",
    async run({ open }) {
      const [store, other] = [await open(), await open()];
      await leasedRun(store);
      const move = { run: "sample", id: "r" };
      await other.putSignal(request("r", 1));
      assert.equal(await store.moveSignal({ ...move, ...TAKE }), true);
      assert.equal(await store.moveSignal({ ...move, ...TAKE }), false);
      assert.equal(await other.moveSignal({ ...move, ...WITHDRAW }), false);
      assert.deepEqual(await other.listSignals("sample"), [{ ...request("r"), state: "taken" }]);
      await other.putSignal(request("r", 2));
      assert.deepEqual(await store.listSignals("sample"), [{ ...request("r", 2), state: "pending" }]);
      assert.equal(await store.moveSignal({ ...move, ...FINISH }), false);
      assert.equal(await store.moveSignal({ ...move, ...TAKE }), true);
      assert.equal(await store.moveSignal({ ...move, ...FINISH }), true);
      assert.deepEqual(await other.listSignals("sample"), []);
    },
  },
  {
    name: "of a take and withdrawals at the same time, exactly one succeeds",
    async run({ open }) {
      const handles = [await open(), await open(), await open()];
      const [store] = handles;
      assert.ok(store !== undefined);
      await leasedRun(store);
      for (let n = 1; n <= 20; n++) {
        await store.putSignal(request(`r${n}`));
        const moves = handles.map((handle, i) =>
          handle.moveSignal({ run: "sample", id: `r${n}`, ...(i === n % 3 ? TAKE : WITHDRAW) }),
        );
        assert.equal((await Promise.all(moves)).filter(Boolean).length, 1);
      }
    },
  },
  {
    name: "signals are captured in the call, and change neither journal nor lease",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      const before = await store.getRun("sample");
      const mutable = { ...samplePause };
      const sent = store.putSignal(mutable);
      mutable.reason = "changed";
      await sent;
      assert.deepEqual(await store.listSignals("sample"), [{ ...samplePause, state: "pending" }]);
      assert.deepEqual(await store.getRun("sample"), before);
      assert.deepEqual(await store.getLease("sample"), lease);
    },
  },
  {
    name: "a signal to an unknown run, or one that no holder can read, is refused",
    async run({ open }) {
      const store = await open();
      await leasedRun(store);
      await rejectsWith("RUN_NOT_FOUND", () => store.putSignal({ ...samplePause, run: "gone" }));
      await rejectsWith("RUN_NOT_FOUND", () => store.listSignals("gone"));
      await rejectsWith("RUN_NOT_FOUND", () => store.moveSignal({ run: "gone", id: "a", ...WITHDRAW }));
      await rejectsWith("USAGE", () => store.putSignal({ ...samplePause, run: "../x" }));
      // An untyped caller can send anything.
      const hostile: object = { ...samplePause, kind: "dance" };
      await rejectsWith("USAGE", () => Reflect.apply(store.putSignal, store, [hostile]));
      await rejectsWith("USAGE", () => Reflect.apply(store.putSignal, store, [{ ...request("r"), epoch: "1" }]));
      assert.deepEqual(await store.listSignals(), []);
    },
  },
];
