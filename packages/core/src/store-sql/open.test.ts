import { execFileSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { crc32 } from "node:zlib";
import { expect, onTestFinished, test, vi } from "vitest";
import { HoldfastError } from "@holdfast/platform/error";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { rejectsWith } from "@holdfast/testing/refuses";
import { collect, leasedRun, save } from "@holdfast/testing/store-contract/harness";
import type { Store } from "../store.ts";
import { slotOffset } from "./high-water.ts";
import { openSqliteStore } from "./open.ts";
import { layoutOf } from "./sqlite-files.ts";

function scratch(): string {
  return join(scratchDirectory(onTestFinished), "store");
}

async function open(directory: string): Promise<Store> {
  const store = await openSqliteStore({ directory });
  onTestFinished(() => store.close());
  return store;
}

async function filled(directory: string): Promise<void> {
  const store = await openSqliteStore({ directory });
  const lease = await leasedRun(store);
  for (let n = 1; n <= 5; n++) await save(store, lease, { values: { n } });
  await store.close();
}

async function problemsOf(store: Store): Promise<string[]> {
  return (await collect(store.verify())).flatMap((event) =>
    event.kind === "problem" ? [`${event.problem.code}: ${event.problem.what}`] : [],
  );
}

test("only the owner can access a store", async () => {
  const directory = scratch();
  const store = await open(directory);
  await leasedRun(store);
  const layout = layoutOf(directory);
  expect(statSync(directory).mode & 0o777).toBe(0o700);
  for (const path of [layout.marker, layout.database, layout.wal, layout.sharedMemory, layout.highWater])
    expect(statSync(path).mode & 0o777, path).toBe(0o600);
});

test("a store opened for writing keeps a reserve, which can be released once and is created again", async () => {
  const directory = scratch();
  const store = await openSqliteStore({ directory });
  const { reserve } = layoutOf(directory);
  const { mode, size } = statSync(reserve);
  expect([mode & 0o777, size >= 64 * 1024]).toEqual([0o600, true]);
  expect([await store.makeRoom?.(), await store.makeRoom?.()]).toEqual([size, 0]);
  expect(existsSync(reserve)).toBe(false);
  await store.close();
  const reader = await openSqliteStore({ directory, readOnly: true });
  await reader.close();
  expect(existsSync(reserve)).toBe(false);
  await (await openSqliteStore({ directory })).close();
  expect(existsSync(reserve)).toBe(true);
});

test.each([false, true])("a reader sees a commit after a long calm, patient: %s", async (patient) => {
  const directory = scratch();
  const store = await open(directory);
  const lease = await leasedRun(store);
  const reader = await openSqliteStore({ directory, readOnly: true });
  onTestFinished(() => reader.close());
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "performance"] });
  onTestFinished(() => void vi.useRealTimers());
  const abort = new AbortController();
  const entries = reader.watch({ patient, signal: abort.signal })[Symbol.asyncIterator]();
  const next = entries.next();
  await vi.waitFor(() => expect(vi.getTimerCount()).toBe(1));
  vi.advanceTimersByTime(10_000);
  await save(store, lease);
  vi.advanceTimersByTime(2000);
  expect((await next).value).toMatchObject({ kind: "checkpoint" });
  const end = entries.next();
  abort.abort();
  expect((await end).done).toBe(true);
  expect(vi.getTimerCount()).toBe(0);
});

test("a patient reader sees a commit without its timer: the file system reports writes", async () => {
  const directory = scratch();
  const store = await open(directory);
  const lease = await leasedRun(store);
  const reader = await openSqliteStore({ directory, readOnly: true });
  onTestFinished(() => reader.close());
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  onTestFinished(() => void vi.useRealTimers());
  const abort = new AbortController();
  onTestFinished(() => abort.abort());
  const entries = reader.watch({ patient: true, signal: abort.signal })[Symbol.asyncIterator]();
  for (let count = 0; count < 3; count += 1) {
    const next = entries.next();
    await vi.waitFor(() => expect(vi.getTimerCount()).toBe(1));
    await save(store, lease);
    expect((await next).value).toMatchObject({ kind: "checkpoint" });
  }
});

