// The driver over node:sqlite: connections, transactions, and the settings that make a commit durable.

import { copyFileSync, mkdtempSync, rmSync, statSync, watch } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { pathToFileURL } from "node:url";
import { HoldfastError } from "@holdfast/platform/error";
import type { Claims, Driver, ReadTransaction, Row, SqlValue, WriteTransaction } from "./driver.ts";
import { openHighWaterMark } from "./high-water.ts";
import { checkSchema, getMeta, hasTables, holdsRuns } from "./schema.ts";
import { isBusy, losesTrust, sqliteError } from "./sqlite-errors.ts";
import {
  type Layout,
  fileState,
  layoutOf,
  missingDatabase,
  noStore,
  readMarker,
  releaseReserve,
  sizeOf,
} from "./sqlite-files.ts";

/** "immutable" reads a file that nothing can be writing, without any lock. */
export type Access = "write" | "read" | "immutable";

/** The calling thread sleeps inside SQLite that long; longer waits happen outside, with the event loop running. */
const NATIVE_TIMEOUT_MS = 200;
/** How soon a commit by another process is seen. Asking costs tens of microseconds, which adds up for a process that watches many stores. */
const POLL_MS = 50;
/** For file systems that do not report writes. */
const PATIENT_POLL_MS = 2000;
/** How long after a write a patient watcher looks. Writes that come together are one look. */
const HINT_MS = 200;
/** Longer than the coarsest times of a file system, which are two seconds apart. */
const CALM_MS = 2500;

/** A connection without the types of node:sqlite: the declarations of the package must not need the types of Node. */
export interface OpenDatabase extends WriteTransaction {
  pragma(name: string): unknown;
  inTransaction(): boolean;
}

/** One connection and its prepared statements. */
export interface Connection extends OpenDatabase {
  readonly db: DatabaseSync;
  close(): void;
}

export function connect(path: string, access: Access): Connection {
  const url = pathToFileURL(path);
  if (access === "immutable") url.searchParams.set("immutable", "1");
  return connectTo(url, access);
}

/** A database of its own that no other connection sees, gone when it is closed. */
export function connectToMemory(): Connection {
  return connectTo(":memory:", "write");
}

function connectTo(location: URL | string, access: Access): Connection {
  const db = new (sqlite().DatabaseSync)(location, {
    readOnly: access !== "write",
    timeout: NATIVE_TIMEOUT_MS,
    enableDoubleQuotedStringLiterals: false,
    allowExtension: false,
  });
  try {
    checkVersion(db);
    db.enableDefensive(true);
    db.exec("PRAGMA trusted_schema = OFF");
    // The default is 2 MB; a save of a large state should not spill unfinished pages to the log.
    db.exec("PRAGMA cache_size = -16384");
    if (access === "write") setDurability(db);
  } catch (error) {
    db.close();
    throw error;
  }
  const statements = new Map<string, StatementSync>();
  function prepared(sql: string): StatementSync {
    const known = statements.get(sql);
    if (known !== undefined) return known;
    const statement = db.prepare(sql);
    statements.set(sql, statement);
    return statement;
  }
  return {
    db,
    all(sql: string, params: readonly SqlValue[] = []): Promise<readonly Row[]> {
      try {
        return Promise.resolve(prepared(sql).all(...params));
      } catch (error) {
        return Promise.reject(error);
      }
    },
    run: (sql, params = []) => void prepared(sql).run(...params),
    inTransaction: () => db.isTransaction,
    pragma: (name) => Object.values(prepared(`PRAGMA ${name}`).get() ?? {})[0],
    close: () => db.close(),
  };
}

/** Not imported by name: on a Node without it, a clear message is better than the loader's stack trace. */
function sqlite(): typeof import("node:sqlite") {
  // The types promise it; an older Node does not keep that promise.
  const found: typeof import("node:sqlite") | undefined = process.getBuiltinModule("node:sqlite");
  if (found !== undefined) return found;
  throw new HoldfastError({
    code: "STORE_UNSAFE",
    message: `Node ${process.versions.node} has no SQLite that can be trusted with a store`,
    hint: "Use Node 22.22.3 or newer, 24.15 or newer, or 26.",
  });
}

function setDurability(db: DatabaseSync): void {
  // Only before the first table is made, since it writes to the file: a sweep can then give space back.
  if (db.prepare("PRAGMA page_count").get()?.["page_count"] === 0)
    db.exec("PRAGMA page_size = 4096; PRAGMA auto_vacuum = INCREMENTAL");
  // A power cut while SQLite switches a new database to WAL can leave a WAL file beside a header that still names the old mode. SQLite then
  // uses the WAL file and leaves the header as it is.
  else if (db.prepare("PRAGMA schema_version").get()?.["schema_version"] === 0) db.exec("PRAGMA journal_mode = DELETE");
  db.exec("PRAGMA journal_mode = WAL");
  db.exec("PRAGMA synchronous = FULL");
  // On macOS fsync leaves the data in the drive's cache.
  db.exec("PRAGMA fullfsync = ON");
  db.exec("PRAGMA checkpoint_fullfsync = ON");
}

