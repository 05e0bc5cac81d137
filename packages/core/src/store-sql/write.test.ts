import { readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { rejectsWith } from "@holdfast/testing/refuses";
import { collect, leasedRun, save } from "@holdfast/testing/store-contract/harness";
import type { Store } from "../store.ts";
import { type OpenSqliteParams, openSqliteStore } from "./open.ts";
import { layoutOf } from "./sqlite-files.ts";

async function fresh(
  params: Partial<OpenSqliteParams> = {},
): Promise<{ readonly store: Store; readonly db: DatabaseSync }> {
  const directory = join(scratchDirectory(onTestFinished), "store");
  const store = await openSqliteStore({ directory, ...params });
  const db = new DatabaseSync(layoutOf(directory).database, { timeout: 60_000 });
  onTestFinished(async () => {
    if (db.isTransaction) db.exec("ROLLBACK");
    db.close();
    await store.close();
  });
  return { store, db };
}

/** Transactions in the write-ahead log: frames that end one, of the log's present generation. */
function commits(store: Store): number {
  const wal = readFileSync(layoutOf(store.location).wal);
  const salts = wal.subarray(16, 24);
  let count = 0;
  for (let at = 32; at + 24 + 4096 <= wal.length; at += 24 + 4096) {
    if (!wal.subarray(at + 8, at + 16).equals(salts)) break;
    if (wal.readUInt32BE(at + 4) !== 0) count += 1;
  }
  return count;
}

test("overlapping calls share one transaction, whatever runs they write to", async () => {
  const { store } = await fresh();
  const leases = await Promise.all(Array.from({ length: 20 }, (_, i) => leasedRun(store, `r${i}`)));
  const before = commits(store);
  await Promise.all(leases.map((lease, n) => save(store, lease, { values: { n } })));
  expect(commits(store)).toBe(before + 1);
  // Savers that continue as soon as they are answered stay together.
  const again = commits(store);
  await Promise.all(
    leases.map(async (lease) => {
      for (let n = 0; n < 3; n++) await save(store, lease, { values: { n, long: "x".repeat(5000) } });
    }),
  );
  expect(commits(store)).toBe(again + 3);
  expect((await store.getRun("r7"))?.checkpoints).toBe(4);
});

test("commits one after the other let timers run", async () => {
  const { store } = await fresh();
  const lease = await leasedRun(store);
  const fired: number[] = [];
  const timer = setInterval(() => fired.push(1), 1);
  // Counted in saves, not in time: if saves kept timers from running, no number of them would be enough.
  for (let n = 0; n < 20_000 && fired.length <= 3; n++) await save(store, lease, { values: { n } });
  clearInterval(timer);
  expect(fired.length).toBeGreaterThan(3);
});

test("a database locked by another process is waited for, with the event loop running", async () => {
  const { store, db } = await fresh();
  const lease = await leasedRun(store);
  db.exec("BEGIN IMMEDIATE");
  const saved = save(store, lease, { values: { n: 1 } });
  const more = store.setMeta("k", "v");
  setTimeout(() => db.exec("COMMIT"), 600);
  expect((await saved).checkpoint?.sequence).toBe(1);
  await more;
});

test("a database locked for too long is STORE_BUSY, and nothing was written", async () => {
  const { store, db } = await fresh({ busyMs: 300 });
  const lease = await leasedRun(store);
  db.exec("BEGIN IMMEDIATE");
  const error = await rejectsWith("STORE_BUSY", () => save(store, lease, { values: { n: 1 } }));
  expect(error.retry).toBe("later");
  db.exec("COMMIT");
  expect((await save(store, lease, { values: { n: 2 } })).checkpoint?.sequence).toBe(1);
});

test("writes of another connection in between are detected by the next save", async () => {
  const { store } = await fresh();
  const lease = await leasedRun(store);
  await save(store, lease, { values: { n: 1 } });
  const other = await openSqliteStore({ directory: store.location });
  onTestFinished(() => other.close());
  await other.tag({ run: "sample", sequence: 1, name: "t" });
  const { entry } = await save(store, lease, { values: { n: 2 } });
  expect(entry).toBe(5);
  await other.createRun({ id: "more", workflow: "w", work: { kind: "none" } });
  const [a, b] = await Promise.all([
    save(store, lease, { values: { n: 3 } }),
    save(store, lease, { values: { n: 4 } }),
  ]);
  expect([a.entry, b.entry]).toEqual([6, 7]);
  const journal = await collect(store.readJournal({ run: "sample" }));
  expect(journal.map(({ entry }) => entry)).toEqual([1, 2, 3, 4, 5, 6, 7]);
  expect((await collect(store.verify())).at(-1)).toMatchObject({ kind: "summary", ok: true });
});

test("a small save after a refused one of another run is chained to the stored entries", async () => {
  const { store, db } = await fresh();
  const lease = await leasedRun(store);
  const large = await leasedRun(store, "large");
  for (let n = 1; n <= 3; n++) await save(store, lease, { values: { n } });
  db.exec(
    "CREATE TRIGGER full BEFORE INSERT ON entries WHEN NEW.size > 4096 BEGIN SELECT RAISE(ROLLBACK, 'full'); END",
  );
  await expect(save(store, large, { values: { long: "x".repeat(9000) } })).rejects.toThrow(/full/);
  db.exec("DROP TRIGGER full");
  for (let n = 4; n <= 6; n++) await save(store, lease, { values: { n } });
  expect((await store.getRun("sample"))?.checkpoints).toBe(6);
  expect((await collect(store.verify())).filter((event) => event.kind === "problem")).toEqual([]);
});

test("a group with a call that violates a database constraint is retried one by one", async () => {
  const { store, db } = await fresh();
  const lease = await leasedRun(store);
  db.exec("CREATE TRIGGER no BEFORE INSERT ON entries WHEN NEW.kind = 'x.no' BEGIN SELECT RAISE(ABORT, 'no'); END");
  const results = await Promise.allSettled([
    save(store, lease, { values: { n: 1 } }),
    store.commit({ lease, entries: [{ kind: "x.no", body: {} }] }),
    save(store, lease, { values: { n: 2, long: "x".repeat(9000) } }),
  ]);
  expect(results.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  expect((await store.latest("sample"))?.planes.context.values["n"]).toBe(2);
  expect((await collect(store.verify())).filter((event) => event.kind === "problem")).toEqual([]);
});
