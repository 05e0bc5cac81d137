import { copyFileSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { openDatabase } from "./driver.ts";
import { layoutOf } from "./layout.ts";
import type { Layout } from "./layout.ts";
import { SCHEMA, schemaOf, tooNew } from "./schema.ts";
import { HoldfastError } from "../../core/error.ts";

export interface ReadOnlyDatabase {
  readonly db: DatabaseSync;
  readonly close: () => void;
}

/**
 * SQLite needs shared memory beside the database even to read it. Where that cannot be made, a database whose log is
 * empty is read as it is; one whose log is not is copied first, for without its log it would be short of the newest.
 */
export function openReadOnly(layout: Layout): ReadOnlyDatabase {
  const direct = attempt(() => withSchema(openDatabase({ path: layout.database, access: "read" }), layout));
  if (direct.ok) return { db: direct.db, close: () => direct.db.close() };
  if (direct.error instanceof HoldfastError) throw direct.error;
  if ((statSync(layout.wal, { throwIfNoEntry: false })?.size ?? 0) === 0) {
    const db = withSchema(openDatabase({ path: layout.database, access: "immutable" }), layout);
    return { db, close: () => db.close() };
  }
  return openCopy(layout);
}

function openCopy(layout: Layout): ReadOnlyDatabase {
  const copy = layoutOf(mkdtempSync(join(tmpdir(), "holdfast-read-")));
  const remove = (): void => rmSync(copy.directory, { recursive: true, force: true });
  try {
    copyFileSync(layout.database, copy.database);
    copyFileSync(layout.wal, copy.wal);
    const db = withSchema(openDatabase({ path: copy.database, access: "read" }), layout);
    return {
      db,
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
