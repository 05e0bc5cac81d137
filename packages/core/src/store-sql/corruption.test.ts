import { cpSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { HoldfastError } from "@holdfast/platform/error";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { collect, leasedRun, save } from "@holdfast/testing/store-contract/harness";
import { samplePause } from "@holdfast/testing/store-contract/signals";
import type { Problem, Store } from "../store.ts";
import { openSqliteStore } from "./open.ts";
import { layoutOf } from "./sqlite-files.ts";

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
      { kind: "note", body: { text: "a long body. ".repeat(1000) } },
    ],
  });
  await store.tag({ run: "sample", sequence: 2, name: "tagged" });
  await store.drop({ run: "sample", drops: [{ sequence: 1, why: "x" }] });
  await store.quarantine({ run: "sample", sequences: [3], reason: "looked odd" });
  await store.setMeta("fact", "value");
  await store.putSignal(samplePause);
  await store.putSignal({ id: "request", run: "sample", kind: "checkpoint", epoch: 1, name: "eva's" });
  await leasedRun(store, "other");
  const seen = await everything(store);
  await store.close();
  // The closing handle has released its leases, which is part of what is read.
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
      await store.listSignals(id),
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
  | { readonly kind: "reported"; readonly problems: readonly Problem[] }
  /** Not reported, and all data reads unchanged: no data depends on the damaged byte. */
  | { readonly kind: "unused" }
  | { readonly kind: "silent"; readonly what: string };

/** Damage is either refused at opening, named by verify, or provably of no consequence. */
async function judge(directory: string, healthy: string): Promise<Verdict> {
  let store: Store;
  try {
    store = await openSqliteStore({ directory });
  } catch (error) {
    if (error instanceof HoldfastError) return { kind: "reported", problems: [] };
    throw error;
  }
  try {
    const events = await collect(store.verify());
    const problems = events.flatMap((event) => (event.kind === "problem" ? [event.problem] : []));
    expect(events.at(-1)).toMatchObject({ kind: "summary", ok: problems.length === 0 });
    if (problems.length > 0) return { kind: "reported", problems };
    const now = await everything(store);
    return now === healthy ? { kind: "unused" } : { kind: "silent", what: "what is read differs" };
  } catch (error) {
    if (error instanceof HoldfastError) return { kind: "silent", what: `verify was content, but: ${error.message}` };
    throw error;
  } finally {
    await store.close();
  }
}

test("every flipped bit in the database is detected", async () => {
  const directory = join(scratchDirectory(onTestFinished), "store");
  const healthy = await populate(directory);
  expect(await judge(directory, healthy)).toEqual({ kind: "unused" });
  const original = readFileSync(layoutOf(directory).database);
  const samples = full ? 3000 : 120;
  let reported = 0;
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
    if (verdict.kind === "reported") reported += 1;
    if (verdict.kind === "silent") silent.push(`page ${page + 1}, byte ${at % 4096}: ${verdict.what}`);
  }
  expect(silent).toEqual([]);
  expect(reported).toBeGreaterThan(samples / 4);
});

