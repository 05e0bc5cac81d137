// The tables of the store.
//
// entries      the journal of every run. Each hash covers the one before it (journal.ts). `body` is the canonical JSON that the hash
//              covers. A long body is kept in `content` instead, as a value in chunks (chunks.ts); of a checkpoint, `content` holds the planes.
//              step, started, summary and size are derived from kind, time and body, so that a list need not read the bodies.
// checkpoints  those that are there. A drop moves the row to tombstones and sets the entry's `content` to NULL; the chain stays.
// runs         the head of each run: what the next entry continues, and what lists show.
// chunks       parts of states, shared by all runs. `sweep` is the number of the sweep under which a save last relied on the chunk.
// effects, leases, tags, tombstones    what the journal says, as tables; verify compares the two.
// signals      messages to the processes that execute runs (signal.ts), until they are handled, each with a checksum.
// meta         the store's id, schema and number of sweeps, and the facts that users of the store keep, each with a checksum.

import { crc32 } from "node:zlib";
import { HoldfastError } from "@holdfast/platform/error";
import type { ReadTransaction, Row, WriteTransaction } from "./driver.ts";

const META = "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL, checksum INT NOT NULL)";
const TABLES = `
CREATE TABLE runs (run KEY, id TEXT NOT NULL UNIQUE, workflow TEXT NOT NULL, birth TEXT NOT NULL, epoch INT NOT NULL,
  entries INT NOT NULL, head BYTES NOT NULL, sequence INT NOT NULL, digest BYTES, checkpoints INT NOT NULL, state TEXT);
CREATE TABLE entries (place KEY, run INT NOT NULL, entry INT NOT NULL, kind TEXT NOT NULL, at INT NOT NULL, epoch INT NOT NULL,
  hash BYTES NOT NULL, step TEXT, started INT, summary TEXT, size INT NOT NULL, body TEXT, content BYTES, UNIQUE (run, entry));
CREATE TABLE checkpoints (run INT NOT NULL, sequence INT NOT NULL, entry INT NOT NULL, cause TEXT NOT NULL, stage TEXT NOT NULL,
  quarantined INT, PRIMARY KEY (run, sequence)) COMPACT;
CREATE TABLE tombstones (run INT NOT NULL, sequence INT NOT NULL, entry INT NOT NULL, dropped INT NOT NULL, why TEXT NOT NULL,
  PRIMARY KEY (run, sequence)) COMPACT;
CREATE TABLE chunks (place KEY, digest BYTES NOT NULL UNIQUE, sweep INT NOT NULL, bytes BYTES NOT NULL);
CREATE TABLE effects (run INT NOT NULL, key TEXT NOT NULL, kind TEXT NOT NULL, target TEXT NOT NULL, payload TEXT NOT NULL,
  state TEXT NOT NULL, at TEXT NOT NULL, outcome TEXT NOT NULL, PRIMARY KEY (run, key)) COMPACT;
CREATE TABLE leases (run INT PRIMARY KEY, epoch INT NOT NULL, token TEXT NOT NULL, host TEXT NOT NULL, pid INT NOT NULL, started TEXT,
  boot TEXT, label TEXT NOT NULL, taken TEXT NOT NULL, heartbeat TEXT NOT NULL, slot TEXT);
CREATE TABLE tags (run INT NOT NULL, name TEXT NOT NULL, sequence INT NOT NULL, PRIMARY KEY (run, name)) COMPACT;
CREATE TABLE signals (run INT NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL, state TEXT NOT NULL, body TEXT NOT NULL,
  checksum INT NOT NULL, PRIMARY KEY (run, id)) COMPACT;
CREATE INDEX tags_by_checkpoint ON tags (run, sequence);
CREATE INDEX runs_by_workflow ON runs (workflow, run);
`;

/**
 * What each schema adds to the one before it. Processes of that one may have the store open and go on writing, so a step only adds, and what it
 * adds has a default.
 */
const STEPS: readonly string[] = [TABLES];
export const SCHEMA = STEPS.length;

/** The names that `createTables` takes in a database besides `meta`. */
export const NAMES: readonly string[] = STEPS.flatMap((step) =>
  [...step.matchAll(/\bCREATE (?:TABLE|INDEX) (\w+)/g)].map(([, name = ""]) => name),
);

/** What each of the words above is called in a database. */
export interface Dialect {
  readonly KEY: string;
  readonly INT: string;
  readonly TEXT: string;
  readonly BYTES: string;
  readonly COMPACT: string;
}

export const SQLITE: Dialect = {
  KEY: "INTEGER PRIMARY KEY",
  INT: "INTEGER",
  TEXT: "TEXT",
  BYTES: "BLOB",
  COMPACT: "WITHOUT ROWID",
};

/** Statements that make the tables in an empty database, and name the store. */
export function createTables(tx: WriteTransaction, dialect: Dialect, id: string): void {
  runAll(tx, dialect, META);
  putMeta(tx, "store/id", id);
  putMeta(tx, "store/sweeps", "0");
  upgradeTables(tx, dialect, 0);
}

/** Statements that bring the tables of an older schema to this one. */
export function upgradeTables(tx: WriteTransaction, dialect: Dialect, from: number): void {
  for (const step of STEPS.slice(from)) runAll(tx, dialect, step);
  putMeta(tx, "store/schema", String(SCHEMA));
}

