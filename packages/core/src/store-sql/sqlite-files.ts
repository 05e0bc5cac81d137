// The files of one SQLite store: where they are, what they must be, and what is kept of them when they are damaged.

import { randomBytes } from "node:crypto";
import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  copyFileSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readdirSync,
  statSync,
  statfsSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { basename, join } from "node:path";
import { HoldfastError } from "@holdfast/platform/error";
import { fileKind, makeDurableDirectory, readRegularFile, syncDirectory, writeDurable } from "@holdfast/platform/files";

export interface Layout {
  readonly directory: string;
  /** Records that a store was made here, so that a missing database is reported as missing. */
  readonly marker: string;
  readonly database: string;
  readonly wal: string;
  readonly sharedMemory: string;
  /** How far each run had come (high-water.ts). */
  readonly highWater: string;
  /** Space for the last entries on a full disk. */
  readonly reserve: string;
  /** Copies of damaged files, each from before the store was opened for writing. */
  readonly quarantine: string;
}

export function layoutOf(directory: string): Layout {
  const database = join(directory, "store.db");
  return {
    directory,
    marker: join(directory, "store.json"),
    database,
    wal: `${database}-wal`,
    sharedMemory: `${database}-shm`,
    highWater: join(directory, "high-water"),
    reserve: join(directory, "reserve"),
    quarantine: join(directory, "quarantine"),
  };
}

/** A FIFO, directory, link or device in a file's place is refused before anything opens it. */
export function checkKinds(layout: Layout): void {
  for (const path of [layout.marker, layout.database, layout.wal, layout.sharedMemory]) {
    const kind = fileKind(path);
    if (kind === "absent" || kind === "file") continue;
    throw new HoldfastError({
      code: "STORE_CORRUPT",
      message: `${path} is not a regular file`,
      hint: "Something else was put in its place. Move it away and restore the store's directory from a backup.",
      data: { path, kind },
    });
  }
}

