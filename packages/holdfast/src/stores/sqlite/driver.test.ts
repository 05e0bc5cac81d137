import { expect, onTestFinished, test } from "vitest";
import { join } from "node:path";
import { checkDurability, isSafeVersion, openDatabase, pragma } from "./driver.ts";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";

test("versions that can lose committed data are told from those that cannot", () => {
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

test("a connection has what we rely on, and one that has not is refused", () => {
  const path = join(scratchDirectory(onTestFinished), "x.db");
  const db = openDatabase({ path, access: "write" });
  onTestFinished(() => db.close());
  db.exec("CREATE TABLE t (a)");
  expect([
    pragma(db, "journal_mode"),
    pragma(db, "synchronous"),
    pragma(db, "page_size"),
    pragma(db, "trusted_schema"),
    pragma(db, "foreign_keys"),
  ]).toEqual(["wal", 2, 4096, 0, 1]);
  checkDurability(db, path);
  db.exec("PRAGMA synchronous = NORMAL");
  expect(() => checkDurability(db, path)).toThrow(expect.objectContaining({ code: "STORE_UNSAFE" }));
  db.exec("PRAGMA synchronous = FULL; PRAGMA journal_mode = DELETE");
  expect(() => checkDurability(db, path)).toThrow(/journal_mode is delete/);
});
