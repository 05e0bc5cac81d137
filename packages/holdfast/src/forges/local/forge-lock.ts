import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import type { DatabaseSync } from "node:sqlite";
import { HoldfastError } from "../../core/error.ts";
import { makeDurableDirectory } from "../../system/durable-file.ts";
import { finishChange } from "./change.ts";
import type { ForgePlace } from "./forge-place.ts";

/**
 * One writer at a time, across processes. The lock is SQLite's on an empty file: the kernel gives it back with the process, so a kill
 * leaves nothing to clean up. What a killed writer had begun is finished first.
 */
export async function withForgeLock<T>(place: ForgePlace, work: () => Promise<T>): Promise<T> {
  makeDurableDirectory(place.directory, 0o755);
  const path = join(place.directory, "lock");
  const { DatabaseSync } = process.getBuiltinModule("node:sqlite");
  const db = new DatabaseSync(path, { timeout: 0 });
  try {
    for (let waited = 0; !tryLock(db); waited += PAUSE_MS) {
      if (waited > PATIENCE_MS) throw lockHeld(path);
      await setTimeout(PAUSE_MS);
    }
    finishChange(place);
    return await work();
  } finally {
    db.close();
  }
}

const PAUSE_MS = 15;
const PATIENCE_MS = 60_000;
const SQLITE_BUSY = 5;

function tryLock(db: DatabaseSync): boolean {
  try {
    db.exec("BEGIN EXCLUSIVE");
    return true;
  } catch (error) {
    if (error instanceof Error && "errcode" in error && error.errcode === SQLITE_BUSY) return false;
    throw error;
  }
}

function lockHeld(path: string): HoldfastError {
  return new HoldfastError({
    code: "FORGE_FAILED",
    message: `the forge is locked by another process (${path})`,
    hint: "Wait for it to finish; the lock goes with the process that holds it.",
    retry: "later",
  });
}
