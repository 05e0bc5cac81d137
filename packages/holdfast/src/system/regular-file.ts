import { closeSync, constants, fstatSync, lstatSync, openSync, readSync } from "node:fs";
import type { Stats } from "node:fs";

export type FileKind = "absent" | "file" | "directory" | "other";

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

export type RegularFile =
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
