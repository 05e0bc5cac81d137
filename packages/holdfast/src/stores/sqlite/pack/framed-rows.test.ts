import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { layoutOf } from "../layout.ts";
import { openSqliteStore } from "../open.ts";
import type { Lease } from "@holdfast/core/lease";
import type { Store } from "@holdfast/core/store";
import { collect, leasedRun, save } from "@holdfast/testing/store-contract/harness";
import { rejectsWith } from "@holdfast/testing/refuses";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";

const RUNS = 24;

/** Two rounds of saves that come together, with journal entries and long texts among them. */
async function together(): Promise<{
  readonly store: Store;
  readonly leases: readonly Lease[];
  readonly db: DatabaseSync;
}> {
  const directory = join(scratchDirectory(onTestFinished), "store");
  const store = await openSqliteStore({ directory });
  const leases = await Promise.all(Array.from({ length: RUNS }, (_, i) => leasedRun(store, `r${i}`)));
  for (let n = 1; n <= 3; n++) {
    await Promise.all(
      leases.flatMap((lease, i) => [
        store.commit({ lease, entries: [{ kind: "note", body: { i, n, long: "€".repeat(i === 5 ? 9000 : 3) } }] }),
        save(store, lease, { values: { i, n }, ...(i === 7 ? { name: "a name", score: 0.5 } : {}) }),
      ]),
    );
  }
  const db = new DatabaseSync(layoutOf(directory).database, { timeout: 60_000 });
  onTestFinished(async () => {
    db.close();
    await store.close();
  });
  return { store, leases, db };
}

function framed(db: DatabaseSync): number {
  return Number(db.prepare("SELECT count(*) AS n FROM log WHERE kind = 'frames'").get()?.["n"]);
}

async function problems(store: Store, of: { readonly run?: string } = {}): Promise<readonly unknown[]> {
  return (await collect(store.verify(of))).flatMap((event) => (event.kind === "problem" ? [event.problem] : []));
}

async function everything(store: Store): Promise<unknown> {
  const runs = await store.listRuns();
  return Promise.all(
    runs.map(async ({ id }) => [
      await collect(store.readJournal({ run: id })),
      await store.listCheckpoints({ run: id }),
      await store.latest(id),
      await store.getCheckpoint({ run: id, sequence: 2 }),
    ]),
  );
}

test("saves that come together share rows, and each is found, listed, watched and verified like any other", async () => {
  const { store, db } = await together();
  expect(framed(db)).toBeGreaterThan(2);
  expect(framed(db)).toBeLessThan(RUNS);
  expect(await problems(store)).toEqual([]);
  expect((await store.stats()).checkpoints).toBe(3 * RUNS);
  for (let i = 0; i < RUNS; i++) {
    const second = await store.getCheckpoint({ run: `r${i}`, sequence: 2 });
    expect(second.planes.context.values).toEqual({ i, n: 2 });
    expect(second.name).toBe(i === 7 ? "a name" : null);
  }
  // Nothing is indexed yet: another handle finds all of it in the log alone.
  const other = await openSqliteStore({ directory: store.location });
  onTestFinished(() => other.close());
  expect(await everything(other)).toEqual(await everything(store));
  const all: string[] = [];
  const end = new AbortController();
  for await (const { run, entry } of other.watch({ after: 0, signal: end.signal })) {
    all.push(`${run}:${entry}`);
    if (all.length === (await store.stats()).entries) end.abort();
  }
  expect(new Set(all).size).toBe(all.length);
});

test("one that is dropped leaves its neighbours as they were, also to a handle that has just read them", async () => {
  const { store, db } = await together();
  const other = await openSqliteStore({ directory: store.location });
  onTestFinished(() => other.close());
  const before = await other.getCheckpoint({ run: "r3", sequence: 1 });
  const rows = framed(db);
  await store.drop({ run: "r3", drops: [{ sequence: 1, why: "not needed" }] });
  expect(framed(db)).toBe(rows - 1);
  expect(await problems(other, { run: "r3" })).toEqual([]);
  await rejectsWith("CHECKPOINT_DROPPED", () => other.getCheckpoint({ run: "r3", sequence: 1 }));
  expect((await other.getCheckpoint({ run: "r4", sequence: 1 })).planes.context.values).toEqual({ i: 4, n: 1 });
  expect((await other.listTombstones("r3"))[0]).toMatchObject({ digest: before.digest, sequence: 1 });
  expect((await store.stats()).checkpoints).toBe(3 * RUNS - 1);
  await store.sweep({ compressBefore: "2100-01-01T00:00:00.000Z" });
  expect(await problems(store)).toEqual([]);
  expect(await problems(other)).toEqual([]);
});

/** Rows of frames with their bytes. */
function bodies(db: DatabaseSync): readonly { readonly pos: number; readonly body: Buffer }[] {
  return db
    .prepare("SELECT pos, body FROM log WHERE kind = 'frames'")
    .all()
    .map(({ pos, body }) => ({ pos: Number(pos), body: Buffer.from(body instanceof Uint8Array ? body : []) }));
}

test("damage to one's planes is told of that one alone", async () => {
  const { store, db } = await together();
  const found = bodies(db).find(({ body }) => body.includes('"i":9,"n":2'));
  found?.body.write('"i":8', found.body.indexOf('"i":9,"n":2'));
  db.prepare("UPDATE log SET body = ? WHERE pos = ?").run(found?.body ?? null, found?.pos ?? 0);
  expect(await problems(store)).toEqual([expect.objectContaining({ run: "r9", sequence: 2, code: "STORE_CORRUPT" })]);
  await rejectsWith("STORE_CORRUPT", () => store.getCheckpoint({ run: "r9", sequence: 2 }));
  expect((await store.latest("r9"))?.sequence).toBe(3);
});

test("no flipped bit in a row of frames passes unnoticed", async () => {
  const { store, db } = await together();
  const set = db.prepare("UPDATE log SET body = ? WHERE pos = ?");
  let seed = 99;
  for (let i = 0; i < 60; i++) {
    const list = bodies(db);
    const { pos, body } = list[i % list.length] ?? { pos: 0, body: Buffer.alloc(1) };
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    const broken = Buffer.from(body);
    const at = (seed >>> 3) % broken.length;
    broken[at] = (broken[at] ?? 0) ^ (1 << (seed & 7));
    set.run(broken, pos);
    const told = await problems(store).catch((error: unknown) => [error]);
    expect(told.length, `byte ${at} of the row at ${pos}`).toBeGreaterThan(0);
    set.run(body, pos);
  }
  expect(await problems(store)).toEqual([]);
});
