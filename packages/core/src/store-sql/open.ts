// Opens the SQL store in a SQLite database. Reports a store that is missing, cut or replaced, and never takes it for a new one.

import { statSync } from "node:fs";
import { resolve } from "node:path";
import { type Clock, systemClock } from "@holdfast/platform/clock";
import { HoldfastError } from "@holdfast/platform/error";
import { unsafeFileSystem } from "@holdfast/platform/file-system";
import { makeDurableDirectory, syncDirectory } from "@holdfast/platform/files";
import { type ProcessIdentity, isSameKernel, processIdentity, randomId } from "@holdfast/platform/identity";
import { keepProcessRecords } from "@holdfast/platform/process-records";
import { checkArgument } from "../options.ts";
import type { Store } from "../store.ts";
import type { Driver } from "./driver.ts";
import { openHighWaterMark } from "./high-water.ts";
import { lockDirectory, openToken } from "./leases.ts";
import { cutError, findCuts } from "./read.ts";
import { SQLITE, checkSchema, createTables, getMeta, holdsRuns, storeId } from "./schema.ts";
import {
  type Connection,
  checkDurability,
  connect,
  createReadingDriver,
  createWritingDriver,
  openReadOnly,
  patiently,
} from "./sqlite-driver.ts";
import { isBusy, sqliteError } from "./sqlite-errors.ts";
import {
  type Layout,
  type Marker,
  checkKinds,
  createDatabaseFile,
  keepDamaged,
  layoutOf,
  makeReserve,
  mayWrite,
  missingDatabase,
  mixedUp,
  noStore,
  readMarker,
  writeMarker,
} from "./sqlite-files.ts";
import { createSqlStore } from "./store.ts";

export interface OpenSqliteParams {
  readonly directory: string;
  /** Make a store where there never was one (default), or STORE_ABSENT. */
  readonly create?: boolean;
  /** Open for reading even where writing would be possible. */
  readonly readOnly?: boolean;
  readonly clock?: Clock;
  /** As whom this handle takes leases; another process's only in tests. It then holds no lock file. */
  readonly identity?: ProcessIdentity;
  /** How long to wait for other processes before STORE_BUSY. */
  readonly busyMs?: number;
}

/** STORE_ABSENT, STORE_MISSING, STORE_CUT, STORE_CORRUPT, STORE_TOO_NEW, STORE_UNSAFE, STORE_BUSY. */
export async function openSqliteStore(params: OpenSqliteParams): Promise<Store> {
  checkArgument("openSqliteStore", "its options", params, "object");
  checkArgument("openSqliteStore", "directory", params.directory, "path");
  const layout = layoutOf(resolve(params.directory));
  const busyMs = params.busyMs ?? 10_000;
  try {
    const { marker, access } = examineFiles(layout, params);
    if (access === "read") {
      const driver = await createReadingDriver(layout, busyMs);
      return storeOn(driver, "read", await driver.read(storeId), params);
    }
    if (marker !== null) await inspectFirst(layout, busyMs);
    const driver = await openForWriting(layout, { marker, create: params.create ?? true, busyMs });
    try {
      const id = await driver.read(storeId);
      const mark = driver.highWater?.read() ?? { kind: "absent" };
      const [cut] = await driver.read((tx) => findCuts(tx, mark, { storeId: id, damaged: "throw" }));
      if (cut !== undefined) throw cutError(layout.directory, layout.highWater, cut);
      return storeOn(driver, "write", id, params);
    } catch (error) {
      await abandon(driver, layout);
      throw error;
    }
  } catch (error) {
    throw sqliteError(error, layout.directory);
  }
}

function storeOn(driver: Driver, access: "write" | "read", id: string, params: OpenSqliteParams): Store {
  const { identity = processIdentity() } = params;
  if (access === "write") keepProcessRecords(id, lockDirectory(driver.location));
  return createSqlStore({
    driver,
    id,
    access,
    // The locks of another kernel are not seen.
    directory: isSameKernel(identity, processIdentity()) ? driver.location : null,
    locks: params.identity === undefined,
    token: openToken(),
    identity,
    clock: params.clock ?? systemClock,
  });
}

function examineFiles(
  layout: Layout,
  params: OpenSqliteParams,
): { readonly marker: Marker | null; readonly access: "write" | "read" } {
  checkKinds(layout);
  const marker = readMarker(layout.marker);
  const size = statSync(layout.database, { throwIfNoEntry: false })?.size;
  if (marker !== null && (size === undefined || size === 0))
    throw missingDatabase(layout, size === undefined ? "gone" : "empty");
  const isReader = params.readOnly === true || (size !== undefined && !mayWrite(layout));
  if (size === undefined && (isReader || params.create === false)) throw noStore(layout);
  return { marker, access: isReader ? "read" : "write" };
}

/**
 * Looks for damage through a connection that only reads. SQLite discards a log that it cannot use as soon as a connection for writing is closed,
 * so the files of a store that is cut or damaged are copied to the quarantine first, and the store is refused. Where the high-water mark is gone,
 * a cut would not be noticed: then the copy is all that is left of what the log held.
 */