/** Call after the first write: until then SQLite answers with what was asked for, not with what it got. */
export function checkDurability(connection: Connection, location: string): void {
  const mode = connection.pragma("journal_mode");
  const synchronous = connection.pragma("synchronous");
  const flush = ["fullfsync", "checkpoint_fullfsync"].find((name) => connection.pragma(name) !== 1);
  if (mode === "wal" && synchronous === 2 && flush === undefined) return;
  throw new HoldfastError({
    code: "STORE_UNSAFE",
    message: `SQLite would not keep what it acknowledges in ${location}: journal_mode is ${String(mode)}, synchronous is ${String(synchronous)}${flush === undefined ? "" : `, ${flush} is off`}`,
    hint: "Put the store on a local file system that supports shared memory (not a network share).",
    data: { location, mode, synchronous },
  });
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

/** Lets one piece of work after the other have something that only one may use. */
export interface Turns {
  busy: boolean;
  readonly waiting: (() => void)[];
}

export async function inTurn<T>(turns: Turns, work: () => Promise<T>): Promise<T> {
  if (turns.busy) await new Promise<void>((resolve) => turns.waiting.push(resolve));
  turns.busy = true;
  try {
    return await work();
  } finally {
    const next = turns.waiting.shift();
    if (next === undefined) turns.busy = false;
    else next();
  }
}

/**
 * Write transactions of one file take turns within the process. Without that, a handle that waits for a promise inside its transaction would
 * never get on: another handle's BEGIN blocks the thread until its timeout.
 */
const writers = new Map<string, Turns>();

function turnsOf(path: string): Turns {
  const found = writers.get(path) ?? { busy: false, waiting: [] };
  writers.set(path, found);
  return found;
}

/** Retries while another process has the lock, with the event loop running. */
export async function patiently<T>(work: () => T, busyMs: number): Promise<T> {
  // A monotonic clock. Unlike `performance`, it loads no module of Node.
  const now = (): number => process.uptime() * 1000;
  const until = now() + busyMs;
  for (;;) {
    try {
      return work();
    } catch (error) {
      if (!isBusy(error) || now() > until) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 5 + Math.random() * 20));
  }
}

/** Reads through a connection of its own, so that a read needs no turn of the writers. */
export function createWritingDriver(params: {
  readonly layout: Layout;
  readonly writer: Connection;
  readonly busyMs: number;
}): Driver {
  const { layout, writer, busyMs } = params;
  const turns = turnsOf(layout.database);
  const readers: Turns = { busy: false, waiting: [] };
  const dataVersion = (): string => String(writer.pragma("data_version"));
  let reader: Connection | undefined;
  let version: unknown;

  async function write<T>(
    _claims: Claims,
    work: (tx: WriteTransaction, undisturbed: boolean) => Promise<T>,
  ): Promise<T> {
    return inTurn(turns, async () => {
      await begin();
      try {
        const now = dataVersion();
        const undisturbed = now === version;
        version = now;
        const result = await work(writer, undisturbed);
        writer.run("COMMIT");
        return result;
      } catch (error) {
        version = undefined;
        if (writer.db.isTransaction) writer.run("ROLLBACK");
        throw error;
      }
    });
  }

  function begin(): Promise<void> | void {
    try {
      writer.run("BEGIN IMMEDIATE");
      return undefined;
    } catch (error) {
      if (!isBusy(error)) throw error;
    }
    return patiently(() => writer.run("BEGIN IMMEDIATE"), busyMs);
  }

  return {
    ...common(layout, () => writer),
    write,
    read: (work) =>
      inTurn(readers, async () => {
        reader ??= connect(layout.database, "read");
        return readSnapshot(reader, work);
      }),
    version: dataVersion,
    onChange: (listener, patient) => poll(dataVersion, listener, patient ? layout.directory : null),
    generation: () => 0,
    async compact() {
      const pages = 256;
      // In small steps: each is a write transaction that others wait for.
      for (;;) {
        const before = Number(writer.pragma("freelist_count"));
        if (before === 0) return;
        await inTurn(turns, () =>
          patiently(() => Promise.resolve(writer.db.exec(`PRAGMA incremental_vacuum(${pages})`)), busyMs),
        );
        if (Number(writer.pragma("freelist_count")) >= before) return;
      }
    },
    close: () =>
      inTurn(turns, () =>
        inTurn(readers, async () => {
          reader?.close();
          writer.close();
        }),
      ),
  };
}

