import assert from "node:assert/strict";
import { assertFrozen, collect } from "./harness.ts";
import { refuses } from "../refuses.ts";
import type { StoreCase } from "./harness.ts";
import { leasedRun, save } from "./sample.ts";
import type { NewEntry } from "../../core/journal/journal.ts";
import type { Store } from "../../ports/store.ts";

async function problemsOf(store: Store): Promise<readonly string[]> {
  const events = await collect(store.verify());
  return events.flatMap((event) => (event.kind === "problem" ? [event.problem.what] : []));
}

export const runCases: readonly StoreCase[] = [
  {
    name: "a run is what it was created as, in every handle",
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
      assert.deepEqual({ ...read }, { ...expected, state: { kind: "open" }, ...nothing });
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
      const error = await refuses("RUN_EXISTS", () => store.createRun({ ...wish, workflow: "crunch" }));
      assert.equal(error.data["run"], "r1");
      await refuses("RUN_EXISTS", () => store.createRun({ ...wish, labels: {} }));
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
        entries: [{ kind: "run.parked", body: { on: "quota", reason: "spent", until: "2026-04-01T00:00:00.000Z" } }],
      });
      assert.deepEqual(await state(), {
        kind: "parked",
        on: "quota",
        reason: "spent",
        until: "2026-04-01T00:00:00.000Z",
      });
      await store.commit({
        lease,
        entries: [
          { kind: "run.unparked", body: {} },
          { kind: "note", body: {} },
        ],
      });
      assert.deepEqual(await state(), { kind: "open" });
      clock.set("2026-03-02T00:00:00.000Z");
      await store.commit({ lease, entries: [{ kind: "run.ended", body: { outcome: "fatal", reason: "no" } }] });
      assert.deepEqual(await state(), { kind: "fatal", at: "2026-03-02T00:00:00.000Z", reason: "no" });
      clock.set("2026-03-03T00:00:00.000Z");
      await store.commit({ lease, entries: [{ kind: "run.ended", body: { outcome: "done" } }] });
      assert.deepEqual(await state(), { kind: "fatal", at: "2026-03-02T00:00:00.000Z", reason: "no" });
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
    name: "an entry about the run with a body that could not be read is refused, and nothing is written",
    async run({ open }) {
      const store = await open();
      const lease = await leasedRun(store);
      const bad: readonly NewEntry[] = [
        { kind: "run.ended", body: { outcome: "perhaps" } },
        { kind: "run.parked", body: { on: "moon", reason: "", until: null } },
        { kind: "run.reopened", body: {} },
      ];
      for (const entry of bad)
        await refuses("USAGE", () => store.commit({ lease, entries: [{ kind: "note", body: {} }, entry] }));
      assert.equal((await store.getRun("sample"))?.entries, 2);
    },
  },
  {
    name: "ids that are not ids and runs that are not there are refused",
    async run({ open }) {
      const store = await open();
      for (const id of ["", "UPPER", "../x", "a/b", "-a", "a".repeat(64), "a b"]) {
        await refuses("USAGE", () => store.createRun({ id, workflow: "w", work: { kind: "none" } }));
        await refuses("USAGE", () => store.getRun(id));
      }
      await refuses("RUN_NOT_FOUND", () => store.takeLease({ run: "gone", label: "x" }));
      await refuses("RUN_NOT_FOUND", () => store.latest("gone"));
      await refuses("RUN_NOT_FOUND", () => store.listCheckpoints({ run: "gone" }));
      await refuses("RUN_NOT_FOUND", () => collect(store.readJournal({ run: "gone" })));
      await refuses("RUN_NOT_FOUND", () => store.getCheckpoint({ run: "gone", sequence: 1 }));
      await refuses("RUN_NOT_FOUND", () => store.tag({ run: "gone", sequence: 1, name: "t" }));
      await refuses("RUN_NOT_FOUND", () => store.drop({ run: "gone", drops: [] }));
    },
  },
];