async function inspectFirst(layout: Layout, busyMs: number): Promise<void> {
  const seen = await inspect(layout, busyMs);
  if (seen === "whole") return;
  if (seen === "unmarked") {
    keepDamaged(layout);
    return;
  }
  const kept = keepQuietly(layout);
  const where = kept === null ? "" : ` The files as they are were copied to ${kept}.`;
  throw new HoldfastError({
    code: seen.code,
    message: seen.message,
    hint: `${seen.hint ?? ""}${where}`.trim(),
    data: { ...seen.data, ...(kept === null ? {} : { quarantine: kept }) },
    cause: seen,
  });
}

async function inspect(layout: Layout, busyMs: number): Promise<"whole" | "unmarked" | HoldfastError> {
  try {
    for (;;) {
      const mark = openHighWaterMark(layout.highWater).read();
      const files = await patiently(() => openReadOnly(layout), busyMs);
      try {
        const id = await storeId(files.connection);
        const [cut] = await findCuts(files.connection, mark, { storeId: id, damaged: "throw" });
        if (files.moved()) continue;
        if (cut !== undefined) return cutError(layout.directory, layout.highWater, cut);
        if (mark.kind === "cut") return cutMark(layout, mark.bytes);
        const holds = await holdsRuns(files.connection);
        const hasLog = statSync(layout.wal, { throwIfNoEntry: false }) !== undefined;
        return mark.kind !== "read" && holds && hasLog ? "unmarked" : "whole";
      } catch (error) {
        if (!files.moved()) throw error;
      } finally {
        files.close();
      }
    }
  } catch (error) {
    if (isBusy(error)) throw error;
    const known = sqliteError(error, layout.directory);
    // Anything else, such as a file that is not there any more, is for the opening itself to report.
    return known.code === "STORE_CORRUPT" ? known : "whole";
  }
}

function cutMark(layout: Layout, bytes: number): HoldfastError {
  return new HoldfastError({
    code: "STORE_CUT",
    message: `The high-water mark ${layout.highWater} was cut to ${bytes} bytes: whether the store ${layout.directory} is older than it was is not known`,
    hint: `Restore the whole directory from one backup. To accept a possible loss, remove ${layout.highWater}.`,
    data: { location: layout.directory },
  });
}

/** The store is refused either way; without space for a copy nothing is lost, because nothing is opened for writing. */
function keepQuietly(layout: Layout): string | null {
  try {
    return keepDamaged(layout);
  } catch {
    return null;
  }
}

/** Only before a store is made: one that exists holds work, and must open. */
function refuseUnsafeFileSystem(location: string): void {
  const type = unsafeFileSystem(location);
  if (type === null) return;
  throw new HoldfastError({
    code: "STORE_UNSAFE",
    message: `${location} is on ${type}, whose locks and flushes do not protect a store`,
    hint: "Clone the repository to a local disk (on WSL: into the Linux file system) and run the command there.",
    data: { location, type },
  });
}

/**
 * Makes a store in this order: directory, database with its tables, high-water mark, marker; each is durable before the next. A crash in between
 * leaves a database without marker and without runs, which the next opening completes.
 */
async function openForWriting(
  layout: Layout,
  params: { readonly marker: Marker | null; readonly create: boolean; readonly busyMs: number },
): Promise<Driver> {
  const { marker, busyMs } = params;
  // The marker is written last: where it is, the directory lasts.
  if (marker === null) {
    refuseUnsafeFileSystem(layout.directory);
    makeDurableDirectory(layout.directory);
  }
  createDatabaseFile(layout);
  const writer = await patiently(() => connect(layout.database, "write"), busyMs);
  try {
    await patiently(() => ensureTables(writer, layout, params), busyMs);
    checkSchema(await getMeta(writer, "store/schema"), layout.directory);
    checkDurability(writer, layout.directory);
    const id = await storeId(writer);
    if (marker !== null && marker.id !== id) throw mixedUp(layout);
    // With runs in it the marker was there once, and its loss is for verify to report.
    if (marker === null && !(await holdsRuns(writer))) {
      openHighWaterMark(layout.highWater).begin(id);
      // Names that no sync has covered can survive a power cut in any order, and the marker says that the others were there.
      syncDirectory(layout.directory);
      writeMarker(layout.marker, id);
    }
    makeReserve(layout);
    return createWritingDriver({ layout, writer, busyMs });
  } catch (error) {
    writer.close();
    throw error;
  }
}

/** Looks before it locks; two processes that make one store at once make one. */
function ensureTables(
  writer: Connection,
  layout: Layout,
  params: { readonly marker: Marker | null; readonly create: boolean },
): void {
  const isThere = (): boolean =>
    writer.db.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'meta'").get() !== undefined;
  if (isThere()) return;
  if (params.marker !== null) throw missingDatabase(layout, "empty");
  if (!params.create) throw noStore(layout);
  writer.run("BEGIN IMMEDIATE");
  try {
    if (!isThere()) createTables(writer, SQLITE, randomId());
    writer.run("COMMIT");
  } catch (error) {
    if (writer.db.isTransaction) writer.run("ROLLBACK");
    throw error;
  }
}

/** Closes without a checkpoint: a second connection that only reads keeps the last one for writing from clearing the log away. */
async function abandon(driver: Driver, layout: Layout): Promise<void> {
  const guard = connect(layout.database, "read");
  try {
    guard.db.prepare("SELECT count(*) FROM sqlite_schema").get();
    await driver.close();
  } finally {
    guard.close();
  }
}
