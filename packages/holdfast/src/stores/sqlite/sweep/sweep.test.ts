import { existsSync, mkdirSync, readdirSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { layoutOf } from "../layout.ts";
import { openSqliteStore } from "../open.ts";
import type { Store } from "@holdfast/core/store";
import { collect, createSetClock, leasedRun, save } from "@holdfast/testing/store-contract/harness";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";

const clock = createSetClock("2026-03-01T12:00:00.000Z");

async function fresh(): Promise<Store> {
  const store = await openSqliteStore({ directory: join(scratchDirectory(onTestFinished), "store"), clock });
  onTestFinished(() => store.close());
  return store;
}

async function expectWhole(store: Store): Promise<void> {
  expect((await collect(store.verify())).filter((event) => event.kind === "problem")).toEqual([]);
}

let seed = 7;
function noise(length: number): string {
  let text = "";
  while (text.length < length) text += (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0).toString(36);
  return text.slice(0, length);
}

function blobsOf(store: Store): string[] {
  const { blobs } = layoutOf(store.location);
  if (!existsSync(blobs)) return [];
  return readdirSync(blobs, { recursive: true, withFileTypes: true }).flatMap((entry) =>
    entry.isFile() ? [join(entry.parentPath, entry.name)] : [],
  );
}

test("what only dropped checkpoints needed is freed, whole packs and parts of packs", async () => {
  const store = await fresh();
  const lease = await leasedRun(store);
  const shared = Array.from({ length: 40 }, () => noise(700));
  await save(store, lease, { values: { shared, own: Array.from({ length: 200 }, () => noise(700)) } });
  await save(store, lease, { values: { shared, own: [] } });
  await save(store, lease, { values: { other: Array.from({ length: 50 }, () => noise(700)) } });
  await save(store, lease, { values: { shared } });
  expect(await store.sweep()).toMatchObject({ chunks: 0, packs: 0, freedBytes: 0 });
  await store.drop({
    run: "sample",
    drops: [
      { sequence: 1, why: "x" },
      { sequence: 3, why: "x" },
    ],
  });
  const dry = await store.sweep({ dryRun: true });
  const report = await store.sweep();
  expect(dry).toEqual(report);
  expect(report.packs).toBe(1);
  expect(report.chunks).toBeGreaterThan(200);
  expect(report.freedBytes).toBeGreaterThan(100_000);
  await expectWhole(store);
  expect((await store.latest("sample"))?.planes.context.values["shared"]).toEqual(shared);
  await save(store, lease, { values: { shared, own: ["again"] } });
  await expectWhole(store);
});

test("old packs are compressed harder, once, and read the same", async () => {
  const store = await fresh();
  const lease = await leasedRun(store);
  const text = Array.from(
    { length: 600 },
    (_, i) =>
      `line ${(i * 7919) % 101} of a log, ${["open", "close", "read", "write", "sync"][(i * 31) % 5]} of file ${(i * 104729) % 997} took ${(i * i) % 89} ms`,
  );
  clock.set("2026-01-01T00:00:00.000Z");
  await save(store, lease, { values: { text } });
  // Saves that wait for compression together are as old as the newest of them.
  await store.sweep();
  clock.set("2026-03-01T12:00:00.000Z");
  await save(store, lease, { values: { text, more: [...text].map((line) => `${line}!`) } });
  const report = await store.sweep({ compressBefore: "2026-02-01T00:00:00.000Z" });
  expect(report.recompressed).toBe(1);
  expect(report.freedBytes).toBeGreaterThan(0);
  expect((await store.sweep({ compressBefore: "2026-02-01T00:00:00.000Z" })).recompressed).toBe(0);
  expect((await store.getCheckpoint({ run: "sample", sequence: 1 })).planes.context.values["text"]).toEqual(text);
  await expectWhole(store);
});

test("files that nobody needs go when they are old, and only then", async () => {
  const store = await fresh();
  const lease = await leasedRun(store);
  await save(store, lease, { values: { big: noise(900_000) } });
  await save(store, lease, { values: { big: noise(900_000), kept: true } });
  await store.drop({ run: "sample", drops: [{ sequence: 1, why: "x" }] });
  const blobs = blobsOf(store);
  expect(blobs.length).toBeGreaterThan(1);
  const { directory } = layoutOf(store.location);
  const stray = join(directory, ".tmp-1234-store.json");
  const folder = join(directory, "blobs", "ab");
  mkdirSync(folder, { recursive: true });
  const strayBlob = join(folder, ".tmp-5678-blob");
  for (const path of [stray, strayBlob, join(directory, "somebody's file")]) writeFileSync(path, "left behind");
  clock.set(new Date().toISOString());
  expect(await store.sweep()).toMatchObject({ blobs: 0, temporaryFiles: 0 });
  const old = new Date(Date.now() - 2 * 3_600_000);
  for (const path of [...blobs, stray, strayBlob, join(directory, "somebody's file")]) utimesSync(path, old, old);
  expect(await store.sweep({ dryRun: true })).toMatchObject({ temporaryFiles: 2 });
  expect(existsSync(stray)).toBe(true);
  const report = await store.sweep();
  expect(report.temporaryFiles).toBe(2);
  expect(report.blobs).toBeGreaterThan(0);
  expect(report.freedBytes).toBeGreaterThan(400_000);
  expect(existsSync(stray) || existsSync(strayBlob)).toBe(false);
  expect(existsSync(join(directory, "somebody's file"))).toBe(true);
  expect(blobsOf(store).length).toBe(blobs.length - report.blobs);
  await expectWhole(store);
});

test("sweeps beside savers that come back to old states never take what a save leans on", async () => {
  const store = await fresh();
  const other = await openSqliteStore({ directory: store.location, clock });
  onTestFinished(() => other.close());
  const lease = await leasedRun(store);
  const states = Array.from({ length: 4 }, () => Array.from({ length: 60 }, () => noise(600)));
  let sequence = 0;
  for (let round = 0; round < 30; round++) {
    const saves = [0, 1].map((k) => save(store, lease, { values: { state: states[(round * 3 + k) % 4] ?? [] } }));
    const swept = other.sweep();
    const done = await Promise.all(saves);
    await swept;
    sequence = done.at(-1)?.checkpoint?.sequence ?? 0;
    const drops = (await other.listCheckpoints({ run: "sample", before: sequence })).map((one) => ({
      sequence: one.sequence,
      why: "old",
    }));
    await other.drop({ run: "sample", drops });
    if (round % 10 === 9) await expectWhole(other);
  }
  expect((await other.latest("sample"))?.sequence).toBe(sequence);
});

test("a state of many packs, saved while others write and sweep, comes out as it went in", async () => {
  const store = await fresh();
  const other = await openSqliteStore({ directory: store.location, clock });
  onTestFinished(() => other.close());
  const [lease, otherLease] = [await leasedRun(store, "big"), await leasedRun(other, "small")];
  const values = { text: noise(5_000_000), list: Array.from({ length: 3000 }, (_, i) => `${i} ${noise(300)}`) };
  const [{ checkpoint }] = await Promise.all([
    save(store, lease, { values }),
    (async () => {
      for (let n = 0; n < 20; n++) await save(other, otherLease, { values: { n, text: noise(6000) } });
      await other.sweep();
    })(),
  ]);
  expect(checkpoint?.size.logical).toBeGreaterThan(5_900_000);
  expect((await other.latest("big"))?.planes.context.values).toEqual(values);
  await expectWhole(other);
  const grown = await save(store, lease, { values: { ...values, n: 1 } });
  expect(grown.checkpoint?.size.added).toBeLessThan(20_000);
});
