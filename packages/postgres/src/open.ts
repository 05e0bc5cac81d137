import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type Clock, systemClock } from "@holdfast/platform/clock";
import { HoldfastError, describeList, usageError } from "@holdfast/platform/error";
import { makeDurableDirectory, readRegularFile, writeDurable } from "@holdfast/platform/files";
import { type ProcessIdentity, isSameKernel, processIdentity, randomId } from "@holdfast/platform/identity";
import { keepProcessRecords } from "@holdfast/platform/process-records";
import { sha256 } from "@holdfast/core/json";
import { checkArgument } from "@holdfast/core/options";
import type { Store } from "@holdfast/core/store";
import type { WriteTransaction } from "@holdfast/core/store-sql/driver";
import { type HighWaterMark, openHighWaterMark } from "@holdfast/core/store-sql/high-water";
import { lockDirectory, openToken } from "@holdfast/core/store-sql/leases";
import { cutError, findCuts } from "@holdfast/core/store-sql/read";
import {
  type Dialect,
  NAMES,
  SCHEMA,
  createTables,
  getMeta,
  isOlderSchema,
  storeId,
  text,
  upgradeTables,
} from "@holdfast/core/store-sql/schema";
import { createSqlStore } from "@holdfast/core/store-sql/store";
import { type PostgresDriver, type ServerFacts, type ServerWait, connectDriver, schemaLock } from "./driver.ts";
import { postgresError, sqlState } from "./errors.ts";
import { stateDirectory } from "./store-url.ts";
import { type Target, parseTarget } from "./target.ts";

/* Opens the SQL store in a schema of a PostgreSQL database. */

export interface OpenPostgresParams {
  /** `postgres://USER@HOST:PORT/DATABASE?schema=NAME`; what it leaves out comes from the PG* variables. */
  readonly url: string;
  /** Where this machine keeps what belongs to a store: locks of its processes, the high-water mark. Default: XDG_STATE_HOME. */
  readonly stateHome?: string;
  /** Make a store where there is none (default), or STORE_ABSENT. */
  readonly create?: boolean;
  readonly readOnly?: boolean;
  readonly clock?: Clock;
  /** Called when the server has not answered for five seconds while calls wait: once until it answers. */
  readonly onWait?: (wait: ServerWait) => void;
  /** As whom this handle takes leases; another process's only in tests. It then holds no lock file. */
  readonly identity?: ProcessIdentity;
  /** How long calls wait for a server that is gone or restarts. Opening does not wait. */
  readonly patienceMs?: number;
}

const PATIENCE_MS = 120_000;
const STARTING_MS = 10_000;

/** Numbers are BIGINT, and texts compare by their bytes, as in SQLite. */
export const POSTGRES: Dialect = {
  KEY: "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
  INT: "BIGINT",
  TEXT: 'TEXT COLLATE "C"',
  BYTES: "BYTEA",
  COMPACT: "",
};

/**
 * What the words of the schema do not say. Chunks and planes are compressed already, so the server does not try. The row of a run and of a lease
 * changes with every save: with free space in its page no index is touched.
 */
const STORAGE = [
  "ALTER TABLE chunks ALTER COLUMN bytes SET STORAGE EXTERNAL",
  "ALTER TABLE entries ALTER COLUMN content SET STORAGE EXTERNAL",
  "ALTER TABLE runs SET (fillfactor = 50)",
  "ALTER TABLE leases SET (fillfactor = 50)",
];

/** USAGE, STORE_ABSENT, STORE_MISSING, STORE_CUT, STORE_TOO_NEW, STORE_UNSAFE, STORE_READ_ONLY, IO_FAILED. */
export async function openPostgresStore(params: OpenPostgresParams): Promise<Store> {
  checkArgument("openPostgresStore", "its options", params, "object");
  checkArgument("openPostgresStore", "url", params.url, "text");
  const target = parseTarget(params.url);
  try {
    return await open(target, params);
  } catch (error) {
    throw postgresError(error, target.location);
  }
}

