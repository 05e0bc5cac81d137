import { spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { join } from "node:path";
import { listProcessLocks, readProcessLock } from "@holdfast/platform/process-lock";
import { processIdentity } from "@holdfast/platform/identity";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { rejectsWith } from "@holdfast/testing/refuses";
import { expect, onTestFinished, test } from "vitest";
import type { Store } from "../store.ts";
import { lockDirectory, ownerLiveness } from "./leases.ts";
import { openSqliteStore } from "./open.ts";

/* The lock files that show which owners of leases are alive, beside what pids show. */

const WORKER = join(import.meta.dirname, "../../../test-support/src/store-processes/worker.ts");
const LATER = Date.now() + 70_000;
/** A process in another container of this kernel: it sees no pid of the owner. */
const contained = { ...processIdentity(), boot: `${processIdentity().boot?.split("/")[0]}/pid:[1]` };

async function open(directory: string, params: Partial<Parameters<typeof openSqliteStore>[0]> = {}): Promise<Store> {
  const store = await openSqliteStore({ directory, ...params });
  onTestFinished(() => store.close());
  return store;
}

test("a lease is never taken from a stopped owner by time, and from a killed one at once", async () => {
  const directory = join(scratchDirectory(onTestFinished), "store");
  await open(directory);
  const owner = spawn(process.execPath, [WORKER, "hold", directory, "r"], { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void owner.kill("SIGKILL"));
  await once(owner.stdout, "data");
  owner.kill("SIGSTOP");

  const later = { clock: { now: () => LATER } };
  const successors = [await open(directory, later), await open(directory, { ...later, identity: contained })];
  for (const successor of successors)
    await rejectsWith("LEASE_HELD", () => successor.takeLease({ run: "r", label: "successor" }));
  const [lease] = await (await open(directory)).listLeases();
  if (lease === undefined) throw new Error("there is no lease");
  expect(ownerLiveness(lease.owner, { directory, shared: false }, contained)).toBe("alive");
  // Where the file is lost, only the pid is left, and another container does not see it.
  expect(ownerLiveness(lease.owner, { directory: null, shared: false }, contained)).toBe("unknown");

  // Two machines of one name, such as cloned ones, can share a database. A lock file shows which of them had the lease.
  const twin = { ...lease.owner, boot: "00000000-0000-4000-8000-000000000000" };
  const empty = scratchDirectory(onTestFinished);
  expect(ownerLiveness(lease.owner, { directory: empty, shared: true }, twin)).toBe("unknown");
  expect(ownerLiveness(lease.owner, { directory: empty, shared: false }, twin)).toBe("dead");
  expect(ownerLiveness(lease.owner, { directory, shared: true }, twin)).toBe("alive");

  owner.kill("SIGKILL");
  await once(owner, "exit");
  expect(ownerLiveness(lease.owner, { directory, shared: true }, twin)).toBe("dead");
  expect(readProcessLock(lockDirectory(directory), lease.owner.token)).toBe("free");
  expect(ownerLiveness(lease.owner, { directory, shared: false }, contained)).toBe("dead");
  const taken = await successors[0]?.takeLease({ run: "r", label: "successor" });
  expect(taken?.epoch).toBe(lease.epoch + 1);
  // Its file has served: the successor has removed it.
  expect(listProcessLocks(lockDirectory(directory))).toEqual([taken?.owner.token]);
});

test("a process that is killed before its lease is written leaves a file that the next lease removes", async () => {
  const directory = join(scratchDirectory(onTestFinished), "store");
  const store = await open(directory);
  await store.createRun({ id: "r", workflow: "sample", work: { kind: "none" } });
  const locks = lockDirectory(directory);
  const program = `
    const { holdProcessLock } = await import(${JSON.stringify(import.meta.resolve("@holdfast/platform/process-lock"))});
    holdProcessLock(${JSON.stringify(locks)}, "abc");
    process.kill(process.pid, "SIGKILL");`;
  await once(spawn(process.execPath, ["--input-type=module", "-e", program], { stdio: "inherit" }), "exit");
  expect(listProcessLocks(locks)).toEqual(["abc"]);
  const lease = await store.takeLease({ run: "r", label: "owner" });
  expect(listProcessLocks(locks)).toEqual([lease.owner.token]);
  // The file outlives the lease: the handle may take the next one.
  await store.releaseLease(lease);
  await store.close();
  expect(listProcessLocks(locks)).toEqual([]);
});

test("a lost lock file does not free the lease of a live process, and gc removes what dead ones left", async () => {
  const directory = join(scratchDirectory(onTestFinished), "store");
  const [store, other] = [await open(directory), await open(directory)];
  const locks = lockDirectory(directory);
  await store.createRun({ id: "r", workflow: "sample", work: { kind: "none" } });
  const { owner } = await store.takeLease({ run: "r", label: "owner" });
  rmSync(locks, { recursive: true });
  expect(ownerLiveness(owner, { directory, shared: false })).toBe("alive");
  await rejectsWith("LEASE_HELD", () => other.takeLease({ run: "r", label: "other", staleAfterMs: 0 }));
  await other.sweep();
  // The refused handle may hold a lock file, but no lease.
  expect(listProcessLocks(locks)).not.toContain(owner.token);
});