export function mayWrite(layout: Layout): boolean {
  try {
    accessSync(layout.directory, constants.W_OK);
    accessSync(layout.database, constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

/** Creates the database file for its owner alone; SQLite gives its other files the same mode. */
export function createDatabaseFile(layout: Layout): void {
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK;
  closeSync(openSync(layout.database, flags, 0o600));
}

export function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

/** store.json. Without it a deleted database would look as if there had never been one. */
export interface Marker {
  readonly format: number;
  readonly id: string;
}

const MARKER_FORMAT = 1;

export function readMarker(path: string): Marker | null {
  const file = readRegularFile({ path, maxBytes: 64 * 1024 });
  if (file.kind === "absent") return null;
  if (file.kind === "refused") throw damagedMarker(path, file.why);
  const marker = parseMarker(file.bytes.toString("utf8"));
  if (marker === null) throw damagedMarker(path, "its content is not what was written");
  if (marker.format > MARKER_FORMAT) {
    throw new HoldfastError({
      code: "STORE_TOO_NEW",
      message: `${path} has format ${marker.format}; this Holdfast supports up to ${MARKER_FORMAT}`,
      hint: "Use the Holdfast version that wrote it, or a newer one.",
      data: { path, format: marker.format },
    });
  }
  return marker;
}

/** Two processes that make one store at once write the same marker: the id comes from the database. */
export function writeMarker(path: string, id: string): void {
  const marker: Marker = { format: MARKER_FORMAT, id };
  try {
    writeDurable({ path, data: Buffer.from(`${JSON.stringify(marker)}\n`), mode: "create" });
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "EEXIST")) throw error;
  }
}

function parseMarker(json: string): Marker | null {
  try {
    const value: unknown = JSON.parse(json);
    if (typeof value !== "object" || value === null || !("format" in value) || !("id" in value)) return null;
    const { format, id } = value;
    return typeof format === "number" && typeof id === "string" ? { format, id } : null;
  } catch {
    return null;
  }
}

function damagedMarker(path: string, why: string): HoldfastError {
  return new HoldfastError({
    code: "STORE_CORRUPT",
    message: `The store's marker ${path} cannot be used: ${why}`,
    hint: "The database next to it may be whole: move the marker away, open the store and verify it.",
    data: { path },
  });
}

export function missingDatabase(layout: Layout, how: "gone" | "empty"): HoldfastError {
  return new HoldfastError({
    code: "STORE_MISSING",
    message: `The database ${layout.database} is ${how}, although a store was made here`,
    hint: `Restore the directory ${layout.directory} from a backup. To start again without its content, move the directory away.`,
    data: { location: layout.directory },
  });
}

export function noStore(layout: Layout): HoldfastError {
  return new HoldfastError({
    code: "STORE_ABSENT",
    message: `There is no store in ${layout.directory}`,
    hint: "Check the path; the first command that saves something creates a store.",
    data: { location: layout.directory },
  });
}

export function mixedUp(layout: Layout): HoldfastError {
  return new HoldfastError({
    code: "STORE_CORRUPT",
    message: `The database and the marker in ${layout.directory} belong to different stores`,
    hint: "Restore the whole directory from one backup.",
    data: { location: layout.directory },
  });
}

const MOST_RESERVED = 1024 * 1024;
const LEAST_RESERVED = 64 * 1024;

/** On a disk that is nearly full the reserve is smaller, or there is none: it must not be what fills the disk. */
export function makeReserve(layout: Layout): void {
  try {
    if (statSync(layout.reserve, { throwIfNoEntry: false }) !== undefined) return;
    const { bavail, bsize } = statfsSync(layout.directory);
    const size = Math.min(MOST_RESERVED, Math.floor((bavail * bsize) / 16));
    if (size < LEAST_RESERVED) return;
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
    const fd = openSync(layout.reserve, flags, 0o600);
    try {
      // Bytes that do not compress, and synced: some file systems count zeros, or what was never written out, as free.
      writeFileSync(fd, randomBytes(size));
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
  } catch {
    // Without it a full disk is still refused cleanly; the run only cannot record that it waits.
  }
}

export function releaseReserve(layout: Layout): number {
  const size = sizeOf(layout.reserve);
  if (size > 0) unlinkSync(layout.reserve);
  return size;
}

/**
 * Copies the files of a damaged store to `quarantine/<time>-<number>/` before anything opens them for writing: SQLite discards a log that it
 * cannot use. Durable when it returns; returns the folder. Files that equal the newest copy are not copied again. Call it only while this
 * process has no connection to the database: closing a file drops the process's locks on it.
 */
export function keepDamaged(layout: Layout): string {
  makeDurableDirectory(layout.quarantine);
  const copies = readdirSync(layout.quarantine)
    .filter((name) => /^\d{8}T\d{6}Z-\d+$/.test(name))
    .toSorted((a, b) => numberOf(a) - numberOf(b));
  const last = copies.at(-1);
  const files = [layout.database, layout.wal, layout.highWater, layout.marker].filter(
    (path) => statSync(path, { throwIfNoEntry: false })?.isFile() === true,
  );
  const newest = last === undefined ? undefined : join(layout.quarantine, last);
  if (newest !== undefined && files.every((path) => isSameFile(path, join(newest, basename(path))))) return newest;
  const time = new Date().toISOString().replaceAll(/[-:]|\.\d+/g, "");
  const folder = join(layout.quarantine, `${time}-${numberOf(last ?? "-0") + 1}`);
  mkdirSync(folder, { mode: 0o700 });
  for (const path of files) copyDurably(path, join(folder, basename(path)));
  syncDirectory(folder);
  syncDirectory(layout.quarantine);
  return folder;
}

function copyDurably(from: string, to: string): void {
  copyFileSync(from, to, constants.COPYFILE_EXCL);
  chmodSync(to, 0o600);
  const { atime, mtime } = statSync(from);
  utimesSync(to, atime, mtime);
  const fd = openSync(to, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** The copy has the time of its original. */
function isSameFile(path: string, copy: string): boolean {
  const [a, b] = [statSync(path), statSync(copy, { throwIfNoEntry: false })];
  return b !== undefined && a.size === b.size && Math.abs(a.mtimeMs - b.mtimeMs) < 1;
}

function numberOf(name: string): number {
  return Number(name.slice(name.lastIndexOf("-") + 1));
}

/** Changes with every write to the database or its log. */
export function fileState(layout: Layout): string {
  return [layout.database, layout.wal]
    .map((path) => {
      const found = statSync(path, { throwIfNoEntry: false, bigint: true });
      // An empty log is as good as none.
      if (found === undefined || (found.size === 0n && path === layout.wal)) return "none";
      return `${found.ino}:${found.size}:${found.mtimeNs}:${found.ctimeNs}`;
    })
    .join();
}