test.each(["a file that is repaired in place", "a backup that replaces it"])(
  "a reader continues after damage with %s",
  async (how) => {
    const directory = scratch();
    await filled(directory);
    const { database, wal, sharedMemory } = layoutOf(directory);
    const whole = readFileSync(database);
    // With a writer there is a log, and the reader is under the locks of SQLite.
    const writer = how.startsWith("a backup") ? await openSqliteStore({ directory }) : null;
    if (writer !== null) await writer.createRun({ id: "lost", workflow: "w", work: { kind: "none" } });
    const reader = await openSqliteStore({ directory, readOnly: true });
    onTestFinished(() => reader.close());
    await writer?.close();
    const before = await reader.listRuns();
    const write = (bytes: Buffer): void => {
      if (writer !== null) for (const path of [database, wal, sharedMemory]) rmSync(path, { force: true });
      writeFileSync(database, bytes);
    };
    write(Buffer.concat([Buffer.from("garbage!".repeat(512)), whole.subarray(4096)]));
    await rejectsWith("STORE_CORRUPT", () => reader.listRuns());
    await rejectsWith("STORE_CORRUPT", () => reader.listRuns());
    write(whole);
    expect(await reader.listRuns()).toEqual(before.filter(({ id }) => id !== "lost"));
  },
);

test("a missing store is created, or reported as missing if creation is off", async () => {
  const directory = scratch();
  const error = await rejectsWith("STORE_ABSENT", () => openSqliteStore({ directory, create: false }));
  expect(error.message).toContain(directory);
  expect(existsSync(directory)).toBe(false);
  const made = await open(directory);
  const again = await openSqliteStore({ directory, create: false });
  expect(again.id).toBe(made.id);
  await again.close();
});

test("names the settings of its writers also where it is read without a log", async () => {
  const directory = scratch();
  await filled(directory);
  expect(existsSync(layoutOf(directory).wal)).toBe(false);
  const reader = await openSqliteStore({ directory, readOnly: true });
  onTestFinished(() => reader.close());
  expect((await reader.stats()).durability).toBe("WAL, synchronous=FULL");
});

test("many handles that create one store at once create one store", async () => {
  const directory = scratch();
  const stores = await Promise.all(Array.from({ length: 6 }, () => open(directory)));
  expect(new Set(stores.map(({ id }) => id)).size).toBe(1);
  await Promise.all(stores.map((store, i) => store.createRun({ id: `r${i}`, workflow: "w", work: { kind: "none" } })));
  expect((await stores[0]?.listRuns())?.length).toBe(6);
});

test("creating a store can be interrupted after every step: readers find no store, and the next opening completes it", async () => {
  const whole = scratch();
  await (await openSqliteStore({ directory: whole })).close();
  const files = layoutOf(whole);
  const steps: ((at: ReturnType<typeof layoutOf>) => void)[] = [
    () => {},
    (at) => writeFileSync(at.database, ""),
    (at) => new DatabaseSync(at.database).exec("PRAGMA journal_mode = WAL"),
    (at) => copyFileSync(files.database, at.database),
    (at) => {
      copyFileSync(files.database, at.database);
      copyFileSync(files.highWater, at.highWater);
    },
  ];
  for (const step of steps) {
    const directory = scratch();
    mkdirSync(directory);
    step(layoutOf(directory));
    await rejectsWith("STORE_ABSENT", () => openSqliteStore({ directory, readOnly: true }));
    const store = await open(directory);
    await leasedRun(store);
    expect(existsSync(layoutOf(directory).marker)).toBe(true);
    expect(await problemsOf(store)).toEqual([]);
  }
});

