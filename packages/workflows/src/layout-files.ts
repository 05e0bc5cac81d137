// Durable files in layouts that other tools read: safe writing below a root, and mirroring of a run's checkpoints.

import {
  existsSync,
  lstatSync,
  readFileSync,
  readdirSync,
  realpathSync,
  rmdirSync,
  statSync,
  unlinkSync,
} from "node:fs";
import { dirname, join, resolve, sep } from "node:path";
import { type Json, type JsonObject, isJsonObject } from "@holdfast/core/json";
import type { ProgressEvent, ProgressListener } from "@holdfast/core/progress";
import { compressFor } from "@holdfast/formats/compression";
import type { Encoded, ExternalCheckpoint, FormatName } from "@holdfast/formats/format";
import { findFormat } from "@holdfast/formats/registry";
import { readSourceFiles } from "@holdfast/formats/source-files";
import { HoldfastError } from "@holdfast/platform/error";
import {
  TEMPORARY_PREFIX,
  makeDurableDirectory,
  readRegularFile,
  removeStaleTemporaryFiles,
  syncDirectory,
  writeDurable,
} from "@holdfast/platform/files";
import type { CheckpointMirror, WriteResult } from "./plugin.ts";

/** Longer than any writer needs between creating a temporary file and renaming it. */
export const LEFT_BEHIND = { olderThanMs: 5000 };
const MAX_BYTES = 64 * 1024 * 1024;

/**
 * The files of a layout that Holdfast shares with other tools, below its root. They are output only. A file, link or
 * pipe in place of one of Holdfast's files is replaced and never followed. A link in place of a shared directory never
 * leads a write out of the root.
 */
export class LayoutFiles {
  readonly root: string;

  constructor(root: string) {
    this.root = root;
  }

  /**
   * Creates the directory level by level and removes stale temporary files of killed writers. The last `own` path
   * segments belong to Holdfast alone: anything there that is not a directory is removed.
   */
  open(path: string, { own }: { readonly own: number }): void {
    const parts = path.split("/");
    makeDurableDirectory(this.root, 0o755);
    let place = realpathSync.native(this.root);
    for (const [depth, part] of parts.entries()) {
      const next = join(place, part);
      const found = lstatSync(next, { throwIfNoEntry: false });
      if (found !== undefined && !found.isDirectory() && depth >= parts.length - own) unlinkSync(next);
      place = found?.isSymbolicLink() === true && depth < parts.length - own ? this.#inside(next) : next;
      if (found?.isFile() === true && depth < parts.length - own) throw inTheWay(next, "is a file and no directory");
      makeDurableDirectory(place, 0o755);
    }
    removeStaleTemporaryFiles(place, LEFT_BEHIND);
  }

  /** Adds a `.gitignore` that hides all content to a directory that is still empty, so that no commit includes it. */
  hideNew(directory: string): void {
    if (this.list(directory).length === 0) this.write(`${directory}/.gitignore`, HIDE_ALL);
  }

  /** File names without temporary files; empty if the directory does not exist. */
  list(directory: string): readonly string[] {
    try {
      return readdirSync(join(this.root, directory)).filter((name) => !name.startsWith(TEMPORARY_PREFIX));
    } catch (error) {
      if (isCode(error, "ENOENT") || isCode(error, "ENOTDIR")) return [];
      throw error;
    }
  }

  /** Returns null unless the path is a readable regular file. */
  read(path: string): Uint8Array | null {
    const read = readRegularFile({ path: join(this.root, path), maxBytes: MAX_BYTES });
    return read.kind === "read" ? read.bytes : null;
  }

  /** Returns null unless the file holds a JSON object. A damaged file counts as absent, because it is written again. */
  readJson(path: string): JsonObject | null {
    const bytes = this.read(path);
    if (bytes === null) return null;
    try {
      const value: Json = JSON.parse(new TextDecoder().decode(bytes));
      return isJsonObject(value) ? value : null;
    } catch {
      return null;
    }
  }

  /** Identifies this version of a file, to detect replacement or change; null if it is not a regular file. */
  identity(path: string): string | null {
    const found = lstatSync(join(this.root, path), { throwIfNoEntry: false });
    return found?.isFile() === true ? `${found.ino}:${found.size}:${found.mtimeMs}` : null;
  }

