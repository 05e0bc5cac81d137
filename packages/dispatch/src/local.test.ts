import { mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { openLocalDispatch } from "./local.ts";

test("its files are for their owner alone", async () => {
  const directory = join(scratchDirectory(onTestFinished), "dispatch");
  const dispatch = await openLocalDispatch({ directory });
  await dispatch.close();
  const modes = [directory, join(directory, "store.db")].map((path) => statSync(path).mode & 0o777);
  expect(modes).toEqual([0o700, 0o600]);
});

test.each([
  ["a file that is no database", (path: string) => writeFileSync(path, "x".repeat(10_000))],
  ["a directory", (path: string) => mkdirSync(path)],
])("%s in place of the database is refused", async (_, put) => {
  const directory = scratchDirectory(onTestFinished);
  put(join(directory, "store.db"));
  await expect(openLocalDispatch({ directory })).rejects.toMatchObject({ code: "STORE_CORRUPT" });
});

test("a dispatch of a newer version is refused", async () => {
  const directory = scratchDirectory(onTestFinished);
  await (await openLocalDispatch({ directory })).close();
  const { DatabaseSync } = process.getBuiltinModule("node:sqlite");
  const database = new DatabaseSync(join(directory, "store.db"));
  database.exec("UPDATE format SET version = 2");
  database.close();
  await expect(openLocalDispatch({ directory })).rejects.toMatchObject({ code: "STORE_TOO_NEW" });
});
