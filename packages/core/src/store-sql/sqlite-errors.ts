// Errors of SQLite and of its files, as HoldfastError: which are temporary, and which end the trust in a connection.

import { statfsSync } from "node:fs";
import { type ErrorCode, type ErrorParams, HoldfastError } from "@holdfast/platform/error";

/** Turns what SQLite and the file system throw into our one kind of error; leaves ours alone. */
export function sqliteError(error: unknown, location: string): HoldfastError {
  if (error instanceof HoldfastError) return error;
  const advice = sqliteAdvice(error, location) ?? systemAdvice(error);
  const why = error instanceof Error ? error.message : String(error);
  return new HoldfastError({
    code: advice?.code ?? "INTERNAL",
    message: `${advice?.what ?? "Unexpected failure"} in the store ${location}: ${why}`,
    hint: advice?.hint ?? "This is a defect; please report it with the message above.",
    retry: advice?.retry ?? "never",
    data: { location, ...advice?.data },
    cause: error,
  });
}

export function isBusy(error: unknown): boolean {
  const code = resultCode(error);
  return code !== undefined && ((code & 0xff) === BUSY || (code & 0xff) === LOCKED);
}

/**
 * After a failed write or sync it is unknown which pages the kernel still holds, and the next sync may report success for pages that are gone.
 * So the handle must not be written through again. Shared memory holds nothing that must last.
 */
export function losesTrust(error: unknown): boolean {
  const code = resultCode(error);
  if (code === IOERR_SHMSIZE) return false;
  if (code !== undefined) return (code & 0xff) === IOERR || (code & 0xff) === CORRUPT || (code & 0xff) === NOTADB;
  return systemCode(error) === "EIO";
}

interface Advice extends Pick<ErrorParams, "hint" | "retry" | "data"> {
  readonly code: ErrorCode;
  readonly what: string;
}

const BUSY = 5;
const LOCKED = 6;
const READONLY = 8;
const IOERR = 10;
const IOERR_SHMSIZE = IOERR | (19 << 8);
const CORRUPT = 11;
const FULL = 13;
const CANTOPEN = 14;
const NOTADB = 26;

function sqliteAdvice(error: unknown, location: string): Advice | undefined {
  const code = resultCode(error);
  if (code === undefined) return undefined;
  const data = { sqlite: code };
  switch (code & 0xff) {
    case BUSY:
    case LOCKED:
      return { ...ADVICE.busy, data };
    case READONLY:
      return { ...ADVICE.readOnly, data };
    case IOERR:
      // SQLite reports "full" for its data files alone, not for its shared memory and not for a sync.
      return { ...(isFull(location) ? (losesTrust(error) ? ADVICE.fullInSync : ADVICE.full) : ADVICE.io), data };
    case CORRUPT:
    case NOTADB:
      return { ...ADVICE.corrupt, data };
    case FULL:
      return { ...ADVICE.full, data };
    case CANTOPEN:
      return { ...ADVICE.cannotOpen, data };
    default:
      return undefined;
  }
}

function systemAdvice(error: unknown): Advice | undefined {
  const code = systemCode(error);
  switch (code) {
    case "ENOSPC":
    case "EDQUOT":
      return ADVICE.full;
    case "EROFS":
    case "EACCES":
    case "EPERM":
      return ADVICE.readOnly;
    case "EEXIST":
    case "ENOTDIR":
    case "ENAMETOOLONG":
    case "ELOOP":
      return { ...ADVICE.noDirectory, data: { system: code } };
    case undefined:
      return undefined;
    default:
      return { ...ADVICE.io, data: { system: code } };
  }
}

/** So little space that SQLite could not even grow its shared memory. */
const LITTLE = 64 << 10;

function isFull(location: string): boolean {
  try {
    const { bavail, bsize } = statfsSync(location);
    return bavail * bsize < LITTLE;
  } catch {
    return false;
  }
}

const ADVICE = {
  busy: {
    code: "STORE_BUSY",
    what: "Another process kept the database locked",
    hint: "Nothing was written. Try again; if it stays locked, look for a stuck process that has the store open.",
    retry: "later",
  },
  readOnly: {
    code: "STORE_READ_ONLY",
    what: "Writing is not permitted",
    hint: "Nothing was written. Check the permissions of the store's directory and whether its file system is mounted read-only.",
    retry: "ask",
  },
  full: {
    code: "DISK_FULL",
    what: "No space is left",
    hint: "Nothing was written and everything saved before is safe. Free some space (`holdfast gc` may help) and try again.",
    retry: "ask",
  },
  fullInSync: {
    code: "DISK_FULL",
    what: "No space is left",
    hint: "Everything saved before is safe, but this handle writes no more. Free some space (`holdfast gc` may help), then open the store again.",
    retry: "ask",
  },
  io: {
    code: "IO_FAILED",
    what: "The disk reported an error",
    hint: "This handle writes no more, because the state on disk is uncertain. Check the disk, then open the store again and verify it.",
    retry: "ask",
  },
  noDirectory: {
    code: "IO_FAILED",
    what: "This path cannot be a directory",
    hint: "Nothing was written. Name another directory for the store: this one is a file or a broken link, or its name is too long.",
    retry: "ask",
  },
  corrupt: {
    code: "STORE_CORRUPT",
    what: "The database is damaged",
    hint: "Run `holdfast verify` to see what is still whole, or restore the store's directory from a backup.",
    retry: "never",
  },
  cannotOpen: {
    code: "IO_FAILED",
    what: "The database cannot be opened",
    hint: "Check that the store's directory exists and that you may read and write it.",
    retry: "ask",
  },
} as const satisfies Record<string, Advice>;

/** Extended result code of SQLite, whose low byte is the primary one. */
function resultCode(error: unknown): number | undefined {
  return error instanceof Error && "errcode" in error && typeof error.errcode === "number" ? error.errcode : undefined;
}

function systemCode(error: unknown): string | undefined {
  return error instanceof Error && "syscall" in error && "code" in error && typeof error.code === "string"
    ? error.code
    : undefined;
}