/** One snapshot. Nothing was changed, so it ends with a rollback. */
export async function readSnapshot<T>(connection: OpenDatabase, work: (tx: ReadTransaction) => Promise<T>): Promise<T> {
  connection.run("BEGIN");
  try {
    return await work(connection);
  } finally {
    endRead(connection);
  }
}

/** On a damaged page even the end of a read fails, and what the read reported before matters more. */
function endRead(connection: OpenDatabase): void {
  try {
    connection.run("ROLLBACK");
  } catch (error) {
    if (connection.inTransaction()) throw error;
  }
}

/** One timer serves all patient watchers of a process, however many stores there are. */
const patientLooks = new Set<() => void>();
let patientTimer: NodeJS.Timeout | undefined;

/** `patient`: the folder of the store, whose writes are a hint. null: poll often. */
function poll(state: () => unknown, listener: () => void, patient: string | null): () => void {
  let last: unknown;
  const look = (): void => {
    try {
      const now = state();
      if (now !== last) listener();
      last = now;
    } catch {
      listener();
    }
  };
  if (patient === null) {
    const timer = setInterval(look, POLL_MS);
    return () => clearInterval(timer);
  }
  patientLooks.add(look);
  patientTimer ??= setInterval(() => patientLooks.forEach((one) => one()), PATIENT_POLL_MS);
  const stop = onWrites(patient, look);
  return () => {
    stop();
    patientLooks.delete(look);
    if (patientLooks.size > 0) return;
    clearInterval(patientTimer);
    patientTimer = undefined;
  };
}

/**
 * Calls back soon after writes in a folder. SQLite makes a commit visible without a write that is reported, but the high-water mark is
 * written after it. Nothing depends on this: some file systems report no writes, and a process may have too many watchers.
 */
function onWrites(folder: string, listener: () => void): () => void {
  let soon: NodeJS.Timeout | undefined;
  const hint = (): void => {
    soon ??= setTimeout(() => {
      soon = undefined;
      listener();
    }, HINT_MS);
  };
  try {
    const watcher = watch(folder, { persistent: false }, hint).on("error", () => watcher.close());
    return () => {
      watcher.close();
      clearTimeout(soon);
    };
  } catch {
    return () => undefined;
  }
}

function common(
  layout: Layout,
  connection: () => Connection,
): Pick<
  Driver,
  | "engine"
  | "durability"
  | "location"
  | "forUpdate"
  | "checkHead"
  | "shared"
  | "ordersCommits"
  | "clock"
  | "highWater"
  | "inspect"
  | "bytes"
  | "makeRoom"
  | "toError"
  | "losesTrust"
  | "blamesOne"
> {
  return {
    // Write transactions of one file take turns.
    forUpdate: "",
    checkHead: null,
    shared: false,
    ordersCommits: true,
    clock: null,
    get engine() {
      return `SQLite ${String(connection().db.prepare("SELECT sqlite_version() AS v").get()?.["v"])}`;
    },
    // `checkDurability` refuses to write with other settings. The pragmas of a connection that reads are not those of the writers.
    durability: "WAL, synchronous=FULL",
    location: layout.directory,
    highWater: openHighWaterMark(layout.highWater),
    async inspect() {
      const rows = await connection().all("PRAGMA integrity_check(100)");
      const damage = rows
        .map((row) => String(row["integrity_check"]))
        .filter((line) => line !== "ok")
        .map((line) => `SQLite finds the database damaged: ${line}`);
      return [...damage, ...(await inspectMarker(layout, connection()))];
    },
    bytes: async () =>
      Number(connection().pragma("page_count")) * Number(connection().pragma("page_size")) + sizeOf(layout.wal),
    makeRoom: () => releaseReserve(layout),
    toError: (error) => sqliteError(error, layout.directory),
    losesTrust,
    blamesOne: (error) => !isBusy(error),
  };
}

/** A process that dies while it makes a store leaves a database without marker, without heads of runs and perhaps without tables. */
async function checkMade(layout: Layout, tx: ReadTransaction): Promise<void> {
  const mark = openHighWaterMark(layout.highWater).read();
  const isNew = mark.kind === "absent" || (mark.kind === "read" && mark.heads.length + mark.damaged.length === 0);
  const isUnmade = isNew && readMarker(layout.marker) === null;
  if (!(await hasTables(tx))) throw isUnmade ? noStore(layout) : missingDatabase(layout, "empty");
  if (isUnmade && !(await holdsRuns(tx))) throw noStore(layout);
}

async function inspectMarker(layout: Layout, connection: Connection): Promise<readonly string[]> {
  try {
    const marker = readMarker(layout.marker);
    if (marker === null) return [`The store's marker ${layout.marker} is gone`];
    return marker.id === (await getMeta(connection, "store/id"))
      ? []
      : ["The marker and the database belong to different stores"];
  } catch (error) {
    return [sqliteError(error, layout.directory).message];
  }
}

