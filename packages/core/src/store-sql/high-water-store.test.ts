import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { leasedRun, save } from "@holdfast/testing/store-contract/harness";
import type { Store } from "../store.ts";
import { openHighWaterMark, slotOffset } from "./high-water.ts";
import { openSqliteStore } from "./open.ts";
import { layoutOf } from "./sqlite-files.ts";

const SLOT = 64;
const BANKS = [0, 1] as const;
const cleanUps: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

test("an acknowledged commit is in the mark", async () => {
  const { directory, store } = await opened();
  const lease = await leasedRun(store);
  for (let n = 0; n < 3; n++) {
    const { entry, head } = await save(store, lease);
    expect(await recorded(directory, 1)).toEqual({ entry, hash: head });
  }
  const other = await leasedRun(store, "other");
  const both = await Promise.all([save(store, lease), save(store, other)]);
  const seen = await Promise.all([recorded(directory, 1), recorded(directory, 2)]);
  expect(seen.map((one) => one?.hash)).toEqual(both.map(({ head }) => head));
});

test("a truncated log of a killed writer is detected", async () => {
  const { directory, store } = await opened();
  const lease = await leasedRun(store);
  for (let n = 0; n < 3; n++) await save(store, lease);
  // What kill -9 leaves: the files as they are, unclosed.
  const left = folder();
  cpSync(directory, left, { recursive: true });
  const { wal, sharedMemory } = layoutOf(left);
  writeFileSync(wal, readFileSync(wal).subarray(0, -4096));
  rmSync(sharedMemory);
  await expect(openSqliteStore({ directory: left })).rejects.toMatchObject({ code: "STORE_CUT" });
});

test("with its newest record torn, the mark still shows a truncated database", async () => {
  const { directory, store } = await opened();
  const lease = await leasedRun(store);
  for (let n = 0; n < 3; n++) await save(store, lease);
  const left = folder();
  cpSync(directory, left, { recursive: true });
  const { wal, highWater: mark, sharedMemory } = layoutOf(left);
  for (const bank of BANKS) {
    const bytes = readFileSync(layoutOf(directory).highWater);
    bytes.fill(0xff, slotOffset(1, bank) + 20, slotOffset(1, bank) + SLOT);
    writeFileSync(mark, bytes);
    const whole = (await opened(left)).store;
    expect(await problems(whole)).toEqual([]);
    await whole.close();
    rmSync(left, { recursive: true });
    cpSync(directory, left, { recursive: true });
    writeFileSync(mark, bytes);
    // Two transactions and more: the record before the torn one is one commit older.
    writeFileSync(wal, readFileSync(wal).subarray(0, -16 * 4096));
    rmSync(sharedMemory);
    await expect(openSqliteStore({ directory: left })).rejects.toMatchObject({ code: "STORE_CUT" });
    rmSync(left, { recursive: true });
    cpSync(directory, left, { recursive: true });
  }
});

test("runs that commit together are each recorded, adjacent or not", async () => {
  const { directory, store } = await opened();
  const leases = [];
  for (const id of ["a", "b", "c", "d", "e", "f"]) leases.push(await leasedRun(store, id));
  const chosen = leases.filter((_, i) => i !== 2);
  const committed = await Promise.all(chosen.toReversed().map((lease) => save(store, lease)));
  const seen = await Promise.all([6, 5, 4, 2, 1].map((no) => recorded(directory, no)));
  expect(seen).toEqual(committed.map(({ entry, head }) => ({ entry, hash: head })));
  expect((await recorded(directory, 3))?.entry).toBe(2);
});

describe("a changed mark", () => {
  test.each([
    ["emptied", Buffer.alloc(0)],
    ["all zeros", Buffer.alloc(200)],
  ])("%s: reported, and rewritten by the next commit", async (_, bytes) => {
    const { directory, store } = await opened();
    await leasedRun(store);
    await store.close();
    writeFileSync(layoutOf(directory).highWater, bytes);
    const again = (await opened(directory)).store;
    expect(await problems(again)).toEqual([["STORE_MISSING", expect.stringContaining("was emptied")]]);
    const lease = await again.takeLease({ run: "sample", label: "x" });
    const { entry, head } = await save(again, lease);
    expect(await recorded(directory, 1)).toEqual({ entry, hash: head });
    expect(await problems(again)).toEqual([]);
  });

  test("zeros at its beginning: reported, and rewritten", async () => {
    const { directory, store } = await opened();
    const lease = await leasedRun(store);
    await store.close();
    const { highWater: mark } = layoutOf(directory);
    const bytes = readFileSync(mark);
    for (const bank of BANKS) bytes.fill(0, slotOffset(0, bank), slotOffset(0, bank) + SLOT);
    writeFileSync(mark, bytes);
    const again = (await opened(directory)).store;
    expect(await problems(again)).toEqual([["STORE_CORRUPT", expect.any(String)]]);
    await again.takeLease({ run: lease.run, label: "x" });
    expect(await problems(again)).toEqual([]);
  });

  test("other bytes, or another store's: damage, and kept", async () => {
    const { directory, store } = await opened();
    const lease = await leasedRun(store);
    await store.close();
    const foreign = await opened();
    await foreign.store.close();
    const { highWater: mark } = layoutOf(directory);
    for (const bytes of [Buffer.alloc(300, "x"), readFileSync(layoutOf(foreign.directory).highWater)]) {
      writeFileSync(mark, bytes);
      const again = (await opened(directory)).store;
      await again.takeLease({ run: lease.run, label: "x" });
      expect(await problems(again)).toEqual([["STORE_CORRUPT", expect.any(String)]]);
      await again.close();
      expect(readFileSync(mark).equals(bytes)).toBe(true);
    }
  });
});

function folder(): string {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-mark-"));
  cleanUps.push(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

async function opened(directory = folder()): Promise<{ readonly directory: string; readonly store: Store }> {
  const store = await openSqliteStore({ directory });
  cleanUps.push(() => store.close());
  return { directory, store };
}

async function recorded(directory: string, no: number) {
  const file = openHighWaterMark(layoutOf(directory).highWater).read();
  const head = file.kind === "read" ? file.heads.find(({ run }) => run === no) : undefined;
  return head === undefined ? undefined : { entry: head.entry, hash: head.hash };
}

async function problems(store: Store) {
  const found: (readonly [string, string])[] = [];
  for await (const event of store.verify())
    if (event.kind === "problem") found.push([event.problem.code, event.problem.what]);
  return found;
}
