import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { openDatabase } from "./driver.ts";
import { openToken } from "./handle-tokens.ts";
import type { Handle } from "./handle.ts";
import { layoutOf } from "./layout.ts";
import { takeLease } from "./leases.ts";
import { openHandle } from "./open-handle.ts";
import { openSqliteStore } from "./open.ts";
import { systemClock } from "@holdfast/platform/clock";
import { sha256 } from "@holdfast/core/json";
import { processIdentity } from "@holdfast/platform/identity";

const cleanUps: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp();
});

test("a closed handle that could not release its lease blocks no other handle of its process", async () => {
  const directory = await madeStore();
  const store = await openSqliteStore({ directory, busyMs: 1 });
  await store.createRun({ id: "r", workflow: "none", work: { kind: "none" } });
  await store.takeLease({ run: "r", label: "first" });
  const blocker = openDatabase({ path: layoutOf(directory).database, access: "write" });
  blocker.exec("BEGIN IMMEDIATE");
  await store.close();
  blocker.exec("ROLLBACK");
  blocker.close();
  const next = await opened(directory);
  expect(await next.getLease("r")).toMatchObject({ epoch: 1, owner: { label: "first" } });
  expect(await next.takeLease({ run: "r", label: "second" })).toMatchObject({ epoch: 2 });
});

test("a handle that writes no more after a disk error blocks no other handle of its process", async () => {
  const directory = await madeStore();
  const store = await opened(directory);
  await store.createRun({ id: "r", workflow: "none", work: { kind: "none" } });
  const [first, second] = [handleOn(directory, store.id), handleOn(directory, store.id)];
  const lease = (handle: Handle) =>
    handle.group.submit(
      takeLease(
        handle,
        { get: () => undefined },
        { run: "r", label: "x", staleAfterMs: 60_000, slot: undefined, born: undefined },
      ),
    );
  expect(await lease(first)).toMatchObject({ epoch: 1 });
  await expect(lease(second)).rejects.toMatchObject({ code: "LEASE_HELD" });
  const failing = first.group.submit({
    plan: () => null,
    apply() {
      throw Object.assign(new Error("disk I/O error"), { errcode: 1034 });
    },
  });
  await expect(failing).rejects.toMatchObject({ code: "IO_FAILED" });
  expect(await lease(second)).toMatchObject({ epoch: 2 });
});

async function madeStore(): Promise<string> {
  const directory = mkdtempSync(join(tmpdir(), "holdfast-leases-"));
  cleanUps.push(() => rmSync(directory, { recursive: true, force: true }));
  await (await openSqliteStore({ directory })).close();
  return directory;
}

async function opened(directory: string) {
  const store = await openSqliteStore({ directory });
  cleanUps.push(() => store.close());
  return store;
}

function handleOn(directory: string, storeId: string): Handle {
  const layout = layoutOf(directory);
  const db = openDatabase({ path: layout.database, access: "write" });
  cleanUps.push(() => db.close());
  return openHandle({
    db,
    layout,
    storeId,
    token: openToken(),
    identity: processIdentity(),
    hasher: sha256,
    clock: systemClock,
    busyMs: 1000,
  });
}
