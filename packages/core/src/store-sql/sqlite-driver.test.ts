import { readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "@holdfast/platform/clock";
import { HoldfastError } from "@holdfast/platform/error";
import { makeDurableDirectory } from "@holdfast/platform/files";
import { processIdentity } from "@holdfast/platform/identity";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { rejectsWith } from "@holdfast/testing/refuses";
import { leasedRun } from "@holdfast/testing/store-contract/harness";
import type { Driver } from "./driver.ts";
import { openToken } from "./leases.ts";
import { SQLITE, createTables } from "./schema.ts";
import { checkDurability, connect, createWritingDriver, isSafeVersion, patiently } from "./sqlite-driver.ts";
import { isBusy, losesTrust, sqliteError } from "./sqlite-errors.ts";
import { layoutOf } from "./sqlite-files.ts";
import { createSqlStore } from "./store.ts";

test("versions that can lose committed data are distinguished from those that cannot", () => {
  const safe = ["3.51.3", "3.51.10", "3.52.0", "3.53.4", "3.100.0", "4.0.0", "3.50.7", "3.44.6", "3.44.9"];
  const unsafe = [
    "3.51.2",
    "3.51.0",
    "3.50.6",
    "3.49.2",
    "3.45.1",
    "3.44.5",
    "3.43.9",
    "3.7.0",
    "2.8.17",
    "",
    "garbage",
  ];
  expect(safe.filter((version) => !isSafeVersion(version))).toEqual([]);
  expect(unsafe.filter(isSafeVersion)).toEqual([]);
});

test("a connection has the required settings, and one without them is refused", () => {
  const path = join(scratchDirectory(onTestFinished), "x.db");
  const connection = connect(path, "write");
  onTestFinished(() => connection.close());
  connection.db.exec("CREATE TABLE t (a)");
  const settings = ["journal_mode", "synchronous", "page_size", "trusted_schema", "fullfsync", "auto_vacuum"];
  expect(settings.map((name) => connection.pragma(name))).toEqual(["wal", 2, 4096, 0, 1, 2]);
  checkDurability(connection, path);
  for (const name of ["fullfsync", "checkpoint_fullfsync"]) {
    connection.db.exec(`PRAGMA ${name} = OFF`);
    expect(() => checkDurability(connection, path)).toThrow(`${name} is off`);
    connection.db.exec(`PRAGMA ${name} = ON`);
  }
  connection.db.exec("PRAGMA synchronous = NORMAL");
  expect(() => checkDurability(connection, path)).toThrow(expect.objectContaining({ code: "STORE_UNSAFE" }));
  connection.db.exec("PRAGMA synchronous = FULL; PRAGMA journal_mode = DELETE");
  expect(() => checkDurability(connection, path)).toThrow(/journal_mode is delete/);
});

test("a database whose switch to WAL was interrupted is switched by the next connection", () => {
  const path = join(scratchDirectory(onTestFinished), "x.db");
  const created = new DatabaseSync(path);
  created.exec("PRAGMA page_size = 4096; PRAGMA auto_vacuum = INCREMENTAL; PRAGMA user_version = 0");
  created.close();
  writeFileSync(`${path}-wal`, Buffer.alloc(32, 1));
  const writeVersion = (): number | undefined => readFileSync(path)[18];
  expect(writeVersion()).toBe(1);
  connect(path, "write").close();
  expect(writeVersion()).toBe(2);
});

test("a handle that cannot trust the disk any more writes nothing, and its leases are free", async () => {
  const directory = join(scratchDirectory(onTestFinished), "store");
  const writer = await patiently(
    () => (makeDurableDirectory(directory), connect(layoutOf(directory).database, "write")),
    1000,
  );
  writer.run("BEGIN IMMEDIATE");
  createTables(writer, SQLITE, "0".repeat(32));
  writer.run("COMMIT");
  let failure: Error | undefined;
  const driver = createWritingDriver({ layout: layoutOf(directory), writer, busyMs: 1000 });
  const failing: Driver = {
    ...driver,
    write: (...given) => (failure === undefined ? driver.write(...given) : Promise.reject(failure)),
  };
  const [store, other] = [
    failing,
    createWritingDriver({
      layout: layoutOf(directory),
      writer: connect(layoutOf(directory).database, "write"),
      busyMs: 1000,
    }),
  ].map((one) =>
    createSqlStore({
      driver: one,
      id: "0".repeat(32),
      access: "write",
      directory: null,
      locks: false,
      token: openToken(),
      identity: processIdentity(),
      clock: systemClock,
    }),
  );
  if (store === undefined || other === undefined) throw new Error("unreachable");
  onTestFinished(async () => {
    await other.close();
    await store.close();
  });
  await leasedRun(store);
  failure = sqliteFailure(13);
  await rejectsWith("DISK_FULL", () => store.setMeta("k", "v"));
  failure = undefined;
  await store.setMeta("k", "v");
  await rejectsWith("LEASE_HELD", () => other.takeLease({ run: "sample", label: "x" }));
  failure = sqliteFailure(1034);
  await rejectsWith("IO_FAILED", () => store.setMeta("k", "v"));
  failure = undefined;
  await rejectsWith("IO_FAILED", () => store.setMeta("k", "v"));
  expect((await other.takeLease({ run: "sample", label: "x" })).epoch).toBe(2);
});

function sqliteFailure(errcode: number): Error {
  return Object.assign(new Error(`result code ${errcode}`), { code: "ERR_SQLITE_ERROR", errcode });
}

function systemError(code: string): Error {
  return Object.assign(new Error(code), { code, syscall: "write", errno: -1 });
}

test("exceptions of SQLite and the system become error codes, with a hint", () => {
  const cases: readonly [Error, string][] = [
    [sqliteFailure(5), "STORE_BUSY"],
    [sqliteFailure(5 | (2 << 8)), "STORE_BUSY"],
    [sqliteFailure(8), "STORE_READ_ONLY"],
    [sqliteFailure(10 | (4 << 8)), "IO_FAILED"],
    [sqliteFailure(11), "STORE_CORRUPT"],
    [sqliteFailure(13), "DISK_FULL"],
    [sqliteFailure(14), "IO_FAILED"],
    [sqliteFailure(26), "STORE_CORRUPT"],
    [sqliteFailure(1), "INTERNAL"],
    [systemError("ENOSPC"), "DISK_FULL"],
    [systemError("EDQUOT"), "DISK_FULL"],
    [systemError("EROFS"), "STORE_READ_ONLY"],
    [systemError("EACCES"), "STORE_READ_ONLY"],
    [systemError("EIO"), "IO_FAILED"],
    [new Error("who knows"), "INTERNAL"],
  ];
  for (const [error, code] of cases) {
    const ours = sqliteError(error, "/somewhere");
    expect(`${error.message}: ${ours.code}`).toBe(`${error.message}: ${code}`);
    expect(ours.message).toContain("/somewhere");
    expect(ours.hint).toBeTruthy();
    expect(ours.cause).toBe(error);
  }
  const ours = new HoldfastError({ code: "CONFLICT", message: "m" });
  expect(sqliteError(ours, "/x")).toBe(ours);
});

test("a path that cannot be a directory is not reported as a failing disk", () => {
  for (const code of ["EEXIST", "ENOTDIR", "ENAMETOOLONG", "ELOOP"]) {
    const { hint } = sqliteError(systemError(code), "/somewhere");
    expect(hint).toContain("another directory");
    expect(hint).not.toContain("disk");
  }
});

test("an I/O error with free space is a disk error, and without space a full disk", () => {
  const write = sqliteFailure(10 | (3 << 8));
  expect(sqliteError(write, tmpdir())).toMatchObject({ code: "IO_FAILED", data: { sqlite: 778 } });
  // /proc has no blocks at all.
  expect(sqliteError(write, "/proc")).toMatchObject({
    code: "DISK_FULL",
    hint: expect.stringContaining("open the store again"),
  });
  const sharedMemory = sqliteFailure(10 | (19 << 8));
  expect(sqliteError(sharedMemory, "/proc")).toMatchObject({
    code: "DISK_FULL",
    hint: expect.stringContaining("try again"),
  });
  expect(losesTrust(sharedMemory)).toBe(false);
});

test("only errors after which the disk's state is uncertain end the trust", () => {
  expect([sqliteFailure(10), sqliteFailure(1034), sqliteFailure(11), systemError("EIO")].every(losesTrust)).toBe(true);
  expect(
    [sqliteFailure(5), sqliteFailure(8), sqliteFailure(13), systemError("ENOSPC"), new Error("x")].some(losesTrust),
  ).toBe(false);
  expect(isBusy(sqliteFailure(5)) && isBusy(sqliteFailure(6)) && !isBusy(sqliteFailure(13))).toBe(true);
});
