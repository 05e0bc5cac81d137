// Cases of the store contract about runs and leases.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import type { NewEntry } from "@holdfast/core/journal";
import type { Store } from "@holdfast/core/store";
import { processIdentity } from "@holdfast/platform/identity";
import { rejectsWith } from "../refuses.ts";
import { type OwnerIdentity, type StoreCase, assertFrozen, collect, leasedRun, samplePlanes, save } from "./harness.ts";

async function problemsOf(store: Store): Promise<readonly string[]> {
  const events = await collect(store.verify());
  return events.flatMap((event) => (event.kind === "problem" ? [event.problem.what] : []));
}

export const runCases: readonly StoreCase[] = [
  {
    name: "a run has the same fields as at its creation, in every handle",
    async run({ open, clock }) {
      const [store, other] = [await open(), await open()];
      clock.set("2026-03-01T10:00:00.000Z");
      const labels = { team: "blue" };
      const created = await store.createRun({ id: "r1", workflow: "impl", work: { kind: "issue", number: 7 }, labels });
      labels.team = "red";
      const expected = {
        id: "r1",
        createdAt: "2026-03-01T10:00:00.000Z",
        workflow: "impl",
        work: { kind: "issue", number: 7 },
        forkedFrom: null,
        labels: { team: "blue" },
      };
      assert.deepEqual({ ...created }, expected);
      assertFrozen(created);
      const read = await other.getRun("r1");
      const nothing = { unfinishedRestore: null, checkpoints: 0, latest: null, entries: 1 };
      assert.deepEqual({ ...read }, { ...expected, state: { kind: "active" }, ...nothing });
      assertFrozen(read);
      assert.equal(await other.getRun("r2"), undefined);
      assert.equal(store.id, other.id);
      assert.notEqual(store.id, "");
    },
  },
  {
    name: "creating the same run again returns it; another under its id is refused",
    async run({ open, clock }) {
      const store = await open();
      const wish = { id: "r1", workflow: "impl", work: { kind: "task", text: "do" }, labels: { a: 1, b: 2 } } as const;
      const first = await store.createRun(wish);
      clock.set("2027-01-01T00:00:00.000Z");
      const again = await (await open()).createRun({ ...wish, labels: { b: 2, a: 1 } });
      assert.deepEqual(again, first);
      assert.equal((await collect(store.readJournal({ run: "r1" }))).length, 1);
      const error = await rejectsWith("RUN_EXISTS", () => store.createRun({ ...wish, workflow: "crunch" }));
      assert.equal(error.data["run"], "r1");
      await rejectsWith("RUN_EXISTS", () => store.createRun({ ...wish, labels: {} }));
    },
  },
  {
    name: "a fork remembers its origin, and its first checkpoint names it as parent",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store, "origin");
      const { checkpoint } = await save(store, lease, { values: { n: 1 } });
      assert.ok(checkpoint);
      const forkedFrom = { id: checkpoint.id, digest: checkpoint.digest };
      const fork = await store.createRun({ id: "fork", workflow: "sample", work: { kind: "none" }, forkedFrom });
      assert.deepEqual({ ...fork.forkedFrom }, forkedFrom);
      const forkLease = await store.takeLease({ run: "fork", label: "fork" });
      const first = await save(store, forkLease, { trigger: "fork", parent: forkedFrom, values: { n: 1 } });
      assert.deepEqual({ ...first.checkpoint?.parent }, forkedFrom);
      const second = await save(store, forkLease, { values: { n: 2 } });
      assert.deepEqual({ ...second.checkpoint?.parent }, { id: "fork@1", digest: first.checkpoint?.digest });
      assert.deepEqual({ ...(await store.getCheckpoint({ run: "fork", sequence: 1 })).parent }, forkedFrom);
    },
  },
  {
    name: "runs are listed newest first, by creation and not by the clock",
    async run({ open, clock }) {
      const store = await open();
      for (const [id, workflow] of [
        ["a", "impl"],
        ["b", "ralph"],
        ["c", "impl"],
      ] as const) {
        await store.createRun({ id, workflow, work: { kind: "none" } });
        clock.set(id === "a" ? "2020-01-01T00:00:00.000Z" : "2019-01-01T00:00:00.000Z");
      }
      const ids = async (query?: { limit?: number; workflow?: string }) =>
        (await store.listRuns(query)).map((run) => run.id);
      assert.deepEqual(await ids(), ["c", "b", "a"]);
      assert.deepEqual(await ids({ limit: 2 }), ["c", "b"]);
      assert.deepEqual(await ids({ workflow: "impl" }), ["c", "a"]);
      assert.deepEqual(await ids({ workflow: "impl", limit: 1 }), ["c"]);
      assertFrozen(await store.listRuns());
    },
  },
  {
    name: "a run's state is the fold of its journal",
    async run({ open, clock }) {
      const store = await open();
      const lease = await leasedRun(store);
      const state = async () => ({ ...(await store.getRun("sample"))?.state });
      await store.commit({
        lease,
        entries: [{ kind: "run.waiting", body: { for: "quota", reason: "spent", until: "2026-04-01T00:00:00.000Z" } }],
      });
      assert.deepEqual(await state(), {
        kind: "waiting",
        for: "quota",
        reason: "spent",
        until: "2026-04-01T00:00:00.000Z",
      });
      await store.commit({
        lease,
        entries: [
          { kind: "run.continued", body: {} },
          { kind: "note", body: {} },
        ],
      });
      assert.deepEqual(await state(), { kind: "active" });
      clock.set("2026-03-02T00:00:00.000Z");
      await store.commit({ lease, entries: [{ kind: "run.ended", body: { outcome: "failed", reason: "no" } }] });
      assert.deepEqual(await state(), { kind: "failed", at: "2026-03-02T00:00:00.000Z", reason: "no" });
      clock.set("2026-03-03T00:00:00.000Z");
      await store.commit({ lease, entries: [{ kind: "run.ended", body: { outcome: "done" } }] });
      assert.deepEqual(await state(), { kind: "failed", at: "2026-03-02T00:00:00.000Z", reason: "no" });
      await store.commit({
        lease,
        entries: [
          { kind: "run.reopened", body: { reason: "once more" } },
          { kind: "run.ended", body: { outcome: "done" } },
        ],
      });
      assert.deepEqual(await state(), { kind: "done", at: "2026-03-03T00:00:00.000Z" });
      const summary = await (await open()).getRun("sample");
      assert.equal(summary?.entries, 9);
      assertFrozen(summary);
      assert.deepEqual(await problemsOf(store), []);
    },
  },
  {
    name: "a restore that began is shown until one has finished",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      const unfinished = async () => (await (await open()).getRun("sample"))?.unfinishedRestore;
      await store.commit({ lease, entries: [{ kind: "restore.started", body: { target: "sample@3", paths: null } }] });
      await save(store, lease);
      assert.equal(await unfinished(), "sample@3");
      await store.commit({ lease, entries: [{ kind: "restore.started", body: { target: "sample@2", paths: null } }] });
      assert.equal(await unfinished(), "sample@2");
      assert.deepEqual(await problemsOf(store), []);
      await store.commit({ lease, entries: [{ kind: "restore.finished", body: { target: "sample@2" } }] });
      assert.equal(await unfinished(), null);
      assert.deepEqual(await problemsOf(store), []);
    },
  },
  {
    name: "a run entry with an unreadable body is refused, and nothing is written",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      const bad: readonly NewEntry[] = [
        { kind: "run.ended", body: { outcome: "perhaps" } },
        { kind: "run.waiting", body: { on: "moon", reason: "", until: null } },
        { kind: "run.reopened", body: {} },
      ];
      for (const entry of bad)
        await rejectsWith("USAGE", () => store.commit({ lease, entries: [{ kind: "note", body: {} }, entry] }));
      assert.equal((await store.getRun("sample"))?.entries, 2);
    },
  },
  {
    name: "invalid ids and runs that do not exist are refused",
    async run({ open }) {
      const store = await open();
      for (const id of ["", "UPPER", "../x", "a/b", "-a", "a".repeat(64), "a b"]) {
        await rejectsWith("USAGE", () => store.createRun({ id, workflow: "w", work: { kind: "none" } }));
        await rejectsWith("USAGE", () => store.getRun(id));
      }
      await rejectsWith("RUN_NOT_FOUND", () => store.takeLease({ run: "gone", label: "x" }));
      await rejectsWith("RUN_NOT_FOUND", () => store.latest("gone"));
      await rejectsWith("RUN_NOT_FOUND", () => store.listCheckpoints({ run: "gone" }));
      await rejectsWith("RUN_NOT_FOUND", () => collect(store.readJournal({ run: "gone" })));
      await rejectsWith("RUN_NOT_FOUND", () => store.getCheckpoint({ run: "gone", sequence: 1 }));
      await rejectsWith("RUN_NOT_FOUND", () => store.tag({ run: "gone", sequence: 1, name: "t" }));
      await rejectsWith("RUN_NOT_FOUND", () => store.drop({ run: "gone", drops: [] }));
    },
  },
];

