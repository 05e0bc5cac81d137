import { cpSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { layoutOf } from "./layout.ts";
import { openSqliteStore } from "./open.ts";
import { HoldfastError } from "@holdfast/platform/error";
import type { Problem, Store } from "@holdfast/core/store";
import { collect, leasedRun, save } from "@holdfast/testing/store-contract/harness";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";

const full = process.env["HOLDFAST_FULL"] === "1";

/** A little of everything that can be damaged. Returns all that can be read from it. */
async function populate(directory: string): Promise<string> {
  const store = await openSqliteStore({ directory });
  const lease = await leasedRun(store);
  const messages: string[] = [];
  for (let n = 1; n <= 6; n++) {
    for (let i = 0; i < 120; i++) messages.push(`message ${n * 1000 + i} ${"word ".repeat((n * i) % 30)}`);
    await save(store, lease, { values: { messages, n }, score: n / 10, name: `number ${n}`, tree: "f".repeat(40) });
    await save(store, lease, { values: { n } });
  }
  const intent = { key: "k", kind: "push", target: "t", payload: "a".repeat(64), detail: {} };
  await store.commit({
    lease,
    entries: [
      { kind: "effect.intended", body: intent },
      { kind: "run.waiting", body: { for: "ci", reason: "r", until: null } },
    ],
  });
  await store.tag({ run: "sample", sequence: 2, name: "tagged" });
  await store.drop({ run: "sample", drops: [{ sequence: 1, why: "x" }] });
  await store.quarantine({ run: "sample", sequences: [3], reason: "looked odd" });
  await store.setMeta("fact", "value");
  await leasedRun(store, "other");
  const seen = await everything(store);
  await store.close();
  // The closing handle has put its leases back, which is part of what is read.
  const again = await openSqliteStore({ directory });
  const after = await everything(again);
  await again.close();
  expect(after).not.toBe(seen);
  // Pages that hold nothing would take bits that could hit something.
  const db = new DatabaseSync(layoutOf(directory).database);
  db.exec("VACUUM");
  db.close();
  return after;
}

async function everything(store: Store): Promise<string> {
  const runs = await store.listRuns();
  const parts: unknown[] = [runs, await store.getMeta("fact")];
  for (const { id } of runs) {
    parts.push(
      await store.listCheckpoints({ run: id }),
      await collect(store.readJournal({ run: id })),
      await store.listEffects(id),
      await store.listTombstones(id),
      (await store.getLease(id)) ?? null,
      (await store.latest(id)) ?? null,
    );
    for (const { sequence } of await store.listCheckpoints({ run: id }))
      parts.push(await store.getCheckpoint({ run: id, sequence }));
  }
  return JSON.stringify(parts);
}

type Verdict =
  | { readonly kind: "told"; readonly problems: readonly Problem[] }
  /** Not told, and everything reads as it was: the damaged byte means nothing. */
  | { readonly kind: "unused" }
  | { readonly kind: "silent"; readonly what: string };

/** Damage is either refused at opening, named by verify, or provably of no consequence. */
async function judge(directory: string, healthy: string): Promise<Verdict> {
  let store: Store;
  try {
    store = await openSqliteStore({ directory });
  } catch (error) {
    if (error instanceof HoldfastError) return { kind: "told", problems: [] };
    throw error;
  }
  try {
    const events = await collect(store.verify());
    const problems = events.flatMap((event) => (event.kind === "problem" ? [event.problem] : []));
    expect(events.at(-1)).toMatchObject({ kind: "summary", ok: problems.length === 0 });
    if (problems.length > 0) return { kind: "told", problems };
    const now = await everything(store);
    return now === healthy ? { kind: "unused" } : { kind: "silent", what: "what is read differs" };
  } catch (error) {
    if (error instanceof HoldfastError) return { kind: "silent", what: `verify was content, but: ${error.message}` };
    throw error;
  } finally {
    await store.close();
  }
}

test("no flipped bit in the database passes unnoticed", async () => {
  const directory = join(scratchDirectory(onTestFinished), "store");
  const healthy = await populate(directory);
  expect(await judge(directory, healthy)).toEqual({ kind: "unused" });
  const original = readFileSync(layoutOf(directory).database);
  const samples = full ? 3000 : 120;
  let told = 0;
  let seed = 12345;
  const silent: string[] = [];
  for (let i = 0; i < samples; i++) {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    // Every page gets its share, its header more than that.
    const page = i % (original.length / 4096);
    const at = page * 4096 + (i % 5 === 0 ? seed % 16 : seed % 4096);
    const bytes = Buffer.from(original);
    bytes[at] = (bytes[at] ?? 0) ^ (1 << (seed >>> 29));
    const copy = join(directory, "..", "copy");
    rmSync(copy, { recursive: true, force: true });
    cpSync(directory, copy, { recursive: true });
    writeFileSync(layoutOf(copy).database, bytes);
    const verdict = await judge(copy, healthy);
    if (verdict.kind === "told") told += 1;
    if (verdict.kind === "silent") silent.push(`page ${page + 1}, byte ${at % 4096}: ${verdict.what}`);
  }
  expect(silent).toEqual([]);
  expect(told).toBeGreaterThan(samples / 4);
});

/** Changes made with SQLite itself, as somebody with a database tool would. */
const edits: readonly (readonly [string, string, Partial<Problem> & { readonly says?: RegExp }])[] = [
  [
    "an entry's body",
    `UPDATE log SET body = '{"on":"ci","reason":"other","until":null}' WHERE kind = 'run.waiting'`,
    { run: "sample", entry: 16, trustedTo: 15 },
  ],
  ["an entry's kind", "UPDATE log SET kind = 'note' WHERE kind = 'run.waiting'", { entry: 16 }],
  ["an entry's time", "UPDATE log SET at = at + 1 WHERE entry = 4", { entry: 4, trustedTo: 3 }],
  ["an entry's epoch", "UPDATE log SET epoch = epoch + 1 WHERE entry = 4", { entry: 4 }],
  ["a checkpoint's stage", "UPDATE log SET stage = 'done' WHERE sequence = 4", { entry: 6 }],
  ["a checkpoint's score", "UPDATE log SET score = 1 WHERE sequence = 3", { entry: 5 }],
  ["a checkpoint's size", "UPDATE log SET added = 1 WHERE sequence = 3", { entry: 5 }],
  [
    "a checkpoint's parent",
    "UPDATE log SET seal = CAST(substr(seal, 1, 64) || zeroblob(32) AS BLOB) WHERE sequence = 4",
    { entry: 6 },
  ],
  [
    "a checkpoint's small planes",
    `UPDATE log SET body = CAST(replace(CAST(body AS TEXT), '"n":6', '"n":7') AS BLOB) WHERE sequence = 12`,
    { entry: 14, sequence: 12, newestIntact: 11 },
  ],
  [
    "a checkpoint's large planes",
    "UPDATE log SET body = (SELECT body FROM log WHERE sequence = 9) WHERE sequence = 11",
    { sequence: 11, newestIntact: 12 },
  ],
  ["a checkpoint emptied", "UPDATE log SET body = NULL WHERE sequence = 5", { sequence: 5 }],
  ["an entry deleted", "DELETE FROM log WHERE entry = 7 AND run = 1", { entry: 7, trustedTo: 6 }],
  [
    "the last entries deleted, with their places",
    "DELETE FROM places WHERE pos > 20; DELETE FROM log WHERE pos > 20; UPDATE meta SET value = 20 WHERE key = 'indexed'",
    {},
  ],
  [
    "two entries exchanged",
    "UPDATE log SET pos = 1000 WHERE pos = 5; UPDATE log SET pos = 5 WHERE pos = 6; UPDATE log SET pos = 6 WHERE pos = 1000",
    {},
  ],
  ["a pack's body", "UPDATE packs SET body = zeroblob(length(body))", {}],
  [
    "a pack in a row cut short",
    "UPDATE log SET body = CAST(substr(body, 1, length(body) - 8) AS BLOB) WHERE sequence = 11",
    { sequence: 11, newestIntact: 12 },
  ],
  [
    "a pack in a row changed",
    "UPDATE log SET body = CAST(substr(body, 1, 60) || zeroblob(4) || substr(body, 65) AS BLOB) WHERE sequence = 11",
    { sequence: 11, newestIntact: 12 },
  ],
  ["a pack deleted", "DELETE FROM packs", {}],
  ["a run's birth", `UPDATE runs SET birth = replace(birth, '"sample"', '"simple"') WHERE no = 1`, {}],
  ["a run deleted", "DELETE FROM runs WHERE no = 2", { code: "STORE_CUT" }],
  ["a run's epoch", "UPDATE runs SET epoch = 9 WHERE no = 1", { says: /epoch/ }],
  ["a run's state", "UPDATE runs SET fold = NULL WHERE no = 1", { says: /state/ }],
  [
    "a lease invented",
    `UPDATE runs SET lease = '{"owner":{"token":"t","host":"h","pid":1,"started":"1","boot":"b","label":"l"},"takenAt":"2026-03-01T12:00:00.000Z"}' WHERE no = 1`,
    { says: /lease/ },
  ],
  ["a count of drops", "UPDATE runs SET dropped = 0 WHERE no = 1", { says: /dropped/ }],
  ["a tag moved", "UPDATE tags SET sequence = 4", { says: /tags/ }],
  ["a tag invented", "INSERT INTO tags VALUES (1, 'more', 4)", { says: /tags/ }],
  ["a tag removed", "DELETE FROM tags", { says: /tags/ }],
  [
    "an effect settled by hand",
    `UPDATE effects SET effect = replace(effect, 'intended', 'failed')`,
    { says: /effects/ },
  ],
  ["a tombstone's reason", "UPDATE tombstones SET why = 'other'", { says: /tombstones/ }],
  ["a tombstone removed", "DELETE FROM tombstones", { says: /tombstone/ }],
  ["a quarantine lifted", "DELETE FROM quarantine", { says: /quarantine/ }],
  ["a fact", "UPDATE facts SET value = 'other'", { says: /fact/ }],
  ["a place", "UPDATE places SET pos = pos + 1", {}],
  ["a mark", "UPDATE marks SET distances = zeroblob(length(distances))", {}],
  ["marks deleted", "DELETE FROM marks", {}],
  ["a chunk's place", "UPDATE chunks SET id = id + 1", { says: /chunks/ }],
];

test("every change made behind our back is named, and what can be trusted is told", async () => {
  const directory = join(scratchDirectory(onTestFinished), "store");
  const healthy = await populate(directory);
  // Opening indexes nothing by itself; closing does not either. A sweep brings the chunk index up to date.
  for (const [name, sql, expected] of edits) {
    const copy = join(directory, "..", "copy");
    rmSync(copy, { recursive: true, force: true });
    cpSync(directory, copy, { recursive: true });
    const db = new DatabaseSync(layoutOf(copy).database);
    db.exec("PRAGMA wal_checkpoint");
    db.exec(sql);
    db.close();
    const verdict = await judge(copy, healthy);
    expect(`${name}: ${verdict.kind}`).toBe(`${name}: told`);
    if (verdict.kind !== "told" || verdict.problems.length === 0) continue;
    const { says, ...fields } = expected;
    const match = verdict.problems.find(
      (problem) =>
        Object.entries(fields).every(([key, value]) => Reflect.get(problem, key) === value) &&
        (says === undefined || says.test(problem.what)),
    );
    expect(match, `${name}: ${JSON.stringify(verdict.problems)}`).toBeDefined();
  }
});

test("a damaged checkpoint is not handed out; the newest whole one is offered", async () => {
  const directory = join(scratchDirectory(onTestFinished), "store");
  await populate(directory);
  const db = new DatabaseSync(layoutOf(directory).database);
  db.exec("UPDATE log SET body = zeroblob(20) WHERE sequence IN (12, 10)");
  db.close();
  const store = await openSqliteStore({ directory });
  onTestFinished(() => store.close());
  const failure = await store.latest("sample").catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(HoldfastError);
  expect(failure).toMatchObject({ code: "STORE_CORRUPT", data: { sequence: 12, newestIntact: 11 } });
  await store.quarantine({ run: "sample", sequences: [12], reason: "damaged" });
  expect((await store.latest("sample"))?.sequence).toBe(11);
  await expect(store.getCheckpoint({ run: "sample", sequence: 10 })).rejects.toMatchObject({ code: "STORE_CORRUPT" });
  expect((await store.getCheckpoint({ run: "sample", sequence: 9 })).sequence).toBe(9);
});

test("a blob that is gone, cut or changed is told", async () => {
  const directory = join(scratchDirectory(onTestFinished), "store");
  const store = await openSqliteStore({ directory });
  const lease = await leasedRun(store);
  // Hardly compressible, so that its packs are files.
  let seed = 1;
  const noise = Array.from({ length: 400 }, () =>
    Array.from({ length: 300 }, () => (seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0).toString(36)).join(""),
  );
  await save(store, lease, { values: { noise } });
  await save(store, lease, { values: { small: true } });
  const healthy = await everything(store);
  await store.close();
  const files = readdirSync(layoutOf(directory).blobs, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  expect(files.length).toBeGreaterThan(0);
  const damages: readonly ((path: string) => void)[] = [
    (path) => rmSync(path),
    (path) => truncateSync(path, 1000),
    (path) => writeFileSync(path, Buffer.concat([readFileSync(path), Buffer.from("more")])),
    (path) => writeFileSync(path, readFileSync(path).toReversed()),
  ];
  for (const damage of damages) {
    const copy = join(directory, "..", "copy");
    rmSync(copy, { recursive: true, force: true });
    cpSync(directory, copy, { recursive: true });
    const [file] = files;
    if (file !== undefined) damage(join(copy, "blobs", file.name.slice(0, 2), file.name));
    const verdict = await judge(copy, healthy);
    expect(verdict).toMatchObject({
      kind: "told",
      problems: [{ code: "STORE_CORRUPT", sequence: 1, newestIntact: 2 }],
    });
  }
});
