// Lock files that show whether a process is alive. Each is an empty SQLite file on which its process holds an exclusive
// lock. The kernel releases the lock when the process ends in any way, and keeps it while the process is stopped or the
// machine sleeps. Reused pids, clocks, host names and pid namespaces do not matter.

import { mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { pathToFileURL } from "node:url";
import { errorCode } from "./error.ts";

/** "unknown": the file cannot be opened or locked here. "absent": there is no such file. */
export type LockState = "held" | "free" | "absent" | "unknown";

export interface ProcessLock extends Disposable {
  /** Releases the lock and removes the file. A second call does nothing. */
  release(): void;
}

/**
 * Creates and locks `<directory>/<name>.db`. null: the file cannot be created or locked here (a full disk, no free
 * descriptor); then only the pid and start time show whether the process is alive. A process that is killed leaves an
 * unlocked file, which `sweepProcessLocks` removes.
 */
export function holdProcessLock(directory: string, name: string): ProcessLock | null {
  if (!isName(name)) return null;
  const path = pathOf(directory, name);
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const db = lock(directory, path);
    if (db === null) return null;
    // A sweep may have removed the file after it was created and before it was locked. Names are unique, so an existing
    // file is ours.
    if (isFile(path)) return lockOf(db, path);
    db.close();
  }
  return null;
}

const ATTEMPTS = 3;

function lock(directory: string, path: string): DatabaseSync | null {
  try {
    const db = open(path, "write");
    if (db !== null) return db;
  } catch (error) {
    if (sqliteCode(error) !== CANNOT_OPEN) return null;
  }
  // The first lock of a store creates the directory.
  try {
    mkdirSync(directory, { mode: 0o700 });
  } catch (error) {
    if (errorCode(error) !== "EEXIST") return null;
  }
  try {
    return open(path, "write");
  } catch {
    return null;
  }
}

function lockOf(db: DatabaseSync, path: string): ProcessLock {
  let held = true;
  const release = (): void => {
    if (!held) return;
    held = false;
    own.delete(release);
    removeQuietly(path);
    db.close();
  };
  if (!endsAtExit) process.once("exit", releaseAll);
  endsAtExit = true;
  own.add(release);
  return { release, [Symbol.dispose]: release };
}

/** Locks that a program leaves to its exit. */
const own = new Set<() => void>();
let endsAtExit = false;

function releaseAll(): void {
  for (const release of own) release();
}

/** Tries a shared lock, so that concurrent callers do not take each other for the owner. */
export function readProcessLock(directory: string, name: string): LockState {
  if (!isName(name)) return "absent";
  const path = pathOf(directory, name);
  if (!isFile(path)) return "absent";
  try {
    const db = open(path, "read");
    if (db === null) return "unknown";
    db.close();
    return "free";
  } catch (error) {
    return sqliteCode(error) === BUSY ? "held" : "unknown";
  }
}

/** Names of all lock files, of live and of dead processes. */
export function listProcessLocks(directory: string): readonly string[] {
  try {
    return readdirSync(directory).flatMap((file) => {
      const name = file.endsWith(SUFFIX) ? file.slice(0, -SUFFIX.length) : "";
      return isName(name) ? [name] : [];
    });
  } catch {
    return [];
  }
}

/**
 * Removes those of the named files that no live process holds. A file is removed under its exclusive lock, so a process
 * that has just created it notices.
 */
export function sweepProcessLocks(directory: string, names: readonly string[]): void {
  for (const name of names) {
    try {
      const db = open(pathOf(directory, name), "sweep");
      if (db === null) return;
      removeQuietly(pathOf(directory, name));
      db.close();
    } catch {
      // A live process holds it.
    }
  }
}

const SUFFIX = ".db";
const BUSY = 5;
const CANNOT_OPEN = 14;
/** Longer than a reader of the lock needs. */
const WAIT_MS = 200;

/** False also where the disk fails: then no lock decides. */
function isFile(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** A file that is left is removed by the next sweep. */
function removeQuietly(path: string): void {
  try {
    rmSync(path, { force: true });
  } catch {
    // The disk fails or is read-only.
  }
}

function isName(name: string): boolean {
  return /^[0-9a-f-]{1,100}$/.test(name);
}

function pathOf(directory: string, name: string): string {
  return join(directory, `${name}${SUFFIX}`);
}

/** Opens the file and takes its lock. null: this Node has no SQLite. Throws if the lock or the file cannot be had. */
function open(path: string, access: "write" | "read" | "sweep"): DatabaseSync | null {
  const found: typeof import("node:sqlite") | undefined = process.getBuiltinModule("node:sqlite");
  if (found === undefined) return null;
  const url = pathToFileURL(path);
  // Only the owner creates the file.
  if (access === "sweep") url.searchParams.set("mode", "rw");
  const db = new found.DatabaseSync(url, { readOnly: access === "read", timeout: access === "write" ? WAIT_MS : 0 });
  try {
    if (access === "read") db.prepare("SELECT 1 FROM sqlite_schema").get();
    // Nothing is ever written, so there is no journal file and nothing to sync.
    else db.exec("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; BEGIN EXCLUSIVE");
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

function sqliteCode(error: unknown): unknown {
  return error instanceof Error && "errcode" in error ? error.errcode : undefined;
}
