import { lstatSync, readdirSync, realpathSync, rmdirSync, unlinkSync } from "node:fs";
import { join, sep } from "node:path";
import { HoldfastError } from "../../core/error.ts";
import { isJsonObject } from "../../core/json.ts";
import type { Json, JsonObject } from "../../core/json.ts";
import {
  makeDurableDirectory,
  sweepTemporary,
  syncDirectory,
  TEMPORARY_PREFIX,
  writeDurable,
} from "../../system/durable-file.ts";
import { readRegularFile } from "../../system/regular-file.ts";

/** Longer than anybody takes from writing a file to giving it its name. */
const LEFT_BEHIND = { olderThanMs: 5000 };
const MAX_BYTES = 64 * 1024 * 1024;

/**
 * The files of a layout that other tools share with us, below its root. They are output: a file, a link or a pipe in place of one of ours is
 * replaced and never followed; through a link in place of a directory that others own nothing is written out of the root.
 */
export class LayoutFiles {
  readonly root: string;

  constructor(root: string) {
    this.root = root;
  }

  /**
   * Makes the directory, one level after the other, and clears what killed writers left in it. `own`: how many of its last parts are ours
   * alone, so that whatever is there instead of a directory is cleared away.
   */
  open(path: string, { own }: { readonly own: number }): void {
    const parts = path.split("/");
    makeDurableDirectory(this.root, 0o755);
    let place = realpathSync(this.root);
    for (const [depth, part] of parts.entries()) {
      const next = join(place, part);
      const found = lstatSync(next, { throwIfNoEntry: false });
      if (found !== undefined && !found.isDirectory() && depth >= parts.length - own) unlinkSync(next);
      place = found?.isSymbolicLink() === true && depth < parts.length - own ? this.#inside(next) : next;
      if (found?.isFile() === true && depth < parts.length - own) throw inTheWay(next, "is a file and no directory");
      makeDurableDirectory(place, 0o755);
    }
    sweepTemporary(place, LEFT_BEHIND);
  }

  /** One that is begun now is in nobody's commits, with all that it will hold. */
  hideNew(directory: string): void {
    if (this.list(directory).length === 0) this.write(`${directory}/.gitignore`, HIDE_ALL);
  }

  /** Names, without those of files that are being written; empty where there is no such directory. */
  list(directory: string): readonly string[] {
    try {
      return readdirSync(join(this.root, directory)).filter((name) => !name.startsWith(TEMPORARY_PREFIX));
    } catch (error) {
      if (isCode(error, "ENOENT") || isCode(error, "ENOTDIR")) return [];
      throw error;
    }
  }

  /** null: no regular file that could be read. */
  read(path: string): Uint8Array | null {
    const read = readRegularFile({ path: join(this.root, path), maxBytes: MAX_BYTES });
    return read.kind === "read" ? read.bytes : null;
  }

  /** null: no object of JSON. Damaged is as good as absent: it is made anew. */
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

  /** Tells a file from one that was put in its place or changed since; null: no regular file. */
  identity(path: string): string | null {
    const found = lstatSync(join(this.root, path), { throwIfNoEntry: false });
    return found?.isFile() === true ? `${found.ino}:${found.size}:${found.mtimeMs}` : null;
  }

  size(path: string): number {
    return lstatSync(join(this.root, path), { throwIfNoEntry: false })?.size ?? 0;
  }

  /** Whole or not at all; false: the same was there already. */
  write(path: string, data: Uint8Array): boolean {
    const there = this.read(path);
    if (there !== null && Buffer.compare(there, data) === 0) return false;
    const place = join(this.root, path);
    if (lstatSync(place, { throwIfNoEntry: false })?.isDirectory() === true) removeEmpty(place);
    writeDurable({ path: place, data, mode: "replace" });
    return true;
  }

  /** Gone already is no error. */
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

  #inside(link: string): string {
    const home = realpathSync(this.root);
    let place: string;
    try {
      place = realpathSync(link);
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
