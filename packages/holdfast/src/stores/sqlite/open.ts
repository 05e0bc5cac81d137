import { accessSync, closeSync, constants, openSync, statSync } from "node:fs";
import type { DatabaseSync } from "node:sqlite";
import { resolve } from "node:path";
import { cutError, findCuts } from "./verify/check-cut.ts";
import { text } from "./columns.ts";
import { checkDurability, openDatabase } from "./driver.ts";
import type { Handle } from "./handle.ts";
import { endToken, openToken } from "./handle-tokens.ts";
import { keepDamaged } from "./keep-damaged.ts";
import { type Layout, layoutOf } from "./layout.ts";
import { type Marker, readMarker, writeMarker } from "./witness/marker.ts";
import { openHandle } from "./open-handle.ts";
import { openReadOnly } from "./open-read-only.ts";
import { makeReserve } from "./reserve.ts";
import { climb, schemaOf } from "./schema.ts";
import { asHoldfastError, isBusy } from "./sqlite-errors.ts";
import { type Reading, createReadingStore } from "./reading-store.ts";
import { beginWitness, readWitness } from "./witness/witness.ts";
import { createSqliteStore } from "./sqlite-store.ts";
import { HoldfastError } from "@holdfast/platform/error";
import { type Clock, systemClock } from "@holdfast/platform/clock";
import type { Store } from "@holdfast/core/store";
import { fileKind, makeDurableDirectory, syncDirectory } from "@holdfast/platform/files";
import { sha256 } from "@holdfast/core/json";
import { type ProcessIdentity, processIdentity, randomId } from "@holdfast/platform/identity";

export interface OpenSqliteParams {
  readonly directory: string;
  /** Make a store where none ever was (default), or STORE_ABSENT. */
  readonly create?: boolean;
  /** Open for reading even where writing would be possible. */
  readonly readOnly?: boolean;
  readonly clock?: Clock;
  /** As whom this handle takes leases; another process's only in tests. */
  readonly identity?: ProcessIdentity;
  /** How long to wait for other processes before STORE_BUSY. */
  readonly busyMs?: number;
}

/**
 * Opens the embedded store in a directory of its own. What was there before and is not any more is told
 * (STORE_MISSING, STORE_CUT, STORE_CORRUPT) and never taken for a fresh store.
 */
export async function openSqliteStore(params: OpenSqliteParams): Promise<Store> {
  const layout = layoutOf(resolve(params.directory));
  const busyMs = params.busyMs ?? 10_000;
  try {
    const opened = await openPatiently(() => openFiles(layout, params), busyMs);
    if (opened === "reading")
      return await createReadingStore(() => openPatiently(() => openReading(layout, params), busyMs));
    const handle = handleOn(layout, params, opened);
    try {
      const [cut] = findCuts(handle, "throw");
      if (cut !== undefined) throw cutError(layout, cut);
    } catch (error) {
      opened.abandon();
      throw error;
    }
    return createSqliteStore({ id: opened.id, handle, onClose: opened.close });
  } catch (error) {
    throw asHoldfastError(error, layout.directory);
  }
}

interface Opened {
  readonly db: DatabaseSync;
  readonly id: string;
  readonly close: () => void;
  /** Closes without a checkpoint: the log stays as it is. */
  readonly abandon: () => void;
}

function handleOn(layout: Layout, params: OpenSqliteParams, { db, id }: Pick<Opened, "db" | "id">): Handle {
  return openHandle({
    db,
    layout,
    storeId: id,
    token: openToken(),
    identity: params.identity ?? processIdentity(),
    hasher: sha256,
    clock: params.clock ?? systemClock,
    busyMs: params.busyMs ?? 10_000,
  });
}

function openReading(layout: Layout, params: OpenSqliteParams): Reading {
  try {
    for (;;) {
      const opened = openReadOnly(layout);
      const id = storeIdOf(opened.db);
      const handle = handleOn(layout, params, { db: opened.db, id });
      const cuts = findCuts(handle, "skip");
      // A concurrent writer has recorded entries in the high-water mark that these files do not hold yet.
      if (cuts.length > 0 && opened.moved()) {
        opened.close();
        continue;
      }
      const store = createSqliteStore({ id, handle, onClose: opened.close });
      return { store, cuts, moved: opened.moved, cutError: (cut) => cutError(layout, cut) };
    }
  } catch (error) {
    if (isBusy(error)) throw error;
    throw asHoldfastError(error, layout.directory);
  }
}