/** The identity of a process on this host that has ended. */
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
      const error = await rejectsWith("LEASE_HELD", () =>
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
    name: "a dead owner's lease is acquired immediately with the next epoch, and the dead owner is fenced",
    async run({ open }) {
      const dead = await open(endedProcess());
      const stale = await leasedRun(dead);
      await save(dead, stale, { values: { from: "dead" } });
      const store = await open();
      const lease = await store.takeLease({ run: "sample", label: "heir" });
      assert.equal(lease.epoch, 2);
      const error = await rejectsWith("LEASE_LOST", () => save(dead, stale, { values: { from: "grave" } }));
      assert.equal(error.data["epoch"], 1);
      await rejectsWith("LEASE_LOST", () => dead.renewLease(stale));
      await rejectsWith("LEASE_LOST", () => dead.commit({ lease: stale, entries: [{ kind: "note", body: {} }] }));
      await dead.releaseLease(stale);
      assert.equal((await store.getLease("sample"))?.epoch, 2);
      const { checkpoint } = await save(store, lease, { values: { from: "heir" } });
      assert.equal(checkpoint?.sequence, 2);
      assert.deepEqual((await store.latest("sample"))?.planes.context.values, { from: "heir" });
    },
  },
  {
    // Machines that share a database can have the same name: there another boot proves nothing before the heartbeat is stale.
    name: "an owner with a reused pid is dead, and one of an earlier boot at the latest when its heartbeat is stale",
    async run({ open, clock }) {
      clock.set("2026-03-01T10:00:00.000Z");
      const self = processIdentity();
      const reused = await open({ ...self, started: "1" });
      await leasedRun(reused);
      assert.equal((await (await open()).takeLease({ run: "sample", label: "x" })).epoch, 2);
      const earlier = await open({ ...self, boot: "00000000-0000-0000-0000-000000000000/pid:[1]" });
      await leasedRun(earlier, "other");
      clock.set("2026-03-01T10:05:00.000Z");
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
      await rejectsWith("LEASE_HELD", () => store.takeLease({ run: "sample", label: "x", staleAfterMs: 30_000 }));
      await far.renewLease(renewed);
      clock.set("2026-03-01T10:01:10.000Z");
      await rejectsWith("LEASE_HELD", () => store.takeLease({ run: "sample", label: "x", staleAfterMs: 30_000 }));
      clock.set("2026-03-01T10:01:20.000Z");
      assert.equal((await store.takeLease({ run: "sample", label: "x", staleAfterMs: 30_000 })).epoch, 2);
      await rejectsWith("LEASE_LOST", () => far.renewLease(renewed));
    },
  },
  {
    name: "a user's decision takes the lease of a living owner, once, and the owner is fenced",
    async run({ open, clock }) {
      const [owner, first, second] = [await open(), await open(), await open()];
      clock.set("2026-03-01T10:00:00.000Z");
      const stale = await leasedRun(owner);
      await save(owner, stale, { values: { from: "owner" } });
      assert.equal(await first.now(), Date.parse("2026-03-01T10:00:00.000Z"));
      await rejectsWith("LEASE_HELD", () => first.takeLease({ run: "sample", label: "first" }));
      const takes = [first, second].map((store) =>
        store.takeLease({ run: "sample", label: "taker", over: stale.epoch }).then(
          () => "taken",
          ({ code }: { readonly code: string }) => code,
        ),
      );
      assert.deepEqual((await Promise.all(takes)).toSorted(), ["LEASE_HELD", "taken"]);
      assert.equal((await owner.getLease("sample"))?.epoch, 2);
      await rejectsWith("LEASE_LOST", () => save(owner, stale, { values: { from: "grave" } }));
      await rejectsWith("LEASE_LOST", () => owner.renewLease(stale));
      await owner.releaseLease(stale);
      assert.equal((await first.getLease("sample"))?.epoch, 2);
      assert.deepEqual((await second.latest("sample"))?.planes.context.values, { from: "owner" });
      const [, taken] = (await collect(first.readJournal({ run: "sample" }))).filter(
        ({ kind }) => kind === "lease.taken",
      );
      assert.equal(Reflect.get(Object(taken?.body["from"]), "heartbeatAt"), "2026-03-01T10:00:00.000Z");
    },
  },
  {
    name: "a clock that jumps back makes no lease stale immediately, and none permanent",
    async run({ open, clock }) {
      clock.set("2026-03-01T10:00:00.000Z");
      const far = await open({ host: "elsewhere", pid: 1, started: "1", boot: "other" });
      await leasedRun(far);
      const store = await open();
      const take = () => store.takeLease({ run: "sample", label: "x", staleAfterMs: 1000 });
      clock.set("2026-03-01T09:59:59.000Z");
      await rejectsWith("LEASE_HELD", take);
      clock.set("2001-01-01T00:00:00.000Z");
      assert.equal((await take()).epoch, 2);
    },
  },
  {
    name: "a lease serves only the handle that took it",
    async run({ open }) {
      const [store, other] = [await open(), await open()];
      const lease = await leasedRun(store);
      await rejectsWith("LEASE_LOST", () => save(other, lease));
      await other.releaseLease(lease);
      await save(store, lease);
    },
  },
  {
    name: "closing a handle releases its leases",
    async run({ open }) {
      const [store, other] = [await open(), await open()];
      await leasedRun(store);
      await store.close();
      assert.equal((await other.takeLease({ run: "sample", label: "next" })).epoch, 2);
    },
  },
  {
    name: "slots are granted up to the limit, freed by release and by a crash, and kept by their holder",
    async run({ open }) {
      const [store, other, third, dead] = [await open(), await open(), await open(), await open(endedProcess())];
      for (const id of ["a", "b", "c", "d"]) await store.createRun({ id, workflow: "none", work: { kind: "none" } });
      const slot = { limit: 2, wait: false };
      const first = await store.takeLease({ run: "a", label: "x", slot });
      assert.equal(first.slot, "working");
      assertFrozen(first);
      assert.equal((await dead.takeLease({ run: "d", label: "x", slot })).slot, "working");
      const second = await other.takeLease({ run: "b", label: "x", slot });
      const error = await rejectsWith("LOOP_LIMIT", () => third.takeLease({ run: "c", label: "x", slot }));
      assert.deepEqual(
        [error.data["limit"], error.message.includes("a (pid") && error.message.includes("b (pid")],
        [2, true],
      );
      assert.equal(await third.getLease("c"), undefined);
      assert.deepEqual(await store.takeLease({ run: "a", label: "x", slot: { limit: 1, wait: false } }), first);
      const plain = await third.takeLease({ run: "c", label: "a save by hand" });
      assert.equal(plain.slot, undefined);
      assert.equal(
        (await third.takeLease({ run: "c", label: "x", slot: { limit: null, wait: false } })).slot,
        "working",
      );
      assert.equal((await store.getLease("c"))?.slot, "working");
      await third.releaseLease(plain);
      await other.releaseLease(second);
      assert.equal((await third.takeLease({ run: "c", label: "x", slot })).slot, "working");
      assert.deepEqual((await store.listLeases()).map(({ run }) => run).toSorted(), ["a", "c", "d"]);
    },
  },
  {
    name: "a run and its lease are created together or not at all",
    async run({ open }) {
      const [store, other] = [await open(), await open()];
      const birth = { workflow: "none", work: { kind: "task", text: "a" }, labels: { by: "x" } } as const;
      const take = (handle: typeof store, run: string) =>
        handle.takeLease({ run, label: "x", slot: { limit: 1, wait: false }, birth });
      const lease = await take(store, "a");
      assert.deepEqual([lease.epoch, lease.slot, (await store.getLease("a"))?.epoch], [1, "working", 1]);
      const kinds = (await collect(other.readJournal({ run: "a" }))).map(({ kind }) => kind);
      assert.deepEqual(kinds, ["run.created", "lease.taken"]);
      await save(store, lease);
      await rejectsWith("LOOP_LIMIT", () => take(other, "b"));
      assert.deepEqual([await other.getRun("b"), (await store.listRuns()).length], [undefined, 1]);
      await rejectsWith("RUN_NOT_FOUND", () => other.takeLease({ run: "b", label: "x" }));
      await store.releaseLease(lease);
      // The same birth again is the same run; another birth is a conflict.
      assert.equal((await take(other, "a")).epoch, 2);
      await rejectsWith("RUN_EXISTS", () =>
        other.takeLease({ run: "a", label: "x", birth: { ...birth, workflow: "other" } }),
      );
      await rejectsWith("USAGE", () => other.takeLease({ run: "No Id", label: "x", birth }));
    },
  },
  {
    name: "a run that is created with its lease has its first commit in the same transaction, once",
    async run({ open }) {
      const [store, other] = [await open(), await open()];
      const first = (n: number) => ({
        entries: [{ kind: "note", body: { text: `first ${n}` } } as const],
        checkpoint: { sequence: 1, trigger: "stage", planes: samplePlanes({ values: { n } }) } as const,
      });
      const birth = { workflow: "sample", work: { kind: "none" } } as const;
      const take = (handle: Store, n: number, run = "a") =>
        handle.takeLease({ run, label: "x", birth: { ...birth, first: first(n) } });
      // Of two callers at once, one has the run, and the other leaves nothing of its own behind.
      const answers = await Promise.allSettled([take(store, 1), take(other, 2)]);
      assert.deepEqual(answers.map(({ status }) => status).toSorted(), ["fulfilled", "rejected"]);
      const kinds = async (run = "a") => (await collect(store.readJournal({ run }))).map(({ kind }) => kind);
      assert.deepEqual(await kinds(), ["run.created", "lease.taken", "note", "checkpoint"]);
      const [winner, loser] = answers[0]?.status === "fulfilled" ? [store, other] : [other, store];
      const n = winner === store ? 1 : 2;
      assert.deepEqual((await other.latest("a"))?.planes.context.values, { n });
      const lease = await winner.getLease("a");
      assert.ok(lease !== undefined);
      await save(winner, lease);
      await winner.close();
      // The next owner finds a checkpoint, so its own first commit does not count.
      assert.equal((await take(loser, 3)).epoch, 2);
      assert.deepEqual(
        (await loser.listCheckpoints({ run: "a" })).map(({ sequence }) => sequence),
        [2, 1],
      );
      // Who has created a run so need not read it. Others do not get what they have not made.
      const made = await take(loser, 4, "c");
      assert.deepEqual(made.created, { run: await loser.getRun("c"), first: await loser.latest("c") });
      assert.deepEqual((await take(loser, 5, "c")).created, undefined);
      // A run whose creator died before the first checkpoint gets it from the next one.
      await loser.createRun({ id: "b", ...birth });
      assert.equal((await take(loser, 4, "b")).created, undefined);
      assert.deepEqual((await loser.latest("b"))?.planes.context.values, { n: 4 });
    },
  },
  {
    name: "a first commit that is refused creates no run and takes no lease",
    async run({ open }) {
      const store = await open();
      const birth = { workflow: "sample", work: { kind: "none" } } as const;
      const take = (run: string, entry: NewEntry) =>
        store.takeLease({
          run,
          label: "x",
          birth: { ...birth, first: { entries: [entry], checkpoint: { trigger: "stage", planes: samplePlanes() } } },
        });
      // Known only when the entries are applied, after the lease was planned.
      await rejectsWith("USAGE", () => take("a", { kind: "run.ended", body: {} }));
      assert.deepEqual([await store.getRun("a"), await store.listLeases()], [undefined, []]);
      await leasedRun(store, "b");
      assert.equal((await take("b", { kind: "note", body: { text: "x" } })).epoch, 1);
      assert.deepEqual(await problemsOf(store), []);
    },
  },
  {
    name: "a commit can release its lease, and a refused one does not",
    async run({ open }) {
      const [store, other] = [await open(), await open()];
      const lease = await leasedRun(store);
      const checkpoint = { trigger: "stage", planes: samplePlanes() } as const;
      await rejectsWith("CONFLICT", () =>
        store.commit({ lease, checkpoint: { ...checkpoint, sequence: 9 }, release: true }),
      );
      await save(store, lease);
      const { entry } = await store.commit({ lease, checkpoint, release: true });
      const last = await collect(other.readJournal({ run: "sample", after: entry - 1 }));
      assert.deepEqual(
        last.map(({ kind }) => kind),
        ["checkpoint", "lease.released"],
      );
      assert.equal(await other.getLease("sample"), undefined);
      await rejectsWith("LEASE_LOST", () => save(store, lease));
      await store.releaseLease(lease);
      assert.equal((await other.takeLease({ run: "sample", label: "next" })).epoch, 2);
      assert.deepEqual(await problemsOf(store), []);
    },
  },
  {
    name: "a run that waits for a slot keeps its lease, and its turn comes by priority, then by age",
    async run({ open, clock }) {
      const handles = [await open(), await open(), await open(), await open()];
      const [store, early, late, urgent] = handles;
      assert.ok(store !== undefined && early !== undefined && late !== undefined && urgent !== undefined);
      for (const id of ["a", "b", "c", "d"]) await store.createRun({ id, workflow: "none", work: { kind: "none" } });
      const slot = { limit: 1, wait: true };
      clock.set("2026-03-01T10:00:00.000Z");
      const working = await store.takeLease({ run: "a", label: "x", slot });
      const ask = (handle: typeof store, run: string) => handle.takeLease({ run, label: "x", slot });
      clock.set("2026-03-01T10:00:01.000Z");
      const waiting = await ask(early, "b");
      assert.equal(waiting.slot, "waiting");
      await rejectsWith("LEASE_HELD", () => ask(late, "b"));
      clock.set("2026-03-01T10:00:02.000Z");
      assert.equal((await ask(late, "c")).slot, "waiting");
      clock.set("2026-03-01T10:00:03.000Z");
      await store.setMeta("priority/d", "10");
      assert.equal((await ask(urgent, "d")).slot, "waiting");
      await early.renewLease(waiting);
      assert.equal((await store.getLease("b"))?.slot, "waiting");
      await store.releaseLease(working);
      // The caller that does not wait comes after all in the queue.
      await rejectsWith("LOOP_LIMIT", () => store.takeLease({ run: "a", label: "x", slot: { limit: 1, wait: false } }));
      assert.deepEqual([(await ask(late, "c")).slot, (await ask(early, "b")).slot], ["waiting", "waiting"]);
      const served = await ask(urgent, "d");
      assert.deepEqual([served.slot, served.epoch], ["working", 1]);
      await urgent.commit({ lease: served, entries: [{ kind: "note", body: {} }] });
      await urgent.releaseLease(served);
      assert.deepEqual([(await ask(late, "c")).slot, (await ask(early, "b")).slot], ["waiting", "working"]);
      await early.close();
      assert.equal((await ask(late, "c")).slot, "working");
    },
  },
];
