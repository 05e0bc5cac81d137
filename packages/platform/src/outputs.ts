// Small text files that a run writes and reads in its worktree, never through a symlink that leads out of it.

import { lstatSync, realpathSync, unlinkSync } from "node:fs";
import { isAbsolute, join, sep } from "node:path";
import { HoldfastError, errorCode, usageError } from "./error.ts";
import { makeDurableDirectory, readRegularFile, removeStaleTemporaryFiles, writeDurable } from "./files.ts";

/** Agents work in the same worktree, so any path may be a link, a directory or a pipe at any time. */
export function createOutputs(root: string): Outputs {
  return {
    async read(path) {
      const segments = splitPath(path);
      return wrapErrors(path, () => {
        const directory = existingDirectory(root, segments.slice(0, -1));
        if (directory.kind !== "inside") return null;
        const file = readRegularFile({ path: join(directory.path, segments.at(-1) ?? ""), maxBytes: MAX_BYTES });
        return file.kind === "read" ? decode(file.bytes) : null;
      });
    },
    async write(path, data, permissions) {
      const segments = splitPath(path);
      const directory = ensureDirectory(root, segments.slice(0, -1));
      // The new file is renamed into place: a link at the path is replaced, never followed.
      wrapErrors(path, () =>
        writeDurable({
          path: join(directory, segments.at(-1) ?? ""),
          data: Buffer.from(data),
          mode: "replace",
          ...(permissions === undefined ? {} : { permissions }),
        }),
      );
    },
    async remove(path) {
      const segments = splitPath(path);
      wrapErrors(path, () => {
        const directory = existingDirectory(root, segments.slice(0, -1));
        if (directory.kind === "inside") unlinkIfThere(join(directory.path, segments.at(-1) ?? ""));
      });
    },
    async refusal(path) {
      const segments = splitPath(path);
      return wrapErrors(path, () => {
        const directory = existingDirectory(root, segments.slice(0, -1));
        if (directory.kind !== "inside") return directory.kind === "outside" ? "it leads out of the worktree" : null;
        const file = readRegularFile({ path: join(directory.path, segments.at(-1) ?? ""), maxBytes: MAX_BYTES });
        if (file.kind === "refused") return file.why;
        return file.kind === "read" && decode(file.bytes) === null ? "it is not UTF-8" : null;
      });
    },
    async hide(directory) {
      const segments = splitPath(directory);
      wrapErrors(directory, () => clearPath(root, segments));
      const folder = ensureDirectory(root, segments);
      if ((await this.read(`${directory}/.gitignore`)) !== "*\n") await this.write(`${directory}/.gitignore`, "*\n");
      wrapErrors(directory, () => removeStaleTemporaryFiles(folder, { olderThanMs: 0 }));
    },
  };
}

const MAX_BYTES = 1024 * 1024;

function splitPath(path: string): readonly string[] {
  const segments = path.split("/");
  const isPlain = segments.every((name) => name !== "" && name !== "." && name !== ".." && !name.includes("\0"));
  if (isPlain && !isAbsolute(path) && segments[0]?.toLowerCase() !== ".git") return segments;
  throw usageError(
    `${JSON.stringify(path)} is not a valid path for an output file`,
    "Give a path below the worktree, without dots, and not in .git.",
  );
}

type Directory = { readonly kind: "absent" | "outside" } | { readonly kind: "inside"; readonly path: string };

/** Links are followed only if they lead to a directory inside the worktree. */
function existingDirectory(root: string, segments: readonly string[]): Directory {
  const home = realpathSync.native(root);
  try {
    const path = realpathSync.native(join(home, ...segments));
    if (path !== home && !path.startsWith(home + sep)) return { kind: "outside" };
    return lstatSync(path).isDirectory() ? { kind: "inside", path } : { kind: "absent" };
  } catch (error) {
    if (errorCode(error) === "ENOENT" || errorCode(error) === "ENOTDIR" || errorCode(error) === "ELOOP")
      return { kind: "absent" };
    throw error;
  }
}

/**
 * Removes a file or a link where our directory belongs. Through a link we would write to and hide another tool's files.
 */
function clearPath(root: string, segments: readonly string[]): void {
  const parent = existingDirectory(root, segments.slice(0, -1));
  if (parent.kind !== "inside") return;
  const path = join(parent.path, segments.at(-1) ?? "");
  const found = lstatSync(path, { throwIfNoEntry: false });
  if (found !== undefined && !found.isDirectory()) unlinkSync(path);
}

/** Creates one level at a time and checks each level before it creates the next one below it. */
function ensureDirectory(root: string, segments: readonly string[]): string {
  const name = segments.join("/");
  return wrapErrors(name, () => {
    let folder = existingDirectory(root, []);
    for (let depth = 1; depth <= segments.length && folder.kind === "inside"; depth += 1) {
      const next = existingDirectory(root, segments.slice(0, depth));
      const path = join(folder.path, segments[depth - 1] ?? "");
      const isFree = next.kind === "absent" && lstatSync(path, { throwIfNoEntry: false }) === undefined;
      if (isFree) makeDurableDirectory(path, 0o755);
      folder = isFree ? { kind: "inside", path } : next;
    }
    if (folder.kind === "inside") return folder.path;
    throw new HoldfastError({
      code: "IO_FAILED",
      message:
        folder.kind === "outside"
          ? `${name} is a link that leads out of the worktree ${root}; nothing was written there`
          : `${name} in ${root} is not a directory, so nothing can be written into it`,
      hint: `Remove ${name} or move it away.`,
      data: { root, path: name },
    });
  });
}

function decode(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

function unlinkIfThere(path: string): void {
  try {
    unlinkSync(path);
  } catch (error) {
    if (errorCode(error) !== "ENOENT") throw error;
  }
}

function wrapErrors<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (cause) {
    if (cause instanceof HoldfastError) throw cause;
    const isFull = errorCode(cause) === "ENOSPC" || errorCode(cause) === "EDQUOT";
    throw new HoldfastError({
      code: isFull ? "DISK_FULL" : "IO_FAILED",
      message: `The output file ${path} failed: ${cause instanceof Error ? cause.message : String(cause)}`,
      hint: isFull
        ? "Free some space and resume; nothing was lost."
        : "Check that the worktree is there and may be written.",
      retry: "later",
      data: { path },
      cause,
    });
  }
}

/**
 * Small text files in a run's worktree that users and tools expect (`.tmp/…`). Never through a symlink out of the
 * worktree.
 */
export interface Outputs {
  /** null if the file is absent, not a regular file, larger than a megabyte, or not UTF-8. */
  read(path: string): Promise<string | null>;
  /** Why `read` returns null although the path exists; null if it is absent or readable. */
  refusal(path: string): Promise<string | null>;
  /** Atomic, and durable when it returns: a reader sees the old text or the new one, never a part. */
  write(path: string, data: string | Uint8Array, permissions?: number): Promise<void>;
  remove(path: string): Promise<void>;
  /**
   * Excludes this directory from commits with its own .gitignore; the user's ignore files are not changed. A file or a
   * link at its path is removed; the target of a link is not touched.
   */
  hide(directory: string): Promise<void>;
}