  size(path: string): number {
    return lstatSync(join(this.root, path), { throwIfNoEntry: false })?.size ?? 0;
  }

  /** Writes atomically. Returns false if the file already had these bytes. */
  write(path: string, data: Uint8Array): boolean {
    const there = this.read(path);
    if (there !== null && Buffer.compare(there, data) === 0) return false;
    const place = join(this.root, path);
    if (lstatSync(place, { throwIfNoEntry: false })?.isDirectory() === true) removeEmpty(place);
    writeDurable({ path: place, data, mode: "replace" });
    return true;
  }

  /** A missing file is not an error. */
  remove(directory: string, names: readonly string[]): void {
    if (names.length === 0) return;
    for (const name of names) {
      try {
        unlinkSync(join(this.root, directory, name));
      } catch (error) {
        if (!isCode(error, "ENOENT")) throw error;
      }
    }
    syncDirectory(join(this.root, directory));
  }

  /** Whether no part of the path is a link, so that a removal there cannot reach files elsewhere. */
  isOwn(directory: string): boolean {
    const parts = directory.split("/");
    return parts.every((_part, at) => {
      const found = lstatSync(join(this.root, ...parts.slice(0, at + 1)), { throwIfNoEntry: false });
      return found?.isDirectory() === true;
    });
  }

  /** Removes these directories, in this order, as far as they are empty. */
  removeEmpty(directories: readonly string[]): void {
    for (const directory of directories) {
      const place = join(this.root, directory);
      try {
        removeStaleTemporaryFiles(place, LEFT_BEHIND);
        rmdirSync(place);
      } catch (error) {
        if (!isCode(error, "ENOENT")) return;
      }
    }
  }

  #inside(link: string): string {
    const home = realpathSync.native(this.root);
    let place: string;
    try {
      place = realpathSync.native(link);
    } catch {
      throw inTheWay(link, "is a link that leads nowhere");
    }
    const below = place.startsWith(home + sep) ? place.slice(home.length + 1) : null;
    if (below === null) throw inTheWay(link, `is a link that leads out of ${this.root}`);
    if (below.split(sep).some((part) => part.toLowerCase() === ".git")) throw inTheWay(link, "is a link into .git");
    return place;
  }
}

const HIDE_ALL = new TextEncoder().encode("*\n");

function removeEmpty(place: string): void {
  try {
    rmdirSync(place);
  } catch {
    throw inTheWay(place, "is a directory that is not empty");
  }
}

function inTheWay(place: string, why: string): HoldfastError {
  return new HoldfastError({
    code: "IO_FAILED",
    message: `${place} ${why}; nothing was written there`,
    hint: "Remove it or move it away, or name another place as `aiwg.directory` in holdfast.config.yaml.",
    data: { path: place },
  });
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}

/** Writes one document atomically, compressed if its file name says so. Skips the write if the bytes are unchanged. */
export function writeDocument(encoded: Pick<Encoded, "bytes" | "losses">, path: string): WriteResult {
  const { losses } = encoded;
  const data = compressFor(path, encoded.bytes);
  if (sameBytes(path, data)) return { paths: [], removed: [], losses };
  makeDurableDirectory(dirname(path), 0o755);
  removeStaleTemporaryFiles(dirname(path), LEFT_BEHIND);
  writeDurable({ path, data, mode: "replace" });
  return { paths: [path], removed: [], losses };
}

/** Resolves a path below `root`, where the reading tool expects it. Throws INTERNAL if the path leaves `root`. */
export function resolveInside(root: string, relative: string): string {
  const place = resolve(root, relative);
  if (place.startsWith(root.endsWith(sep) ? root : root + sep)) return place;
  throw new HoldfastError({ code: "INTERNAL", message: `${relative} leads out of ${root}` });
}

/**
 * A clone may contain links. Holdfast never follows one out of the repository for a write that the user did not
 * request.
 */