function runAll(tx: WriteTransaction, dialect: Dialect, statements: string): void {
  const sql = statements.replace(/\b(?:KEY|INT|TEXT|BYTES|COMPACT)\b/g, (word, at: number) =>
    // PRIMARY KEY is the same everywhere.
    isWord(word) && !(word === "KEY" && statements.slice(0, at).endsWith("PRIMARY ")) ? dialect[word] : word,
  );
  for (const statement of sql.split(";")) if (statement.trim() !== "") tx.run(statement.trim());
}

function isWord(word: string): word is keyof Dialect {
  return word === "KEY" || word === "INT" || word === "TEXT" || word === "BYTES" || word === "COMPACT";
}

/** Facts of users are kept under this prefix, beside the store's own. */
export const FACT = "fact/";

export function putMeta(tx: WriteTransaction, key: string, value: string): void {
  tx.run(
    "INSERT INTO meta (key, value, checksum) VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value, checksum = excluded.checksum",
    [key, value, checksum(key, value)],
  );
}

export async function getMeta(tx: ReadTransaction, key: string): Promise<string | undefined> {
  const [row] = await tx.all("SELECT key, value, checksum FROM meta WHERE key = ?", [key]);
  return row === undefined ? undefined : checkedMeta(row);
}

/** False in a database whose process died before it had made the tables, which it makes in one transaction. */
export async function hasTables(tx: ReadTransaction): Promise<boolean> {
  return (await tx.all("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'meta'")).length > 0;
}

export async function holdsRuns(tx: ReadTransaction): Promise<boolean> {
  return (await tx.all("SELECT run FROM runs LIMIT 1")).length > 0;
}

export async function storeId(tx: ReadTransaction): Promise<string> {
  const id = await getMeta(tx, "store/id");
  if (id !== undefined) return id;
  throw new HoldfastError({
    code: "STORE_CORRUPT",
    message: "The database does not name its store",
    hint: "Restore the store from a backup.",
  });
}

export function checkedMeta(row: Row): string {
  const [key, value] = [text(row, "key"), text(row, "value")];
  if (integer(row, "checksum") === checksum(key, value)) return value;
  throw new HoldfastError({
    code: "STORE_CORRUPT",
    message: `The fact ${JSON.stringify(key.startsWith(FACT) ? key.slice(FACT.length) : key)} of the store is damaged`,
    hint: "Set it again; no run depends on it.",
    data: { key },
  });
}

/** Of a row that no journal covers. */
export function checksum(...columns: readonly string[]): number {
  return crc32(columns.join("\n"));
}

/** STORE_TOO_NEW for a schema that a newer Holdfast has written. */
export function checkSchema(schema: string | undefined, location: string): void {
  if (isOlderSchema(schema, location)) throw noSchema(location);
}

/** As `checkSchema`, where tables of an older schema can be upgraded. */
export function isOlderSchema(schema: string | undefined, location: string): boolean {
  const found = Number(schema ?? Number.NaN);
  if (Number.isSafeInteger(found) && found >= 0 && found <= SCHEMA) return found < SCHEMA;
  throw found > SCHEMA
    ? new HoldfastError({
        code: "STORE_TOO_NEW",
        message: `The store ${location} has schema ${found}; this Holdfast supports up to ${SCHEMA}`,
        hint: "Use the Holdfast version that wrote it, or a newer one.",
        data: { location, schema: found, known: SCHEMA },
      })
    : noSchema(location);
}

function noSchema(location: string): HoldfastError {
  return new HoldfastError({
    code: "STORE_CORRUPT",
    message: `The store ${location} does not name its schema`,
    hint: "Restore the store from a backup.",
    data: { location },
  });
}

/* Columns as a driver hands them out, parsed once here. A wrong type is damage. */

export function integer(row: Row, column: string): number {
  const value = row[column];
  if (typeof value === "number" && Number.isSafeInteger(value)) return value;
  throw damaged(column, value);
}

export function text(row: Row, column: string): string {
  const value = row[column];
  if (typeof value === "string") return value;
  throw damaged(column, value);
}

export function textOrNull(row: Row, column: string): string | null {
  return row[column] === null ? null : text(row, column);
}

export function bytes(row: Row, column: string): Uint8Array {
  const value = row[column];
  if (value instanceof Uint8Array) return value;
  throw damaged(column, value);
}

/** Digests of entries are hex to callers and 32 bytes in the database. */
export function digest(row: Row, column: string): string {
  return Buffer.from(bytes(row, column)).toString("hex");
}

export function digestOrNull(row: Row, column: string): string | null {
  return row[column] === null ? null : digest(row, column);
}

/** A time in milliseconds; damage where a date cannot hold it. */
export function isoTime(row: Row, column: string): string {
  const time = new Date(integer(row, column));
  if (!Number.isNaN(time.getTime())) return time.toISOString();
  throw damaged(column, row[column]);
}

function damaged(column: string, value: unknown): HoldfastError {
  return new HoldfastError({
    code: "STORE_CORRUPT",
    message: `The column ${column} holds ${value === null ? "nothing" : `a ${typeof value} that does not belong there`}`,
    hint: "Run `holdfast verify` to see what is still whole.",
    data: { column },
  });
}