/** The first moments of a store, and the last ones of another process's handle, are exclusive. */
async function openPatiently<T>(open: () => T, busyMs: number): Promise<T> {
  const until = performance.now() + busyMs;
  for (;;) {
    try {
      return open();
    } catch (error) {
      if (!isBusy(error) || performance.now() > until) throw error;
    }
    await new Promise((done) => setTimeout(done, 10 + Math.random() * 20));
  }
}

function openFiles(layout: Layout, params: OpenSqliteParams): Opened | "reading" {
  const create = params.create ?? true;
  checkKinds(layout);
  const marker = readMarker(layout.marker);
  const size = statSync(layout.database, { throwIfNoEntry: false })?.size;
  if (marker !== null && (size === undefined || size === 0))
    throw missing(layout, size === undefined ? "gone" : "empty");
  if (marker === null && size === undefined && !create) throw noStore(layout);
  if (size === undefined ? params.readOnly === true : params.readOnly === true || !mayWrite(layout)) {
    if (size === undefined) throw noStore(layout);
    return "reading";
  }
  if (marker !== null) inspectFirst(layout, params);
  return openForWriting(layout, marker, create);
}

/**
 * Looks for damage through a connection that only reads. SQLite discards a log that it cannot use as soon as a connection for
 * writing is closed, so the files of a store that is cut or damaged are copied to the quarantine first, and the store is refused. Where
 * the witness is gone, a cut would not be seen: then the copy is all that is left of what the log held.
 */
function inspectFirst(layout: Layout, params: OpenSqliteParams): void {
  const seen = inspect(layout, params);
  if (seen.kind === "whole") return;
  if (seen.kind === "unwitnessed") {
    keepDamaged(layout);
    return;
  }
  const { code, message, hint, data } = seen.error;
  const kept = keepQuietly(layout);
  const where = kept === null ? "" : ` The files as they are were copied to ${kept}.`;
  throw new HoldfastError({
    code,
    message,
    hint: `${hint ?? ""}${where}`.trim(),
    data: { ...data, ...(kept === null ? {} : { quarantine: kept }) },
    cause: seen.error,
  });
}

type Inspected =
  | { readonly kind: "whole" }
  | { readonly kind: "unwitnessed" }
  | { readonly kind: "damaged"; readonly error: HoldfastError };

function inspect(layout: Layout, params: OpenSqliteParams): Inspected {
  try {
    for (;;) {
      const opened = openReadOnly(layout);
      try {
        const handle = handleOn(layout, params, { db: opened.db, id: storeIdOf(opened.db) });
        const [cut] = findCuts(handle, "throw");
        endToken(handle.token);
        if (opened.moved()) continue;
        if (cut !== undefined) return { kind: "damaged", error: cutError(layout, cut) };
        const file = readWitness(layout.witness);
        if (file.kind === "cut") return { kind: "damaged", error: witnessCut(layout, file.bytes) };
        const witness = file.kind;
        const holds = opened.db.prepare("SELECT 1 FROM runs LIMIT 1").get() !== undefined;
        const lacks = witness !== "read" && holds && statSync(layout.wal, { throwIfNoEntry: false }) !== undefined;
        return { kind: lacks ? "unwitnessed" : "whole" };
      } finally {
        opened.close();
      }
    }
  } catch (error) {
    if (isBusy(error)) throw error;
    const told = asHoldfastError(error, layout.directory);
    // An older schema, or a file that is not there any more: opening for writing knows what to do.
    return told.code === "STORE_CORRUPT" ? { kind: "damaged", error: told } : { kind: "whole" };
  }
}

