// Durable writes, links, directories and removals that survive power loss, and safe reads of regular files.

import {
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  fsyncSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmdirSync,
  statSync,
  symlinkSync,
  type Stats,
  unlinkSync,
  writeSync,
} from "node:fs";
import { homedir } from "node:os";
import { basename, dirname, isAbsolute, join } from "node:path";
import { errorCode } from "./error.ts";
import { randomId } from "./identity.ts";

interface DurableFile {
  readonly path: string;
  readonly data: Uint8Array;
  /** "replace" overwrites an existing file. "create" fails with EEXIST if anything exists at the path. */
  readonly mode: "replace" | "create";
  /** Default: only the user may read and write it (0600). */
  readonly permissions?: number;
}

/**
 * After it returns, the complete file survives kill -9 and power loss. If it throws, the old file is unchanged. A
 * failed fsync is never retried: the kernel may have dropped the pages and would report success.
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
      if (file.permissions !== undefined) fchmodSync(fd, file.permissions);
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

/** A file with this prefix remains only after a crash between open and rename. */
export const TEMPORARY_PREFIX = ".tmp-";

/**
 * Removes temporary files that crashes left, and returns their names. Another process may still be writing a younger
 * one.
 */
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
 * Creates the directory and its missing parents, and syncs each into its own parent. An existing directory may come
 * from a process that was killed before its sync. Its name is therefore synced too, once per process.
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
    // We could not have created the directory in a parent that we may not read, so its name needs no sync by us.
    if (found === undefined || errorCode(error) !== "EACCES") throw error;
  }
  const made = identityOf(path);
  if (made !== undefined) synced.add(made);
}

/**
 * Directories whose names are durable. The key contains the inode, because a directory can be removed and created
 * again.
 */
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

/** write(2) may write fewer bytes than asked without an error, and on a full disk does so before it reports ENOSPC. */
function writeAll(fd: number, data: Uint8Array): void {
  let written = 0;
  while (written < data.length) written += writeSync(fd, data, written, data.length - written);
}

function removeQuietly(path: string): void {
  try {
    unlinkSync(path);
  } catch {
    // The caller throws the first error. removeStaleTemporaryFiles removes the file later.
  }
}

/**
 * Atomically replaces whatever is at the path with a symbolic link. Returns "unsupported", with nothing changed, if the
 * system or file system has no links or reserves them to administrators.
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
    const code = errorCode(error);
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

/** A file that is already gone is not an error. */
export function removeDurable(path: string): void {
  try {
    unlinkSync(path);
  } catch (error) {
    if (errorCode(error) !== "ENOENT") throw error;
  }
  syncDirectory(dirname(path));
}

/** Without symbolic links, and as the file system spells it. null: there is nothing at this path, or it cannot be looked up. */
export function realPath(path: string): string | null {
  try {
    return realpathSync.native(path);
  } catch {
    return null;
  }
}

/** Whether the path is the folder or below it. Both are absolute, without `..` and symbolic links. */
export function isInside(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith("/") ? folder : `${folder}/`);
}

/** Removes a directory that nothing uses any more. One with content, or that cannot be removed, stays: it does no harm. */
export function removeIfEmpty(directory: string): void {
  try {
    rmdirSync(directory);
  } catch {
    // Another process may use it, or has removed it.
  }
}

type Env = Readonly<Record<string, string | undefined>>;

export function homeOf(env: Env): string {
  const home = env["HOME"] ?? "";
  return isAbsolute(home) ? home : homedir();
}

/** A base directory of the XDG standard, or its default below the home directory. A relative path is ignored, as the standard requires. */
export function xdgHome(env: Env, variable: "XDG_STATE_HOME" | "XDG_CONFIG_HOME"): string {
  const named = env[variable] ?? "";
  return isAbsolute(named) ? named : join(homeOf(env), XDG_DEFAULTS[variable]);
}

const XDG_DEFAULTS = { XDG_STATE_HOME: ".local/state", XDG_CONFIG_HOME: ".config" } as const;

const NO_LINKS = ["EPERM", "ENOSYS", "ENOTSUP", "EOPNOTSUPP", "EINVAL"] as const;

type FileKind = "absent" | "file" | "directory" | "other";

/** Never follows a link and never opens anything, so a FIFO or device at the path cannot block us. */
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
    // The path runs through a file, so nothing exists there.
    if (errorCode(error) === "ENOTDIR") return undefined;
    throw error;
  }
}

export type RegularFile =
  | { readonly kind: "absent" }
  | { readonly kind: "refused"; readonly why: string }
  | { readonly kind: "read"; readonly bytes: Buffer };

/** Reads a file of at most `maxBytes`; refuses anything that is not a regular file. */
export function readRegularFile(params: { readonly path: string; readonly maxBytes: number }): RegularFile {
  const kind = fileKind(params.path);
  if (kind === "absent") return { kind: "absent" };
  if (kind !== "file") return { kind: "refused", why: `${params.path} is not a regular file` };
  // The file may be replaced between lstat and open. O_NOFOLLOW and O_NONBLOCK make that harmless.
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