test("a missing, emptied, replaced or overwritten database is reported, and never mistaken for a new store", async () => {
  const cases: readonly [string, (at: ReturnType<typeof layoutOf>) => void, string][] = [
    ["deleted", (at) => rmSync(at.database), "STORE_MISSING"],
    ["emptied", (at) => truncateSync(at.database, 0), "STORE_MISSING"],
    [
      "replaced by a fresh database",
      (at) => (rmSync(at.database), new DatabaseSync(at.database).exec("CREATE TABLE t (a)")),
      "STORE_MISSING",
    ],
    [
      "replaced by text",
      (at) => writeFileSync(at.database, "not a database, but long enough to be looked at ".repeat(200)),
      "STORE_CORRUPT",
    ],
    ["cut to a page", (at) => truncateSync(at.database, 4096), "STORE_CORRUPT"],
    ["replaced by a directory", (at) => (rmSync(at.database), mkdirSync(at.database)), "STORE_CORRUPT"],
    ["replaced by a FIFO", (at) => (rmSync(at.database), execFileSync("mkfifo", [at.database])), "STORE_CORRUPT"],
    [
      "replaced by a link",
      (at) => (renameSync(at.database, `${at.database}.x`), symlinkSync(`${at.database}.x`, at.database)),
      "STORE_CORRUPT",
    ],
    [
      "replaced by a link to nothing",
      (at) => (rmSync(at.database), symlinkSync("nothing", at.database)),
      "STORE_CORRUPT",
    ],
    ["log is a FIFO", (at) => execFileSync("mkfifo", [at.wal]), "STORE_CORRUPT"],
    ["marker is a FIFO", (at) => (rmSync(at.marker), execFileSync("mkfifo", [at.marker])), "STORE_CORRUPT"],
    ["marker is huge", (at) => writeFileSync(at.marker, "x".repeat(1 << 20)), "STORE_CORRUPT"],
    ["marker is scribbled over", (at) => writeFileSync(at.marker, "{}"), "STORE_CORRUPT"],
    ["marker is of a newer format", (at) => writeFileSync(at.marker, '{"format":2,"id":"x"}'), "STORE_TOO_NEW"],
    ["marker of another store", (at) => writeFileSync(at.marker, '{"format":1,"id":"x"}'), "STORE_CORRUPT"],
  ];
  for (const [name, damage, code] of cases) {
    const directory = scratch();
    await filled(directory);
    damage(layoutOf(directory));
    const before = existsSync(layoutOf(directory).database);
    const failure = await openSqliteStore({ directory }).then(
      () => "opened",
      (error: unknown) => (error instanceof HoldfastError ? error.code : String(error)),
    );
    expect(`${name}: ${failure}`).toBe(`${name}: ${code}`);
    expect(existsSync(layoutOf(directory).database)).toBe(before);
  }
});

test("a reader reports a database that was replaced by a fresh one", async () => {
  const directory = scratch();
  await filled(directory);
  const { database } = layoutOf(directory);
  rmSync(database);
  new DatabaseSync(database).exec("CREATE TABLE t (a)");
  await rejectsWith("STORE_MISSING", () => openSqliteStore({ directory, readOnly: true }));
});

test("a database older or shorter than the high-water mark is STORE_CUT until the loss is accepted", async () => {
  const directory = scratch();
  await filled(directory);
  const layout = layoutOf(directory);
  const old = join(directory, "..", "old.db");
  copyFileSync(layout.database, old);
  const store = await openSqliteStore({ directory });
  const lease = await store.takeLease({ run: "sample", label: "later" });
  await save(store, lease, { values: { n: 6 } });
  await store.close();
  const newer = readFileSync(layout.database);
  copyFileSync(old, layout.database);
  const error = await rejectsWith("STORE_CUT", () => openSqliteStore({ directory }));
  expect(error.message).toContain("sample");
  rmSync(layout.highWater);
  const accepted = await openSqliteStore({ directory });
  expect((await accepted.latest("sample"))?.sequence).toBe(5);
  expect(await problemsOf(accepted)).toEqual([expect.stringContaining("STORE_MISSING: The high-water mark")]);
  await accepted.close();
  writeFileSync(layout.database, newer);
});

