import { copyFileSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { openDatabase } from "./driver.ts";
import { type Layout, layoutOf } from "./layout.ts";
import { SCHEMA, schemaOf, tooNew } from "./schema.ts";
import { HoldfastError } from "@holdfast/platform/error";

export interface ReadOnlyDatabase {
  readonly db: DatabaseSync;
  readonly close: () => void;
  /** Were the files changed since? Always false under SQLite's own locks, which see every commit. */
  readonly moved: () => boolean;
}

/**
 * Opens the database for reading and changes no file, whatever state they are in:
 * - no log, or an empty one: the database file as it is, without a lock and without helper files;
 * - a log with its shared memory: under SQLite's locks. A connection for reading never checkpoints, so the log stays; SQLite
 *   updates the shared memory, which is a cache and is written anew at every start;
 * - a log without shared memory, or shared memory that cannot be written: a private copy, removed on close.
 */
export function openReadOnly(layout: Layout): ReadOnlyDatabase {
  const before = marksOf(layout);
  const moved = (): boolean => marksOf(layout) !== before;
  if (sizeOf(layout.wal) === 0) {
    const db = withSchema(openDatabase({ path: layout.database, access: "immutable" }), layout);
    return { db, close: () => db.close(), moved };
  }
  if (sizeOf(layout.sharedMemory) > 0) {
    const direct = attempt(() => withSchema(openDatabase({ path: layout.database, access: "read" }), layout));
    if (direct.ok) return { db: direct.db, close: () => direct.db.close(), moved: () => false };
    if (direct.error instanceof HoldfastError) throw direct.error;
  }
  return openCopy(layout, moved);
}

function openCopy(layout: Layout, moved: () => boolean): ReadOnlyDatabase {
  const copy = layoutOf(mkdtempSync(join(tmpdir(), "holdfast-read-")));
  const remove = (): void => rmSync(copy.directory, { recursive: true, force: true });
  try {
    copyFileSync(layout.database, copy.database);
    copyFileSync(layout.wal, copy.wal);
    const db = withSchema(openDatabase({ path: copy.database, access: "read" }), layout);
    return {
      db,
      moved,
      close() {
        db.close();
        remove();
      },
    };
  } catch (error) {
    remove();
    throw error;
  }
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

/** Changes with every write to the database or its log. */
function marksOf(layout: Layout): string {
  return [layout.database, layout.wal]
    .map((path) => {
      const found = statSync(path, { throwIfNoEntry: false, bigint: true });
      // An empty log is as good as none.
      if (found === undefined || (found.size === 0n && path === layout.wal)) return "none";
      return `${found.ino}:${found.size}:${found.mtimeNs}:${found.ctimeNs}`;
    })
    .join();
}

function withSchema(db: DatabaseSync, layout: Layout): DatabaseSync {
  try {
    const schema = schemaOf(db);
    db.prepare("SELECT count(*) FROM sqlite_schema").get();
    if (schema > SCHEMA) throw tooNew(layout.directory, schema);
    if (schema === SCHEMA) return db;
    throw new HoldfastError({
      code: "STORE_READ_ONLY",
      message: `The store ${layout.directory} has schema ${schema} and must be brought to ${SCHEMA}, but cannot be written`,
      hint: "Copy it to a place that can be written and open it there.",
      data: { location: layout.directory, schema },
    });
  } catch (error) {
    db.close();
    throw error;
  }
}

type Attempt = { readonly ok: true; readonly db: DatabaseSync } | { readonly ok: false; readonly error: unknown };

function attempt(open: () => DatabaseSync): Attempt {
  try {
    return { ok: true, db: open() };
  } catch (error) {
    return { ok: false, error };
  }
}
