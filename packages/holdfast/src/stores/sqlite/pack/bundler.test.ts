import { cpSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import * as fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { layoutOf } from "../layout.ts";
import { openSqliteStore } from "../open.ts";
import type { JsonObject } from "@holdfast/core/json";
import type { Store } from "@holdfast/core/store";
import { collect, leasedRun, save } from "@holdfast/testing/store-contract/harness";
import { rejectsWith } from "@holdfast/testing/refuses";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";

async function opened(directory = join(scratchDirectory(onTestFinished), "store")): Promise<Store> {
  const store = await openSqliteStore({ directory });
  onTestFinished(() => store.close());
  return store;
}

async function problems(store: Store): Promise<readonly unknown[]> {
  return (await collect(store.verify())).filter((event) => event.kind === "problem");
}

function message(n: number): JsonObject {
  return {
    role: n % 2 === 0 ? "user" : "agent",
    text: `${n} says ${"what was said before, and more of it; ".repeat(25)}`,
  };
}

function transcript(length: number): JsonObject[] {
  return Array.from({ length }, (_, n) => message(n));
}

function count(store: Store, what: "raw" | "bundles"): number {
  const db = new DatabaseSync(layoutOf(store.location).database, { readOnly: true });
  try {
    const sql =
      what === "bundles"
        ? "SELECT count(*) AS n FROM bundles"
        : "SELECT count(*) AS n FROM log WHERE sequence IS NOT NULL AND substr(body, 1, 3) = x'010000'";
    return Number(db.prepare(sql).get()?.["n"]);
  } finally {
    db.close();
  }
}

async function turns(): Promise<void> {
  for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve));
}

test("saves are compressed together once enough of them wait, and read the same by every handle", async () => {
  const store = await opened();
  const other = await opened(store.location);
  const lease = await leasedRun(store);
  for (let n = 1; n <= 60; n++) {
    await save(store, lease, { values: { messages: transcript(n * 5) } });
    if (n === 20) await other.getCheckpoint({ run: "sample", sequence: 5 });
  }
  await turns();
  expect(count(store, "bundles")).toBeGreaterThan(0);
  for (const handle of [store, other, await opened(store.location)]) {
    for (const sequence of [1, 5, 33, 60]) {
      const { planes } = await handle.getCheckpoint({ run: "sample", sequence });
      expect(planes.context.values).toEqual({ messages: transcript(sequence * 5) });
    }
    expect(await problems(handle)).toEqual([]);
  }
  await store.close();
  expect(count(other, "raw")).toBe(0);
});

test("what a killed process left is compressed by the next one that writes, or sweeps", async () => {
  const store = await opened();
  const lease = await leasedRun(store);
  for (let n = 1; n <= 4; n++) await save(store, lease, { values: { messages: transcript(n * 5) } });
  expect(count(store, "raw")).toBe(4);
  for (const how of ["sweeps", "writes"] as const) {
    const killed = join(scratchDirectory(onTestFinished), "store");
    cpSync(store.location, killed, { recursive: true });
    const next = await opened(killed);
    if (how === "sweeps") await next.sweep();
    else await next.setMeta("anything", "written");
    if (how === "writes") await leasedRun(next, "another");
    await next.close();
    const reader = await opened(killed);
    expect(count(reader, "raw")).toBe(0);
    expect(await problems(reader)).toEqual([]);
    expect((await reader.latest("sample"))?.planes.context.values).toEqual({ messages: transcript(20) });
  }
});

test("saves go on where bundling fails, and what waited is compressed later, in several steps if it is much", async () => {
  const store = await opened();
  const lease = await leasedRun(store);
  const db = new DatabaseSync(layoutOf(store.location).database);
  onTestFinished(() => db.close());
  db.exec("CREATE TRIGGER no BEFORE INSERT ON bundles BEGIN SELECT RAISE(ROLLBACK, 'no'); END");
  const long = (n: number): string => `${n} `.repeat(90_000 / `${n} `.length);
  for (let n = 1; n <= 30; n++) {
    await save(store, lease, { values: { text: long(n) } });
    await turns();
  }
  expect(count(store, "raw")).toBe(30);
  expect(await problems(store)).toEqual([]);
  db.exec("DROP TRIGGER no");
  await store.sweep();
  expect(count(store, "raw")).toBe(0);
  expect(await problems(store)).toEqual([]);
  for (const sequence of [1, 24, 30]) {
    const { planes } = await store.getCheckpoint({ run: "sample", sequence });
    expect(planes.context.values).toEqual({ text: long(sequence) });
  }
});