function witnessCut(layout: Layout, bytes: number): HoldfastError {
  return new HoldfastError({
    code: "STORE_CUT",
    message: `The high-water mark ${layout.witness} was cut to ${bytes} bytes: whether the store ${layout.directory} is older than it was is not known`,
    hint: `Restore the whole directory from one backup. To accept a possible loss, remove ${layout.witness}.`,
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

/**
 * Making a store: directory, database with its schema, then the marker, each durable before the next. A crash in between
 * leaves a database without marker and without runs, which the next opening completes.
 */
function openForWriting(layout: Layout, marker: Marker | null, create: boolean): Opened {
  // The marker is written last: where it is, the directory lasts.
  if (marker === null) makeDurableDirectory(layout.directory);
  // SQLite gives its other files the mode of this one.
  closeSync(
    openSync(
      layout.database,
      constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK,
      0o600,
    ),
  );
  const db = openDatabase({ path: layout.database, access: "write" });
  try {
    if (schemaOf(db) === 0) {
      if (marker !== null) throw missing(layout, "empty");
      if (!create) throw noStore(layout);
    }
    climb(db, { location: layout.directory, newId: randomId() });
    checkDurability(db, layout.directory);
    const id = storeIdOf(db);
    if (marker !== null && marker.id !== id) throw mixedUp(layout);
    // With runs in it the marker was there once, and its loss is for verify to tell.
    if (marker === null && db.prepare("SELECT 1 FROM runs LIMIT 1").get() === undefined) {
      beginWitness(layout.witness, id);
      // Names that no sync has covered can survive a power cut in any order, and the marker says that the others were there.
      syncDirectory(layout.directory);
      writeMarker(layout.marker, id);
    }
    makeReserve(layout);
    return { db, id, close: () => db.close(), abandon: () => abandon(db, layout) };
  } catch (error) {
    db.close();
    throw error;
  }
}

/** A second connection that only reads keeps the last one for writing from clearing the log away. */
function abandon(db: DatabaseSync, layout: Layout): void {
  const guard = openDatabase({ path: layout.database, access: "read" });
  try {
    guard.prepare("SELECT count(*) FROM sqlite_schema").get();
    db.close();
  } finally {
    guard.close();
  }
}

function storeIdOf(db: DatabaseSync): string {
  return text(db.prepare("SELECT id FROM identity").get() ?? {}, "id");
}

/** A FIFO, directory, link or device in a file's place is refused before anything opens it. */
function checkKinds(layout: Layout): void {
  const expected = [
    [layout.marker, "file"],
    [layout.database, "file"],
    [layout.wal, "file"],
    [layout.sharedMemory, "file"],
    [layout.blobs, "directory"],
  ] as const;
  for (const [path, wanted] of expected) {
    const kind = fileKind(path);
    if (kind === "absent" || kind === wanted) continue;
    throw new HoldfastError({
      code: "STORE_CORRUPT",
      message: `${path} is not a ${wanted === "file" ? "regular file" : "directory"}`,
      hint: "Somebody put something else in its place. Move it away and restore the store's directory from a backup.",
      data: { path, kind },
    });
  }
}

function mayWrite(layout: Layout): boolean {
  try {
    accessSync(layout.directory, constants.W_OK);
    accessSync(layout.database, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

function missing(layout: Layout, how: "gone" | "empty"): HoldfastError {
  return new HoldfastError({
    code: "STORE_MISSING",
    message: `The database ${layout.database} is ${how}, although a store was made here`,
    hint: `Restore the directory ${layout.directory} from a backup. To begin anew and give up what was in it, move the directory away.`,
    data: { location: layout.directory },
  });
}

function noStore(layout: Layout): HoldfastError {
  return new HoldfastError({
    code: "STORE_ABSENT",
    message: `There is no store in ${layout.directory}`,
    hint: "Check the path; a store is made by the first command that saves something.",
    data: { location: layout.directory },
  });
}

function mixedUp(layout: Layout): HoldfastError {
  return new HoldfastError({
    code: "STORE_CORRUPT",
    message: `The database and the marker in ${layout.directory} belong to different stores`,
    hint: "Restore the whole directory from one backup.",
    data: { location: layout.directory },
  });
}