export function assertInside(root: string, place: string): void {
  // A root that does not exist yet contains no links.
  if (statSync(root, { throwIfNoEntry: false }) === undefined) return;
  const home = realpathSync.native(root);
  let there = place;
  while (statSync(there, { throwIfNoEntry: false }) === undefined && dirname(there) !== there) there = dirname(there);
  const real = realpathSync.native(there);
  if (real === home || real.startsWith(home + sep)) return;
  throw new HoldfastError({
    code: "IO_FAILED",
    message: `${place} is reached through a link that leads out of ${root}; nothing was written there`,
    hint: "Remove the link, or name another place: `mirror.directory` in holdfast.config.yaml, for crunch `location` in .claude/checkpoint-config.yaml.",
    data: { root, path: place },
  });
}

function sameBytes(path: string, bytes: Uint8Array): boolean {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat?.isFile() === true && stat.size === bytes.length && readFileSync(path).equals(bytes);
}

/**
 * If a layout gives two checkpoints the same file name, the existing file is copied to its alternative path before it
 * is overwritten. An existing file that cannot be read may be the only copy, so this throws USAGE.
 */
export function preserveExisting(params: {
  readonly to: FormatName;
  readonly root: string;
  readonly path: string;
  readonly encoded: Encoded;
}): readonly WriteResult[] {
  const { path, encoded } = params;
  if (encoded.elsewhere === undefined || !existsSync(path)) return [];
  const codec = findFormat(params.to);
  const source = readSourceFiles(path, params.root);
  if (source.kind !== "file") throw taken(path, undefined);
  let there: ExternalCheckpoint | undefined;
  try {
    [there] = codec.decode(source.file).checkpoints;
  } catch (error) {
    throw taken(path, error);
  }
  const [next] = codec.decode({ path, bytes: encoded.bytes, compression: "none" }).checkpoints;
  if (there === undefined || (there.id === next?.id && there.createdAt === next.createdAt)) return [];
  const { elsewhere } = codec.encode(there);
  if (elsewhere === undefined) return [];
  const place = resolveInside(params.root, elsewhere);
  assertInside(params.root, dirname(place));
  return [writeDocument({ bytes: source.file.bytes, losses: [] }, place)];
}

function taken(path: string, cause: unknown): HoldfastError {
  return new HoldfastError({
    code: "USAGE",
    message: `${path} cannot be written: something of that name is there and cannot be read`,
    hint: "Move it away first; it was not changed.",
    cause,
  });
}

/**
 * Writes each checkpoint of a run to an external layout when it is saved; writes never overlap. A failure does not stop
 * the run: it is reported once, and the next checkpoint tries again. Disposal waits until all saved checkpoints are
 * written.
 */
export function mirrorCheckpoints(params: {
  readonly run: string;
  readonly listen: ProgressListener | undefined;
  /** What the failure note calls the target, such as "Crunch's directory". */
  readonly what: string;
  /** Also called immediately, because a killed process may have left the target behind. */
  readonly catchUp: () => Promise<void>;
  /** Called periodically, independent of saves. */
  readonly pulse?: { readonly everyMs: number; readonly beat: () => Promise<void> };
  /** Catch up once more on disposal, because the run's own status has changed by then. */
  readonly last?: boolean;
}): CheckpointMirror {
  const { run, listen, pulse } = params;
  let reported: string | null = null;
  let waiting = false;
  const attempt = async (act: () => Promise<void>): Promise<void> => {
    try {
      await act();
      reported = null;
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      if (why !== reported) notify(listen, run, `${params.what} is behind: ${why}`);
      reported = why;
    }
  };
  const catchUp = async (): Promise<void> => {
    waiting = false;
    await attempt(params.catchUp);
  };
  let work = catchUp();
  const timer =
    pulse === undefined
      ? undefined
      : setInterval(() => {
          work = work.then(() => attempt(pulse.beat));
        }, pulse.everyMs);
  timer?.unref();
  return {
    listen(event) {
      listen?.(event);
      if (event.kind !== "checkpoint" || waiting) return;
      waiting = true;
      work = work.then(catchUp);
    },
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      await work;
      if (params.last === true) await catchUp();
    },
  };
}

function notify(listen: ProgressListener | undefined, run: string, text: string): void {
  const event: ProgressEvent = { kind: "note", text, run, at: new Date().toISOString() };
  listen?.(event);
}