async function open(target: Target, params: OpenPostgresParams): Promise<Store> {
  let highWater: HighWaterMark | null = null;
  const driver = await connect(target, params, () => highWater);
  try {
    const isReader = params.readOnly === true || driver.facts.readOnly;
    const record = recordOf(target, params.stateHome);
    const known = readRecord(record);
    const create = params.create !== false && !isReader && known === null;
    await ensureTables(driver, target, { create, isReader, facts: driver.facts }).catch((error: unknown) => {
      const isAbsent = error instanceof HoldfastError && error.code === "STORE_ABSENT";
      throw isAbsent && known !== null ? gone(target, record, "There was a store in") : error;
    });
    const id = await driver.read(storeId);
    if (known !== null && known !== id) throw gone(target, record, "Another store is in");
    const directory = stateDirectory(id, params.stateHome);
    const access = isReader || !(await mayWrite(driver)) ? "read" : "write";
    highWater = openHighWaterMark(join(directory, "high-water"));
    const mark = highWater.read();
    // A machine that has never written to the store has no mark to lose.
    if (access === "read" && known === null && mark.kind === "absent") highWater = null;
    if (access === "write" && highWater !== null) {
      makeDurableDirectory(directory);
      if (mark.kind === "absent") highWater.begin(id);
      const [cut] = await driver.read((tx) => findCuts(tx, mark, { storeId: id, damaged: "throw" }));
      if (cut !== undefined) throw cutError(target.location, highWater.path, cut);
      keepProcessRecords(id, lockDirectory(directory));
      if (known === null) writeDurable({ path: record, data: Buffer.from(`${id}\n`), mode: "replace" });
    }
    const { identity = processIdentity() } = params;
    return createSqlStore({
      driver: access === "read" ? { ...driver, highWater, write: () => Promise.reject(readOnly(target)) } : driver,
      id,
      access,
      // The locks of another kernel are not seen.
      directory: isSameKernel(identity, processIdentity()) ? directory : null,
      locks: params.identity === undefined,
      token: openToken(),
      identity,
      clock: params.clock ?? systemClock,
    });
  } catch (error) {
    await driver.close().catch(() => {});
    throw error;
  }
}

/** Records which store this machine has seen in a place, so that one that is gone is not taken for a new one. */
function recordOf({ location }: Target, home?: string): string {
  return stateDirectory(`${sha256(location).slice(0, 32)}.seen`, home);
}

function readRecord(path: string): string | null {
  const file = readRegularFile({ path, maxBytes: 1024 });
  return file.kind === "read" ? file.bytes.toString("utf8").trim() : null;
}

/** Waits only for a server that says it is starting. */
async function connect(
  target: Target,
  params: OpenPostgresParams,
  highWater: () => HighWaterMark | null,
): Promise<PostgresDriver & { readonly facts: ServerFacts }> {
  const until = process.uptime() * 1000 + STARTING_MS;
  for (;;) {
    try {
      return await connectDriver({
        target,
        highWater,
        ownClock: params.clock !== undefined,
        patienceMs: params.patienceMs ?? PATIENCE_MS,
        onWait: params.onWait,
      });
    } catch (error) {
      if (sqlState(error) !== "57P03" || process.uptime() * 1000 > until) throw error;
    }
    await delay(200);
  }
}

/**
 * Looks before it locks or creates: a statement that creates needs rights that a worker's role does not have, and locks tables against writers. Two
 * processes that create or upgrade the tables at once do it once.
 */
async function ensureTables(
  driver: PostgresDriver,
  target: Target,
  params: { readonly create: boolean; readonly isReader: boolean; readonly facts: ServerFacts },
): Promise<void> {
  const isThere = async (): Promise<boolean> => {
    // A schema without the right USAGE is not on the search path: its tables would look gone.
    const sql = `SELECT (has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT'))::int AS may,
      EXISTS (SELECT FROM pg_attribute WHERE attrelid = c.oid AND attname = 'checksum')::int AS ours FROM pg_namespace n
      JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'meta' WHERE n.nspname = ?`;
    const [row] = await driver.read((tx) => tx.all(sql, [target.schema]));
    if (row?.["ours"] === 0) throw occupied(target, ["meta"]);
    if (row?.["may"] === 0) throw unreadable(target);
    return row !== undefined;
  };
  if (!(await isThere())) {
    if (!params.create) throw absent(target);
    if (/fsync=off|full_page_writes=off/.test(params.facts.durability)) throw unsafe(target, params.facts);
    await driver.inTransaction("BEGIN", async (tx) => {
      await tx.all(schemaLock(target.schema));
      if (await isThere()) return;
      const taken = await tx.all(
        `SELECT c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
          WHERE n.nspname = ? AND c.relname IN (${NAMES.map(() => "?").join(", ")}) ORDER BY c.relname`,
        [target.schema, ...NAMES],
      );
      if (taken.length > 0)
        throw occupied(
          target,
          taken.map((row) => text(row, "name")),
        );
      const [found] = await tx.all("SELECT 1 AS one FROM pg_namespace WHERE nspname = ?", [target.schema]);
      if (found === undefined) tx.run(`CREATE SCHEMA "${target.schema}"`);
      createTables(tx, POSTGRES, randomId());
      for (const statement of STORAGE) tx.run(statement);
    });
  }
  const schema = await driver.read((tx) => getMeta(tx, "store/schema"));
  if (!isOlderSchema(schema, target.location)) return;
  if (params.isReader || !(await isOwner(driver))) throw older(target, schema);
  await driver.inTransaction("BEGIN", async (tx) => {
    await tx.all(schemaLock(target.schema));
    const found = await getMeta(tx, "store/schema");
    if (isOlderSchema(found, target.location)) upgrade(tx, Number(found));
  });
}

