import type { DatabaseSync } from "node:sqlite";
import { pathToFileURL } from "node:url";
import { HoldfastError } from "@holdfast/platform/error";

/** The one place that opens SQLite. "immutable" reads a file that nobody can be writing, without any lock. */
export type Access = "write" | "read" | "immutable";

export function openDatabase(params: { readonly path: string; readonly access: Access }): DatabaseSync {
  const { access } = params;
  const url = pathToFileURL(params.path);
  if (access === "immutable") url.searchParams.set("immutable", "1");
  const db = new (sqlite().DatabaseSync)(url, {
    readOnly: access !== "write",
    timeout: NATIVE_TIMEOUT_MS,
    enableForeignKeyConstraints: true,
    enableDoubleQuotedStringLiterals: false,
    allowExtension: false,
  });
  try {
    checkVersion(db);
    db.enableDefensive(true);
    db.exec("PRAGMA trusted_schema = OFF");
    // Default is 2 MB; a save of a large state should not spill half-done pages to the log.
    db.exec("PRAGMA cache_size = -16384");
    if (access === "write") setDurability(db);
  } catch (error) {
    db.close();
    throw error;
  }
  return db;
}

/** Not imported by name: on a Node that lacks it, a clear word beats a loader's stack trace. */
function sqlite(): typeof import("node:sqlite") {
  // The types promise it; an older Node does not keep that.
  const found: typeof import("node:sqlite") | undefined = process.getBuiltinModule("node:sqlite");
  if (found !== undefined) return found;
  throw new HoldfastError({
    code: "STORE_UNSAFE",
    message: `Node ${process.versions.node} has no SQLite that can be trusted with a store`,
    hint: "Use Node 22.22.3 or newer, 24.15 or newer, or 26.",
  });
}

/** The calling thread sleeps inside SQLite that long; longer waits happen outside, with the event loop running. */
const NATIVE_TIMEOUT_MS = 200;

function setDurability(db: DatabaseSync): void {
  db.exec("PRAGMA page_size = 4096");
  db.exec("PRAGMA journal_mode = WAL");
  db.exec("PRAGMA synchronous = FULL");
}

/** Call after the first write: until then SQLite answers with what was asked for, not with what it got. */
export function checkDurability(db: DatabaseSync, location: string): void {
  const mode = pragma(db, "journal_mode");
  const synchronous = pragma(db, "synchronous");
  if (mode === "wal" && synchronous === 2) return;
  throw new HoldfastError({
    code: "STORE_UNSAFE",
    message: `SQLite would not keep what it acknowledges in ${location}: journal_mode is ${String(mode)}, synchronous is ${String(synchronous)}`,
    hint: "Put the store on a local file system that supports shared memory (not a network share).",
    data: { location, mode, synchronous },
  });
}

export function pragma(db: DatabaseSync, name: string): unknown {
  const row = db.prepare(`PRAGMA ${name}`).get();
  return row === undefined ? undefined : Object.values(row)[0];
}

/** Older ones can lose committed data when one process checkpoints the log while another writes. */
function checkVersion(db: DatabaseSync): void {
  // Asked of the library itself: process.versions names the headers, and some builds link another one.
  const version = String(db.prepare("SELECT sqlite_version() AS version").get()?.["version"]);
  if (isSafeVersion(version)) return;
  throw new HoldfastError({
    code: "STORE_UNSAFE",
    message: `SQLite ${version} can lose committed data when several processes write`,
    hint: "Use Node 22.22.3, 24.15 or 26 and later, or a build with SQLite 3.51.3 (3.50.7, 3.44.6) or later.",
    data: { version },
  });
}

export function isSafeVersion(version: string): boolean {
  const [major = 0, minor = 0, patch = 0] = version.split(".").map(Number);
  if (major !== 3) return major > 3;
  if (minor === 44) return patch >= 6;
  if (minor === 50) return patch >= 7;
  if (minor === 51) return patch >= 3;
  return minor > 51;
}