test("a run that the high-water mark knows and the database does not is STORE_CUT", async () => {
  const directory = scratch();
  await filled(directory);
  const old = join(directory, "..", "old.db");
  copyFileSync(layoutOf(directory).database, old);
  const store = await openSqliteStore({ directory });
  await leasedRun(store, "lost");
  await store.close();
  copyFileSync(old, layoutOf(directory).database);
  await rejectsWith("STORE_CUT", () => openSqliteStore({ directory }));
});

test("a history that was rewritten is not the one in the high-water mark", async () => {
  const directory = scratch();
  await filled(directory);
  const db = new DatabaseSync(layoutOf(directory).database);
  db.exec("UPDATE entries SET hash = zeroblob(32) WHERE place = (SELECT max(place) FROM entries)");
  db.close();
  await rejectsWith("STORE_CUT", () => openSqliteStore({ directory }));
});

test("a log that was truncated after a crash is detected by the high-water mark", async () => {
  const directory = scratch();
  const store = await open(directory);
  const lease = await leasedRun(store);
  for (let n = 1; n <= 20; n++) await save(store, lease, { values: { n } });
  for await (const event of store.verify()) expect(event.kind).not.toBe("problem");
  const copy = scratch();
  cpSync(directory, copy, { recursive: true });
  const whole = await openSqliteStore({ directory: copy });
  expect((await whole.latest("sample"))?.sequence).toBe(20);
  await whole.close();
  const cut = scratch();
  cpSync(directory, cut, { recursive: true });
  rmSync(layoutOf(cut).sharedMemory);
  truncateSync(layoutOf(cut).wal, Math.floor(statSync(layoutOf(cut).wal).size / 2));
  await rejectsWith("STORE_CUT", () => openSqliteStore({ directory: cut }));
});

test("a missing or damaged marker or high-water mark blocks no reader, and verify reports it", async () => {
  const cases: readonly [(at: ReturnType<typeof layoutOf>) => void, RegExp][] = [
    [(at) => rmSync(at.marker), /marker .* is gone/],
    [(at) => rmSync(at.highWater), /high-water mark .* is gone/],
    [(at) => writeFileSync(at.highWater, "garbage"), /high-water mark cannot be read/],
    [(at) => (rmSync(at.highWater), execFileSync("mkfifo", [at.highWater])), /high-water mark cannot be read/],
    [
      (at) => ([0, 1] as const).forEach((bank) => flip(at.highWater, slotOffset(1, bank) + 20)),
      /record of run number 1 is damaged/,
    ],
  ];
  for (const [damage, expected] of cases) {
    const directory = scratch();
    await filled(directory);
    damage(layoutOf(directory));
    const store = await openSqliteStore({ directory });
    expect((await store.latest("sample"))?.sequence).toBe(5);
    expect((await problemsOf(store)).join("\n")).toMatch(expected);
    await store.close();
  }
});

test("a store from a newer Holdfast is refused", async () => {
  const directory = scratch();
  await filled(directory);
  const db = new DatabaseSync(layoutOf(directory).database);
  db.prepare("UPDATE meta SET value = '99', checksum = ? WHERE key = 'store/schema'").run(crc32("store/schema\n99"));
  db.close();
  const error = await rejectsWith("STORE_TOO_NEW", () => openSqliteStore({ directory }));
  expect(error.data["schema"]).toBe(99);
  await rejectsWith("STORE_TOO_NEW", () => openSqliteStore({ directory, readOnly: true }));
});

test("a store opened for reading reads and refuses to write", async () => {
  const directory = scratch();
  await filled(directory);
  const store = await openSqliteStore({ directory, readOnly: true });
  expect((await store.latest("sample"))?.planes.context.values).toEqual({ n: 5 });
  expect(await problemsOf(store)).toEqual([]);
  await rejectsWith("STORE_READ_ONLY", () => store.setMeta("k", "v"));
  await rejectsWith("STORE_READ_ONLY", () => store.takeLease({ run: "sample", label: "x" }));
  await store.close();
  chmodSync(directory, 0o700);
});

function flip(path: string, at: number): void {
  const bytes = readFileSync(path);
  bytes[at] = (bytes[at] ?? 0) ^ 0x10;
  writeFileSync(path, bytes);
}