/** Changes made with SQLite itself, as a user with a database tool would. */
const edits: readonly (readonly [string, string, Partial<Problem> & { readonly says?: RegExp }])[] = [
  [
    "an entry's body",
    `UPDATE entries SET body = '{"on":"ci","reason":"other","until":null}' WHERE kind = 'run.waiting'`,
    { run: "sample", entry: 16, trustedTo: 15 },
  ],
  ["an entry's kind", "UPDATE entries SET kind = 'note' WHERE kind = 'run.waiting'", { entry: 16 }],
  ["an entry's time", "UPDATE entries SET at = at + 1 WHERE entry = 4", { entry: 4, trustedTo: 3 }],
  ["an entry's epoch", "UPDATE entries SET epoch = epoch + 1 WHERE entry = 4", { entry: 4 }],
  ["an entry's summary", "UPDATE entries SET summary = 'all is well' WHERE entry = 16", { entry: 16 }],
  ["an entry's step", "UPDATE entries SET step = 'x' WHERE entry = 15", { entry: 15 }],
  ["an entry's size", "UPDATE entries SET size = size + 1 WHERE entry = 15", { entry: 15 }],
  ["a long body", "UPDATE entries SET content = NULL WHERE kind = 'note'", { entry: 17, trustedTo: 16 }],
  ["a checkpoint's stage", "UPDATE checkpoints SET stage = 'done' WHERE sequence = 4", { entry: 6 }],
  [
    "a checkpoint's score",
    `UPDATE entries SET body = replace(body, '"score":0.2', '"score":0.9') WHERE entry = 5`,
    { entry: 5 },
  ],
  ["a checkpoint's entry", "UPDATE checkpoints SET entry = 6 WHERE sequence = 3", { entry: 5 }],
  ["a checkpoint's logical size", "UPDATE entries SET size = 1 WHERE entry = 5", { entry: 5 }],
  [
    "a checkpoint's small planes",
    `UPDATE entries SET content = CAST(replace(CAST(content AS TEXT), '"n":6', '"n":7') AS BLOB) WHERE entry = 14`,
    { entry: 14, sequence: 12, newestIntact: 11 },
  ],
  [
    "a checkpoint's large planes",
    "UPDATE entries SET content = (SELECT content FROM entries WHERE entry = 11) WHERE entry = 13",
    { sequence: 11, newestIntact: 12 },
  ],
  ["a checkpoint emptied", "UPDATE entries SET content = NULL WHERE entry = 7", { sequence: 5 }],
  ["a checkpoint's row deleted", "DELETE FROM checkpoints WHERE sequence = 5", { sequence: 5 }],
  ["an entry deleted", "DELETE FROM entries WHERE entry = 7 AND run = 1", { entry: 7, trustedTo: 6 }],
  ["the last entries deleted", "DELETE FROM entries WHERE place > 20", {}],
  [
    "the last entries deleted, and the run's head set back",
    "DELETE FROM entries WHERE run = 1 AND entry > 16; UPDATE runs SET entries = 16 WHERE run = 1",
    {},
  ],
  [
    "two entries exchanged",
    "UPDATE entries SET entry = 1000 WHERE run = 1 AND entry = 5; UPDATE entries SET entry = 5 WHERE run = 1 AND entry = 6; UPDATE entries SET entry = 6 WHERE run = 1 AND entry = 1000",
    {},
  ],
  ["chunks' bytes", "UPDATE chunks SET bytes = zeroblob(length(bytes))", { says: /chunks/ }],
  ["a chunk cut short", "UPDATE chunks SET bytes = CAST(substr(bytes, 1, length(bytes) - 8) AS BLOB)", {}],
  ["a chunk exchanged", "UPDATE chunks SET bytes = (SELECT bytes FROM chunks WHERE place = 2) WHERE place = 1", {}],
  ["chunks deleted", "DELETE FROM chunks", { says: /is gone/ }],
  ["a run's birth", `UPDATE runs SET birth = replace(birth, '"sample"', '"simple"') WHERE run = 1`, {}],
  ["a run's workflow", `UPDATE runs SET workflow = 'other' WHERE run = 1`, { says: /workflow/ }],
  ["a run deleted", "DELETE FROM runs WHERE run = 2", { code: "STORE_CUT" }],
  ["a run's epoch", "UPDATE runs SET epoch = 9 WHERE run = 1", { says: /epoch/ }],
  ["a run's state", "UPDATE runs SET state = NULL WHERE run = 1", { says: /state/ }],
  ["a run's head", "UPDATE runs SET head = zeroblob(32) WHERE run = 1", { says: /head/ }],
  ["a run's count of checkpoints", "UPDATE runs SET checkpoints = 12 WHERE run = 1", { says: /checkpoints/ }],
  ["a run's newest checkpoint", "UPDATE runs SET sequence = 11 WHERE run = 1", { says: /newest checkpoint/ }],
  [
    "a lease invented",
    "INSERT INTO leases VALUES (1, 1, 't', 'h', 1, '1', 'b', 'l', '2026-03-01T12:00:00.000Z', '2026-03-01T12:00:00.000Z', NULL)",
    { says: /lease/ },
  ],
  ["a tag moved", "UPDATE tags SET sequence = 4", { says: /tags/ }],
  ["a tag invented", "INSERT INTO tags VALUES (1, 'more', 4)", { says: /tags/ }],
  ["a tag removed", "DELETE FROM tags", { says: /tags/ }],
  ["an effect settled by hand", `UPDATE effects SET state = 'failed', outcome = '{"reason":"x"}'`, { says: /effects/ }],
  ["a tombstone's reason", "UPDATE tombstones SET why = 'other'", { says: /tombstones/ }],
  ["a tombstone removed", "DELETE FROM tombstones", { says: /tombstone/ }],
  ["a quarantine lifted", "UPDATE checkpoints SET quarantined = NULL", { says: /quarantine/ }],
  ["a fact", "UPDATE meta SET value = 'other' WHERE key = 'fact/fact'", { says: /fact/ }],
  ["a signal's body", "UPDATE signals SET body = replace(body, 'eva', 'ava')", { says: /signal/ }],
  ["a signal's kind", "UPDATE signals SET kind = 'abort' WHERE kind = 'pause'", { says: /signal/ }],
  ["a signal's state", "UPDATE signals SET state = 'done'", { says: /signal/ }],
  ["a signal to no run", "UPDATE signals SET run = 9", { says: /signals/ }],
  ["the number of sweeps", "UPDATE meta SET value = '7' WHERE key = 'store/sweeps'", {}],
];

