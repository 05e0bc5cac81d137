import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { layoutOf } from "../layout.ts";
import { openSqliteStore } from "../open.ts";
import { BANKS, SLOT, slotOffset } from "./witness-slot.ts";
import { readWitness } from "./witness.ts";
import type { Store } from "@holdfast/core/store";
import { leasedRun, save } from "@holdfast/testing/store-contract/harness";

const cleanUps: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

test("in the turn that answers a commit the witness learns of it", async () => {
  const { directory, store } = await opened();
  const lease = await leasedRun(store);
  for (let n = 0; n < 3; n++) {
    const { entry, head } = await save(store, lease);
    expect(await testimony(directory, 1)).toEqual({ entry, hash: head });
  }
  const other = await leasedRun(store, "other");
  const both = await Promise.all([save(store, lease), save(store, other)]);
  const seen = await Promise.all([testimony(directory, 1), testimony(directory, 2)]);
  expect(seen.map((one) => one?.hash)).toEqual(both.map(({ head }) => head));
});

test("the log of a killed writer cannot be cut unseen", async () => {
  const { directory, store } = await opened();
  const lease = await leasedRun(store);
  for (let n = 0; n < 3; n++) await save(store, lease);
  await Promise.resolve();
  // What kill -9 leaves: the files as they are, with nobody to close them.
  const left = folder();
  cpSync(directory, left, { recursive: true });
  const { wal, sharedMemory } = layoutOf(left);
  writeFileSync(wal, readFileSync(wal).subarray(0, -4096));
  rmSync(sharedMemory);
  await expect(openSqliteStore({ directory: left })).rejects.toMatchObject({ code: "STORE_CUT" });
});

test("with its newest record torn the witness still shows a database that was cut", async () => {
  const { directory, store } = await opened();
  const lease = await leasedRun(store);
  for (let n = 0; n < 3; n++) await save(store, lease);
  await Promise.resolve();
  const left = folder();
  cpSync(directory, left, { recursive: true });
  const { wal, witness, sharedMemory } = layoutOf(left);
  for (const bank of BANKS) {
    const bytes = readFileSync(layoutOf(directory).witness);
    bytes.fill(0xff, slotOffset(1, bank) + 20, slotOffset(1, bank) + SLOT);
    writeFileSync(witness, bytes);
    const whole = (await opened(left)).store;
    expect(await problems(whole)).toEqual([]);
    await whole.close();
    rmSync(left, { recursive: true });
    cpSync(directory, left, { recursive: true });
    writeFileSync(witness, bytes);
    writeFileSync(wal, readFileSync(wal).subarray(0, -3 * 4096));
    rmSync(sharedMemory);
    await expect(openSqliteStore({ directory: left })).rejects.toMatchObject({ code: "STORE_CUT" });
    rmSync(left, { recursive: true });
    cpSync(directory, left, { recursive: true });
  }
});

test("runs that commit together are each remembered, whether their numbers stand side by side or not", async () => {
  const { directory, store } = await opened();
  const leases = [];
  for (const id of ["a", "b", "c", "d", "e", "f"]) leases.push(await leasedRun(store, id));
  const chosen = leases.filter((_, i) => i !== 2);
  const committed = await Promise.all(chosen.toReversed().map((lease) => save(store, lease)));
  const seen = await Promise.all([6, 5, 4, 2, 1].map((no) => testimony(directory, no)));
  expect(seen).toEqual(committed.map(({ entry, head }) => ({ entry, hash: head })));
  expect((await testimony(directory, 3))?.entry).toBe(2);
});

describe("a witness that is not what it was", () => {
  test.each([
    ["emptied", Buffer.alloc(0)],
    ["all zeros", Buffer.alloc(200)],
  ])("%s: told, and begun anew by the next commit", async (_, bytes) => {
    const { directory, store } = await opened();
    await leasedRun(store);
    await store.close();
    writeFileSync(layoutOf(directory).witness, bytes);
    const again = (await opened(directory)).store;
    expect(await problems(again)).toEqual([["STORE_MISSING", expect.stringContaining("was emptied")]]);
    const lease = await again.takeLease({ run: "sample", label: "x" });
    const { entry, head } = await save(again, lease);
    expect(await testimony(directory, 1)).toEqual({ entry, hash: head });
    expect(await problems(again)).toEqual([]);
  });

  test("zeros where its beginning was: told, and begun anew", async () => {
    const { directory, store } = await opened();
    const lease = await leasedRun(store);
    await store.close();
    const { witness } = layoutOf(directory);
    const bytes = readFileSync(witness);
    for (const bank of BANKS) bytes.fill(0, slotOffset(0, bank), slotOffset(0, bank) + SLOT);
    writeFileSync(witness, bytes);
    const again = (await opened(directory)).store;
    expect(await problems(again)).toEqual([["STORE_CORRUPT", expect.any(String)]]);
    await again.takeLease({ run: lease.run, label: "x" });
    expect(await problems(again)).toEqual([]);
  });

  test("other bytes, or another store's: damage, and left alone", async () => {
    const { directory, store } = await opened();
    const lease = await leasedRun(store);
    await store.close();
    const foreign = await opened();
    await foreign.store.close();
    const { witness } = layoutOf(directory);
    for (const bytes of [Buffer.alloc(300, "x"), readFileSync(layoutOf(foreign.directory).witness)]) {
      writeFileSync(witness, bytes);
      const again = (await opened(directory)).store;
      await again.takeLease({ run: lease.run, label: "x" });
      expect(await problems(again)).toEqual([["STORE_CORRUPT", expect.any(String)]]);
      await again.close();
      expect(readFileSync(witness).equals(bytes)).toBe(true);
    }
  });
});

function folder(): string {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-witness-"));
  cleanUps.push(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

async function opened(directory = folder()): Promise<{ readonly directory: string; readonly store: Store }> {
  const store = await openSqliteStore({ directory });
  cleanUps.push(() => store.close());
  return { directory, store };
}

/** One step behind the first continuation of whoever waited for the commit. */
async function testimony(directory: string, no: number) {
  await Promise.resolve();
  const file = readWitness(layoutOf(directory).witness);
  return file.kind === "read" ? file.runs.get(no) : undefined;
}

async function problems(store: Store) {
  const found: (readonly [string, string])[] = [];
  for await (const event of store.verify())
    if (event.kind === "problem") found.push([event.problem.code, event.problem.what]);
  return found;
}
