import type { DatabaseSync } from "node:sqlite";
import { HoldfastError } from "@holdfast/platform/error";

/**
 * `log` is the one growing table: every journal entry of every run, checkpoints included, in the order of commit, so
 * that a save touches the end of one tree whoever saves. `places` and `marks` find an entry or a checkpoint of a run in it;
 * they trail behind the log by at most a few thousand rows (`meta.indexed`), which each handle keeps in memory.
 * A row is one entry, or several that were committed together: then its kind is "frames", `entry` counts them, `logical`
 * counts the checkpoints among them, and `body` holds them one after the other (frames.ts); they take the positions from
 * the row's own on. Small saves are written so, and become rows of their own when one of them is dropped.
 * `seal` is the entry's hash; of a checkpoint also the digest of its planes and, if it has one, of its parent.
 * `body` stands last because it may be long: what stands before it is read without it.
 */
const FIRST = `
  CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE identity (id TEXT NOT NULL) STRICT;
  CREATE TABLE facts (key TEXT PRIMARY KEY, value TEXT NOT NULL, crc INTEGER NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE runs (
    no INTEGER PRIMARY KEY, stamp INTEGER NOT NULL, epoch INTEGER NOT NULL, heartbeat INTEGER NOT NULL,
    dropped INTEGER NOT NULL, id TEXT NOT NULL UNIQUE, lease TEXT, fold TEXT, birth TEXT NOT NULL
  ) STRICT;
  CREATE TABLE log (
    pos INTEGER PRIMARY KEY, run INTEGER NOT NULL, entry INTEGER NOT NULL, kind TEXT NOT NULL, at INTEGER NOT NULL,
    epoch INTEGER NOT NULL, seal BLOB NOT NULL,
    sequence INTEGER, trigger TEXT, name TEXT, stage TEXT, iteration REAL, score REAL, tree TEXT,
    origin TEXT, logical INTEGER, added INTEGER,
    body ANY
  ) STRICT;
  CREATE TABLE places (key INTEGER PRIMARY KEY, pos INTEGER NOT NULL, distances BLOB NOT NULL) STRICT;
  CREATE TABLE marks (key INTEGER PRIMARY KEY, pos INTEGER NOT NULL, distances BLOB NOT NULL) STRICT;
  CREATE TABLE tombstones (key INTEGER PRIMARY KEY, pos INTEGER NOT NULL, at INTEGER NOT NULL, why TEXT NOT NULL) STRICT;
  CREATE TABLE tags (run INTEGER NOT NULL, name TEXT NOT NULL, sequence INTEGER NOT NULL, PRIMARY KEY (run, name)) STRICT, WITHOUT ROWID;
  CREATE TABLE effects (run INTEGER NOT NULL, key TEXT NOT NULL, effect TEXT NOT NULL, PRIMARY KEY (run, key)) STRICT, WITHOUT ROWID;
  CREATE TABLE packs (
    id INTEGER PRIMARY KEY, codec INTEGER NOT NULL, level INTEGER NOT NULL, raw INTEGER NOT NULL, at INTEGER NOT NULL, stored INTEGER NOT NULL, blob TEXT, slots BLOB NOT NULL, body BLOB
  ) STRICT;
  CREATE TABLE chunks (key INTEGER PRIMARY KEY, id INTEGER NOT NULL) STRICT;
  INSERT INTO meta (key, value) VALUES ('indexed', 0), ('generation', 0);
`;

/** Damaged checkpoints are passed over, not removed. */
const SECOND = `
  CREATE TABLE quarantine (key INTEGER PRIMARY KEY, entry INTEGER NOT NULL, reason TEXT NOT NULL) STRICT;
`;

/**
 * Saves leave their chunks as they are in their own rows; later several of them are compressed together, into a bundle, and
 * the rows say where in it theirs are. `id` is the last position it was made from, `first` the first, and all rows of the
 * log up to `meta.bundled` have been looked at.
 */
const THIRD = `
  CREATE TABLE bundles (
    id INTEGER PRIMARY KEY, first INTEGER NOT NULL, codec INTEGER NOT NULL, level INTEGER NOT NULL, raw INTEGER NOT NULL, at INTEGER NOT NULL, slots BLOB NOT NULL, body BLOB NOT NULL
  ) STRICT;
  INSERT INTO meta (key, value) VALUES ('bundled', 0);
`;

/** Step n brings a database from schema n to n + 1. Steps are never edited, only added. */
export const LADDER: readonly string[] = [FIRST, SECOND, THIRD];

export const SCHEMA = LADDER.length;

/** The schema is kept in the file's own header field, which is there before any table is. */
export function schemaOf(db: DatabaseSync): number {
  return Number(db.prepare("PRAGMA user_version").get()?.["user_version"] ?? 0);
}

/** Each step is one transaction: a crash leaves one whole schema or the next. Safe when two processes climb at once. */
export function climb(db: DatabaseSync, params: { readonly location: string; readonly newId: string }): void {
  for (;;) {
    const before = schemaOf(db);
    if (before > SCHEMA) throw tooNew(params.location, before);
    if (before === SCHEMA) return;
    db.exec("BEGIN IMMEDIATE");
    try {
      const at = schemaOf(db);
      const step = LADDER[at];
      if (step !== undefined) {
        db.exec(step);
        if (at === 0) db.prepare("INSERT INTO identity (id) VALUES (?)").run(params.newId);
        db.exec(`PRAGMA user_version = ${at + 1}`);
      }
      db.exec("COMMIT");
    } catch (error) {
      if (db.isTransaction) db.exec("ROLLBACK");
      throw error;
    }
  }
}

export function tooNew(location: string, schema: number): HoldfastError {
  return new HoldfastError({
    code: "STORE_TOO_NEW",
    message: `The store ${location} has schema ${schema}; this Holdfast knows ${SCHEMA} at most`,
    hint: "Use the Holdfast that wrote it, or a newer one.",
    data: { location, schema, known: SCHEMA },
  });
}