test("every change made with a database tool is named, and what can be trusted is reported", async () => {
  const directory = join(scratchDirectory(onTestFinished), "store");
  const healthy = await populate(directory);
  for (const [name, sql, expected] of edits) {
    const copy = join(directory, "..", "copy");
    rmSync(copy, { recursive: true, force: true });
    cpSync(directory, copy, { recursive: true });
    const db = new DatabaseSync(layoutOf(copy).database);
    db.exec("PRAGMA wal_checkpoint");
    db.exec(sql);
    db.close();
    const verdict = await judge(copy, healthy);
    expect(`${name}: ${verdict.kind}`).toBe(`${name}: reported`);
    if (verdict.kind !== "reported" || verdict.problems.length === 0) continue;
    const { says, ...fields } = expected;
    const match = verdict.problems.find(
      (problem) =>
        Object.entries(fields).every(([key, value]) => Reflect.get(problem, key) === value) &&
        (says === undefined || says.test(problem.what)),
    );
    expect(match, `${name}: ${JSON.stringify(verdict.problems)}`).toBeDefined();
  }
});

test("a damaged pause still pauses, a damaged request has no holder, and both can be removed", async () => {
  const directory = join(scratchDirectory(onTestFinished), "store");
  await populate(directory);
  const db = new DatabaseSync(layoutOf(directory).database);
  db.exec(`UPDATE signals SET body = '[[[' || body`);
  db.close();
  const store = await openSqliteStore({ directory });
  onTestFinished(() => store.close());
  const found = await store.listSignals("sample");
  expect(found).toMatchObject([
    { kind: "pause", reason: "the signal is damaged" },
    { kind: "checkpoint", epoch: 0 },
  ]);
  for (const { id, state } of found)
    expect(await store.moveSignal({ run: "sample", id, from: state, to: null })).toBe(true);
  expect(await store.listSignals()).toEqual([]);
});

test("a damaged checkpoint is not returned; the newest intact one is named", async () => {
  const directory = join(scratchDirectory(onTestFinished), "store");
  await populate(directory);
  const db = new DatabaseSync(layoutOf(directory).database);
  db.exec("UPDATE entries SET content = zeroblob(20) WHERE entry IN (14, 12)");
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
