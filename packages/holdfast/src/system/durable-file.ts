import {
  closeSync,
  constants,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  renameSync,
  statSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { randomId } from "./ids.ts";

export interface DurableFile {
  readonly path: string;
  readonly data: Uint8Array;
  /** "replace" whatever is there, or "create" only where nothing is: then EEXIST. */
  readonly mode: "replace" | "create";
}

/**
 * When it returns, the file is there whole after kill -9 and power loss; when it throws, the old one is.
 * A failed fsync is never tried again: the kernel may have dropped the pages and would report success.
 */
export function writeDurable(file: DurableFile): void {
  const directory = dirname(file.path);
  const temporary = join(directory, `${TEMPORARY_PREFIX}${randomId()}-${basename(file.path)}`);
  const fd = openSync(
    temporary,
    constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW,
    0o600,
  );
  try {
    try {
      writeAll(fd, file.data);
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    if (file.mode === "replace") {
      renameSync(temporary, file.path);
    } else {
      linkSync(temporary, file.path);
      unlinkSync(temporary);
    }
  } catch (error) {
    removeQuietly(temporary);
    throw error;
  }
  syncDirectory(directory);
}

/** Left behind only by a crash between open and rename. */
export const TEMPORARY_PREFIX = ".tmp-";

/** Makes the directory and its missing parents, each synced into its own parent. */
export function makeDurableDirectory(path: string, mode = 0o700): void {
  if (isDirectory(path)) return;
  const parent = dirname(path);
  if (parent !== path) makeDurableDirectory(parent, mode);
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    if (!isDirectory(path)) throw error;
  }
  syncDirectory(parent);
}

export function syncDirectory(path: string): void {
  const fd = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** A short count is not an error to write(2), and on a full disk it is all one gets before ENOSPC. */
function writeAll(fd: number, data: Uint8Array): void {
  let written = 0;
  while (written < data.length) written += writeSync(fd, data, written, data.length - written);
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

function removeQuietly(path: string): void {
  try {
    unlinkSync(path);
  } catch {
    // The first error is the one to tell; a left-over is swept later.
  }
}
