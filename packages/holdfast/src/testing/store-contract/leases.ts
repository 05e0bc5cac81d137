import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { assertFrozen, collect, refuses } from "./harness.ts";
import type { OwnerIdentity, StoreCase } from "./harness.ts";
import { leasedRun, save } from "./sample.ts";
import { processIdentity } from "../../system/process-identity.ts";

/** As a process of this host that has ended. */
function endedProcess(): OwnerIdentity {
  const { pid } = spawnSync(process.execPath, ["--version"]);
  return { ...processIdentity(), pid, started: "1" };
}

export const leaseCases: readonly StoreCase[] = [
  {
    name: "taking a lease again with the same handle returns the lease held",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      assert.equal(lease.epoch, 1);
      assert.equal(lease.run, "sample");
      assert.equal(lease.owner.label, "sample writer");
      assertFrozen(lease);
      const again = await store.takeLease({ run: "sample", label: "sample writer" });
      assert.deepEqual(again, lease);
      assert.deepEqual(await store.getLease("sample"), lease);
      assert.equal(
        (await collect(store.readJournal({ run: "sample" }))).filter(({ kind }) => kind === "lease.taken").length,
        1,
      );
    },
  },
  {
    name: "a live owner's lease is refused to other handles, also of the same process",
    async run({ open }) {
      const [store, other] = [await open(), await open()];
      const lease = await leasedRun(store);
      const error = await refuses("LEASE_HELD", () =>
        other.takeLease({ run: "sample", label: "thief", staleAfterMs: 0 }),
      );
      assert.deepEqual(error.data["owner"], lease.owner);
      assert.equal((await other.getLease("sample"))?.owner.token, lease.owner.token);
      await save(store, lease);
    },
  },
  {
    name: "a released lease can be taken with the next epoch, and both are in the journal",
    async run({ open }) {
      const [store, other] = [await open(), await open()];
      const lease = await leasedRun(store);
      await store.releaseLease(lease);
      assert.equal(await other.getLease("sample"), undefined);
      const next = await other.takeLease({ run: "sample", label: "next" });
      assert.equal(next.epoch, 2);
      await store.releaseLease(lease);
      assert.equal((await other.getLease("sample"))?.epoch, 2);
      const kinds = (await collect(other.readJournal({ run: "sample" }))).map(({ kind, epoch }) => [kind, epoch]);
      assert.deepEqual(kinds, [
        ["run.created", 0],
        ["lease.taken", 1],
        ["lease.released", 1],
        ["lease.taken", 2],
      ]);
    },
  },
  {
    name: "a dead owner's lease is taken at once with the next epoch, and the dead one is fenced",
    async run({ open }) {
      const dead = await open(endedProcess());
      const stale = await leasedRun(dead);
      await save(dead, stale, { values: { from: "dead" } });
      const store = await open();
      const lease = await store.takeLease({ run: "sample", label: "heir" });
      assert.equal(lease.epoch, 2);
      const error = await refuses("LEASE_LOST", () => save(dead, stale, { values: { from: "grave" } }));
      assert.equal(error.data["epoch"], 1);
      await refuses("LEASE_LOST", () => dead.renewLease(stale));
      await refuses("LEASE_LOST", () => dead.commit({ lease: stale, entries: [{ kind: "note", body: {} }] }));
      await dead.releaseLease(stale);
      assert.equal((await store.getLease("sample"))?.epoch, 2);
      const { checkpoint } = await save(store, lease, { values: { from: "heir" } });
      assert.equal(checkpoint?.sequence, 2);
      assert.deepEqual((await store.latest("sample"))?.planes.context.values, { from: "heir" });
    },
  },
  {
    name: "an owner with a reused pid, or of an earlier boot, is dead",
    async run({ open }) {
      const self = processIdentity();
      const reused = await open({ ...self, started: "1" });
      await leasedRun(reused);
      assert.equal((await (await open()).takeLease({ run: "sample", label: "x" })).epoch, 2);
      const earlier = await open({ ...self, boot: "00000000-0000-0000-0000-000000000000/pid:[1]" });
      await leasedRun(earlier, "other");
      assert.equal((await (await open()).takeLease({ run: "other", label: "x" })).epoch, 2);
    },
  },
  {
    name: "an owner on another host holds until its heartbeat is stale",
    async run({ open, clock }) {
      const store = await open();
      clock.set("2026-03-01T10:00:00.000Z");
      const far = await open({ host: "elsewhere", pid: 1, started: "1", boot: "other" });
      const lease = await leasedRun(far);
      clock.set("2026-03-01T10:00:20.000Z");
      const renewed = await far.renewLease(lease);
      assert.equal(renewed.heartbeatAt, "2026-03-01T10:00:20.000Z");
      assert.equal(renewed.epoch, lease.epoch);
      assert.equal((await store.getLease("sample"))?.heartbeatAt, renewed.heartbeatAt);
      clock.set("2026-03-01T10:00:45.000Z");
      await refuses("LEASE_HELD", () => store.takeLease({ run: "sample", label: "x", staleAfterMs: 30_000 }));
      await far.renewLease(renewed);
      clock.set("2026-03-01T10:01:10.000Z");
      await refuses("LEASE_HELD", () => store.takeLease({ run: "sample", label: "x", staleAfterMs: 30_000 }));
      clock.set("2026-03-01T10:01:20.000Z");
      assert.equal((await store.takeLease({ run: "sample", label: "x", staleAfterMs: 30_000 })).epoch, 2);
      await refuses("LEASE_LOST", () => far.renewLease(renewed));
    },
  },
  {
    name: "a clock that jumps back makes no lease stale at once, nor one that lasts for ever",
    async run({ open, clock }) {
      clock.set("2026-03-01T10:00:00.000Z");
      const far = await open({ host: "elsewhere", pid: 1, started: "1", boot: "other" });
      await leasedRun(far);
      const store = await open();
      const take = () => store.takeLease({ run: "sample", label: "x", staleAfterMs: 1000 });
      clock.set("2026-03-01T09:59:59.000Z");
      await refuses("LEASE_HELD", take);
      clock.set("2001-01-01T00:00:00.000Z");
      assert.equal((await take()).epoch, 2);
    },
  },
  {
    name: "a lease serves only the handle that took it",
    async run({ open }) {
      const [store, other] = [await open(), await open()];
      const lease = await leasedRun(store);
      await refuses("LEASE_LOST", () => save(other, lease));
      await other.releaseLease(lease);
      await save(store, lease);
    },
  },
  {
    name: "closing a handle lets go of its leases",
    async run({ open }) {
      const [store, other] = [await open(), await open()];
      await leasedRun(store);
      await store.close();
      assert.equal((await other.takeLease({ run: "sample", label: "next" })).epoch, 2);
    },
  },
];