/** One opening of the files for reading. */
export interface ReadOnlyFiles {
  readonly connection: Connection;
  /** Whether the files have changed since. SQLite's own locks see every commit: under them, whether the database is another file. */
  readonly moved: () => boolean;
  readonly close: () => void;
}

/**
 * Opens the database for reading and changes no file, whatever state they are in:
 * - no log, or an empty one: the database file as it is, without a lock and without helper files;
 * - a log with its shared memory: under SQLite's locks. A connection for reading never checkpoints, so the log stays; SQLite
 *   updates the shared memory, which is a cache and is written again at every start;
 * - a log without shared memory, or shared memory that cannot be written: a private copy, removed on close.
 */
export function openReadOnly(layout: Layout): ReadOnlyFiles {
  const before = fileState(layout);
  const moved = (): boolean => fileState(layout) !== before;
  if (sizeOf(layout.wal) === 0) {
    const connection = readable(connect(layout.database, "immutable"));
    return { connection, close: connection.close, moved };
  }
  if (sizeOf(layout.sharedMemory) > 0) {
    try {
      const connection = readable(connect(layout.database, "read"));
      const file = inodeOf(layout.database);
      return { connection, close: connection.close, moved: () => inodeOf(layout.database) !== file };
    } catch (error) {
      if (error instanceof HoldfastError) throw error;
    }
  }
  return openCopy(layout, moved);
}

function inodeOf(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.ino;
}

function openCopy(layout: Layout, moved: () => boolean): ReadOnlyFiles {
  const copy = layoutOf(mkdtempSync(join(tmpdir(), "holdfast-read-")));
  const remove = (): void => rmSync(copy.directory, { recursive: true, force: true });
  try {
    copyFileSync(layout.database, copy.database);
    copyFileSync(layout.wal, copy.wal);
    const connection = readable(connect(copy.database, "read"));
    return {
      connection,
      moved,
      close() {
        connection.close();
        remove();
      },
    };
  } catch (error) {
    remove();
    throw error;
  }
}

function readable(connection: Connection): Connection {
  try {
    connection.db.prepare("SELECT count(*) FROM sqlite_schema").get();
    return connection;
  } catch (error) {
    connection.close();
    throw error;
  }
}

/** When a writer appears, the files are opened again, and what was read meanwhile is read again. Writing is refused. */
export async function createReadingDriver(layout: Layout, busyMs: number): Promise<Driver> {
  const readers: Turns = { busy: false, waiting: [] };
  let files = await patiently(() => openReadOnly(layout), busyMs);
  let generation = 0;
  const version = (): string => [files.connection.pragma("data_version"), fileState(layout)].join();

  /** The database is asked only while its files change: their times are coarse, but differ for commits that are seconds apart. */
  function polledVersion(): () => string {
    let [state, last, changedAt] = ["", "", 0];
    return () => {
      const now = fileState(layout);
      if (now !== state) [state, changedAt] = [now, performance.now()];
      if (performance.now() - changedAt < CALM_MS) last = version();
      return last;
    };
  }

  async function read<T>(work: (tx: ReadTransaction) => Promise<T>): Promise<T> {
    return inTurn(readers, async () => {
      for (;;) {
        if (files.moved()) {
          // The old files stay open until the new ones are: a damaged store may be repaired later.
          const next = await patiently(() => openReadOnly(layout), busyMs);
          files.close();
          files = next;
          generation += 1;
        }
        try {
          const result = await readSnapshot(files.connection, work);
          if (!files.moved()) return result;
        } catch (error) {
          if (!files.moved()) throw error;
        }
      }
    });
  }

  try {
    await read((tx) => checkMade(layout, tx));
    checkSchema(await read((tx) => getMeta(tx, "store/schema")), layout.directory);
  } catch (error) {
    files.close();
    throw error;
  }
  return {
    ...common(layout, () => files.connection),
    write: () => Promise.reject(readOnly(layout)),
    read,
    version,
    onChange: (listener, patient) => poll(polledVersion(), listener, patient ? layout.directory : null),
    generation: () => generation,
    compact: () => Promise.resolve(),
    makeRoom: () => 0,
    close: () => inTurn(readers, async () => files.close()),
  };
}

function readOnly(layout: Layout): HoldfastError {
  return new HoldfastError({
    code: "STORE_READ_ONLY",
    message: `The store ${layout.directory} is open for reading only`,
    hint: "Nothing was written. Check the permissions of the store's directory and whether its file system is mounted read-only.",
    retry: "ask",
    data: { location: layout.directory },
  });
}
