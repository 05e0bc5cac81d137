import {
  type Stats,
  closeSync,
  constants,
  fstatSync,
  fsyncSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readSync,
  readdirSync,
  renameSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { basename, dirname, join } from "node:path";
import { randomId } from "./identity.ts";

interface DurableFile {
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

/** Removes what crashes left; what is younger may be somebody's who is writing at this moment. Returns the names. */
export function removeStaleTemporaryFiles(
  directory: string,
  params: { readonly olderThanMs: number },
): readonly string[] {
  const until = Date.now() - params.olderThanMs;
  const left = readdirSync(directory).filter((name) => {
    if (!name.startsWith(TEMPORARY_PREFIX)) return false;
    if (!/^[0-9a-f]{32}-/.test(name.slice(TEMPORARY_PREFIX.length))) return false;
    const found = lstatSync(join(directory, name), { throwIfNoEntry: false });
    return found !== undefined && found.mtimeMs <= until;
  });
  for (const name of left) removeQuietly(join(directory, name));
  return left;
}

/**
 * Makes the directory and its missing parents, each synced into its own parent. One that is there may be the work of
 * somebody who was killed before the sync, or has yet to come to it, so its name is synced too, once a process.
 */
export function makeDurableDirectory(path: string, mode = 0o700): void {
  const found = identityOf(path);
  if (found !== undefined && synced.has(found)) return;
  const parent = dirname(path);
  if (found === undefined) {
    if (parent !== path) makeDurableDirectory(parent, mode);
    try {
      mkdirSync(path, { mode });
    } catch (error) {
      if (identityOf(path) === undefined) throw error;
    }
  }
  try {
    syncDirectory(parent);
  } catch (error) {
    // A parent that we may not read is not one in which anybody like us made it.
    if (found === undefined || !(error instanceof Error && "code" in error && error.code === "EACCES")) throw error;
  }
  const made = identityOf(path);
  if (made !== undefined) synced.add(made);
}

/** Directories whose names are durable: told by inode, for one can be removed and made again. */
const synced = new Set<string>();

function identityOf(path: string): string | undefined {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat?.isDirectory() === true ? `${path}\0${stat.dev}:${stat.ino}` : undefined;
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

function removeQuietly(path: string): void {
  try {
    unlinkSync(path);
  } catch {
    // The first error is the one to tell; a left-over is swept later.
  }
}

/**
 * A symbolic link in place of whatever is there, whole at every moment; "unsupported" where this system or file system has none (or lets
 * only administrators make them), and then nothing was changed.
 */
export function writeDurableSymlink(params: {
  readonly path: string;
  readonly target: string;
}): "made" | "unsupported" {
  const directory = dirname(params.path);
  const temporary = join(directory, `${TEMPORARY_PREFIX}${randomId()}-link`);
  try {
    symlinkSync(params.target, temporary);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : "";
    if (NO_LINKS.some((known) => known === code)) return "unsupported";
    throw error;
  }
  try {
    renameSync(temporary, params.path);
  } catch (error) {
    unlinkSync(temporary);
    throw error;
  }
  syncDirectory(directory);
  return "made";
}

/** Gone already is no error. */
export function removeDurable(path: string): void {
  try {
    unlinkSync(path);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ENOENT")) throw error;
  }
  syncDirectory(dirname(path));
}

const NO_LINKS = ["EPERM", "ENOSYS", "ENOTSUP", "EOPNOTSUPP", "EINVAL"] as const;

type FileKind = "absent" | "file" | "directory" | "other";

/** Never follows a link and never opens anything, so a FIFO or device in a file's place cannot hang us. */
export function fileKind(path: string): FileKind {
  const stat = statusOf(path);
  if (stat === undefined) return "absent";
  if (stat.isFile()) return "file";
  return stat.isDirectory() ? "directory" : "other";
}

function statusOf(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch (error) {
    // Nothing is below a file.
    if (error instanceof Error && "code" in error && error.code === "ENOTDIR") return undefined;
    throw error;
  }
}

type RegularFile =
  | { readonly kind: "absent" }
  | { readonly kind: "refused"; readonly why: string }
  | { readonly kind: "read"; readonly bytes: Buffer };

/** Reads a file that must be a regular one of at most `maxBytes`. */
export function readRegularFile(params: { readonly path: string; readonly maxBytes: number }): RegularFile {
  const kind = fileKind(params.path);
  if (kind === "absent") return { kind: "absent" };
  if (kind !== "file") return { kind: "refused", why: `${params.path} is not a regular file` };
  // Between lstat and open it may have been replaced: O_NOFOLLOW and O_NONBLOCK keep that harmless.
  const fd = openSync(params.path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const stat = fstatSync(fd);
    if (!stat.isFile()) return { kind: "refused", why: `${params.path} is not a regular file` };
    if (stat.size > params.maxBytes)
      return { kind: "refused", why: `${params.path} has ${stat.size} bytes, more than ${params.maxBytes}` };
    const bytes = Buffer.alloc(stat.size);
    let read = 0;
    while (read < bytes.length) {
      const count = readSync(fd, bytes, read, bytes.length - read, read);
      if (count === 0) break;
      read += count;
    }
    return { kind: "read", bytes: bytes.subarray(0, read) };
  } finally {
    closeSync(fd);
  }
}