test("a flipped bit in a bundle is told, and what it damaged can be dropped", async () => {
  const store = await opened();
  const lease = await leasedRun(store);
  for (let n = 1; n <= 4; n++) await save(store, lease, { values: { messages: transcript(n * 5) } });
  await save(store, lease, { values: { n: 5 } });
  await store.sweep();
  const db = new DatabaseSync(layoutOf(store.location).database);
  onTestFinished(() => db.close());
  const row = db.prepare("SELECT id, body FROM bundles").get();
  const body = Buffer.from(row?.["body"] instanceof Uint8Array ? row["body"] : []);
  body[body.length >> 1] = (body[body.length >> 1] ?? 0) ^ 4;
  db.prepare("UPDATE bundles SET body = ?").run(body);
  const fresh = await opened(store.location);
  expect((await problems(fresh)).length).toBeGreaterThan(0);
  await rejectsWith("STORE_CORRUPT", () => fresh.getCheckpoint({ run: "sample", sequence: 3 }));
  expect((await fresh.latest("sample"))?.sequence).toBe(5);
  await fresh.drop({ run: "sample", drops: [1, 2, 3, 4].map((sequence) => ({ sequence, why: "damaged" })) });
  await fresh.sweep();
  expect(await problems(fresh)).toEqual([]);
  expect(count(fresh, "bundles")).toBe(0);
});

/** Two handles on one store; what each saved stays as it was, whatever is dropped, swept and bundled in between. */
test("any order of saves, drops, sweeps and new handles keeps what is not dropped", async () => {
  const step = fc.oneof(
    { weight: 6, arbitrary: fc.record({ do: fc.constant("save"), by: fc.nat(1), to: fc.nat(90) }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant("drop"), by: fc.nat(1), to: fc.nat(40) }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constantFrom("sweep", "old", "reopen"), by: fc.nat(1), to: fc.nat() }) },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 30 }), async (steps) => {
      const directory = join(scratchDirectory(onTestFinished), "store");
      const stores = [await openSqliteStore({ directory }), await openSqliteStore({ directory })];
      const leases = await Promise.all(stores.map((store, i) => leasedRun(store, `r${i}`)));
      const expected: Map<number, number>[] = [new Map(), new Map()];
      for (const { do: what, by, to } of steps) {
        const [store, lease, mine] = [stores[by], leases[by], expected[by]];
        if (store === undefined || lease === undefined || mine === undefined) throw new Error("no such writer");
        switch (what) {
          case "save": {
            const { checkpoint } = await save(store, lease, { values: { messages: transcript(to) } });
            mine.set(checkpoint?.sequence ?? 0, to);
            break;
          }
          case "drop": {
            const sequence = [...mine.keys()].slice(0, -1)[to % Math.max(mine.size - 1, 1)];
            if (sequence === undefined) break;
            await store.drop({ run: `r${by}`, drops: [{ sequence, why: "x" }] });
            mine.delete(sequence);
            break;
          }
          case "sweep":
            await store.sweep();
            break;
          case "old":
            await store.sweep({ compressBefore: "2100-01-01T00:00:00.000Z" });
            break;
          case "reopen":
            await store.close();
            stores[by] = await openSqliteStore({ directory });
            leases[by] = await stores[by].takeLease({ run: `r${by}`, label: "again" });
        }
      }
      for (const store of stores) {
        for (const [by, mine] of expected.entries()) {
          for (const [sequence, length] of mine) {
            const { planes } = await store.getCheckpoint({ run: `r${by}`, sequence });
            expect(planes.context.values).toEqual({ messages: transcript(length) });
          }
        }
        expect(await problems(store)).toEqual([]);
      }
      for (const store of stores) await store.close();
    }),
    { numRuns: 12 },
  );
});
