import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { openSqliteStore } from "./open.ts";
import { layoutOf } from "./sqlite-files.ts";
import type { Store } from "../store.ts";
import { rejectsWith } from "@holdfast/testing/refuses";
import { collect, leasedRun, save } from "@holdfast/testing/store-contract/harness";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";

let seed = 7;
function noise(length: number): string {
  let text = "";
  while (text.length < length) text += (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0).toString(36);
  return text;
}

async function fresh(): Promise<Store> {
  const store = await openSqliteStore({ directory: join(scratchDirectory(onTestFinished), "store") });
  onTestFinished(() => store.close());
  return store;
}

function edit(store: Store, sql: string): void {
  const db = new DatabaseSync(layoutOf(store.location).database, { timeout: 10_000 });
  db.exec(sql);
  db.close();
}

function rows(store: Store, sql: string): unknown {
  const db = new DatabaseSync(layoutOf(store.location).database, { timeout: 10_000 });
  const found = db.prepare(sql).all();
  db.close();
  return found;
}

async function problemsOf(store: Store): Promise<readonly unknown[]> {
  return (await collect(store.verify())).filter((event) => event.kind === "problem");
}

test("a sweep frees the space of dropped checkpoints, and keeps data that others share", async () => {
  const store = await fresh();
  const lease = await leasedRun(store);
  const shared = noise(50_000);
  for (let n = 1; n <= 10; n++) await save(store, lease, { values: { shared, own: noise(200_000), n } });
  await save(store, lease, { values: { shared, n: 11 } });
  const before = (await store.stats()).bytes;
  const drops = Array.from({ length: 10 }, (_, i) => ({ sequence: i + 1, why: "old" }));
  await store.drop({ run: "sample", drops });
  const dry = await store.sweep({ dryRun: true });
  const report = await store.sweep();
  expect(report).toEqual(dry);
  expect(report.freedBytes).toBeGreaterThan(1_000_000);
  expect((await store.latest("sample"))?.planes.context.values["shared"]).toBe(shared);
  expect(await problemsOf(store)).toEqual([]);
  await store.close();
  const again = await openSqliteStore({ directory: store.location });
  onTestFinished(() => again.close());
  expect((await again.stats()).bytes).toBeLessThan(before - 1_000_000);
});

test("the long bodies of journal entries are kept", async () => {
  const store = await fresh();
  const lease = await leasedRun(store);
  const result = { text: noise(100_000), list: Array.from({ length: 50 }, () => noise(600)) };
  await store.commit({ lease, entries: [{ kind: "note", body: { result } }] });
  expect((await store.sweep()).chunks).toBe(0);
  const [entry] = await collect(store.readJournal({ run: "sample", after: 2 }));
  expect(entry?.body).toEqual({ result });
  expect(await problemsOf(store)).toEqual([]);
});

test("with a damaged root or chunk nothing is freed: its references are unknown", async () => {
  for (const sql of [
    "UPDATE entries SET content = (SELECT content FROM entries WHERE entry = 3) WHERE entry = 4",
    "UPDATE chunks SET bytes = zeroblob(20) WHERE place = 1",
    "DELETE FROM chunks WHERE place = 1",
  ]) {
    const store = await fresh();
    const lease = await leasedRun(store);
    for (let n = 1; n <= 3; n++) await save(store, lease, { values: { text: noise(30_000), n } });
    edit(store, sql);
    const count = (): unknown => rows(store, "SELECT count(*) AS n FROM chunks");
    const before = count();
    await rejectsWith("STORE_CORRUPT", () => store.sweep());
    expect(count()).toEqual(before);
  }
});