function upgrade(tx: WriteTransaction, from: number): void {
  upgradeTables(tx, POSTGRES, from);
  if (from === 0) for (const statement of STORAGE) tx.run(statement);
}

async function isOwner(driver: PostgresDriver): Promise<boolean> {
  const [row] = await driver.read((tx) =>
    tx.all("SELECT pg_has_role(relowner, 'USAGE')::int AS owns FROM pg_class WHERE oid = 'meta'::regclass"),
  );
  return row?.["owns"] === 1;
}

async function mayWrite(driver: PostgresDriver): Promise<boolean> {
  const [row] = await driver.read((tx) => tx.all("SELECT has_table_privilege('entries', 'INSERT')::int AS may"));
  return row?.["may"] === 1;
}

/** Such as the schema of the queue, or of another program. */
function occupied({ location }: Target, names: readonly string[]): HoldfastError {
  return usageError(
    `There is no store in ${location}, and its schema has tables of something else: ${describeList(names)}`,
    "Nothing was created. Name a schema for the store alone in the URL, such as ?schema=holdfast_store.",
    { location },
  );
}

function unreadable({ location, schema }: Target): HoldfastError {
  return new HoldfastError({
    code: "STORE_READ_ONLY",
    message: `The role may not read the schema ${schema} of ${location}`,
    hint: "Grant the role what docs/postgres.md lists: USAGE on the schema and SELECT on its tables at least.",
    data: { location, schema },
  });
}

function gone(
  { location }: Target,
  record: string,
  how: "There was a store in" | "Another store is in",
): HoldfastError {
  return new HoldfastError({
    code: "STORE_MISSING",
    message: `${how} ${location}${how === "There was a store in" ? ", and it is gone" : " than this machine has used"}`,
    hint: `Restore the schema from a backup, or correct the URL. To use what is there now, remove ${record}.`,
    data: { location, record },
  });
}

function older({ location }: Target, schema: string | undefined): HoldfastError {
  return new HoldfastError({
    code: "STORE_READ_ONLY",
    message: `The store ${location} has schema ${schema}; this Holdfast needs ${SCHEMA}`,
    hint: "Run a command that writes, such as `holdfast gc`, once as the role that owns the tables: it adds what is missing.",
    retry: "ask",
    data: { location },
  });
}

function absent({ location }: Target): HoldfastError {
  return new HoldfastError({
    code: "STORE_ABSENT",
    message: `There is no store in ${location}`,
    hint: "The first run creates it. If there should be one, check the database and the schema in the URL.",
    data: { location },
  });
}

function unsafe({ location }: Target, { durability }: ServerFacts): HoldfastError {
  return new HoldfastError({
    code: "STORE_UNSAFE",
    message: `The server of ${location} would not keep what it acknowledges: it has ${durability}`,
    hint: "Set fsync and full_page_writes to on in postgresql.conf, and restart the server.",
    data: { location, durability },
  });
}

function readOnly({ location }: Target): HoldfastError {
  return new HoldfastError({
    code: "STORE_READ_ONLY",
    message: `The store ${location} is open for reading only`,
    hint: "Nothing was written. Use the primary server, and a role that may write: docs/postgres.md lists the grants.",
    retry: "ask",
    data: { location },
  });
}
