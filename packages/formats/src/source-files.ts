// Reads the file or directory that a user names for an import, with limits on size and count.

import { lstatSync, readdirSync, readlinkSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { readRegularFile } from "@holdfast/platform/files";
import { decompress } from "./compression.ts";
import type { ExternalFile } from "./format.ts";
import { LOOP_FILES, loopNamedBy } from "./loop-document.ts";

/** The file or directory that the user named. */
export type SourceFiles =
  | {
      readonly kind: "file";
      readonly path: string;
      readonly file: ExternalFile;
      /** Files about the file's loop that are not checkpoints. */
      readonly beside: readonly LoopFile[];
    }
  | {
      readonly kind: "directory";
      readonly path: string;
      /** Its own regular files, by name. For a directory above loops, the checkpoint files of the loops. */
      readonly files: readonly ExternalFile[];
      /** Files about its loops that are not checkpoints. */
      readonly beside: readonly LoopFile[];
      /** Files that exist but cannot be read. */
      readonly broken: readonly { readonly name: string; readonly error: HoldfastError }[];
      /** Target of the link `latest`, as written; null without one. */
      readonly link: string | null;
    };

/** A file about a loop that is not a checkpoint. */
interface LoopFile extends ExternalFile {
  readonly loop: string;
}

/** Limit for one file, compressed or not: no checkpoint is this large, and a decompression bomb stops here. */
const MAX_BYTES = 256 * 1024 * 1024;
/** Limit for all files of one directory. */
const MAX_DIRECTORY_BYTES = 1024 * 1024 * 1024;
const MAX_FILES = 10_000;

/** `path` is as the user typed it, and messages show it. */
export function readSourceFiles(path: string, cwd: string): SourceFiles {
  const absolute = resolve(cwd, path);
  const stat = statSync(absolute, { throwIfNoEntry: false });
  if (stat === undefined)
    throw usageError(`${path} does not exist`, "Check the spelling. Relative paths start at the current directory.");
  if (stat.isDirectory()) return readDirectory(path, absolute);
  const { beside } = readBeside([dirname(absolute)], dirname(absolute), dirname(path));
  return { kind: "file", path, file: readExternalFile(path, realpathSync.native(absolute)), beside };
}

/** State and memory of loops: the files of `LOOP_FILES` above each checkpoint directory of a loop. */
function readBeside(
  directories: readonly string[],
  absolute: string,
  path: string,
): Pick<Extract<SourceFiles, { readonly kind: "directory" }>, "beside" | "broken"> {
  const beside: LoopFile[] = [];
  const broken: { readonly name: string; readonly error: HoldfastError }[] = [];
  const named = directories.flatMap((directory) => {
    const home = dirname(directory);
    const loop = loopNamedBy(home);
    return loop === null ? [] : LOOP_FILES.map((name) => ({ loop, file: join(home, name) }));
  });
  for (const { loop, file } of named) {
    if (lstatSync(file, { throwIfNoEntry: false })?.isFile() !== true) continue;
    const name = relative(absolute, file);
    try {
      beside.push({ loop, ...readExternalFile(join(path, name), file) });
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error;
      broken.push({ name, error });
    }
  }
  return { beside, broken };
}

function readDirectory(path: string, absolute: string): SourceFiles {
  const loops = loopDirectories(absolute);
  const saved = loops.filter(isDirectory);
  const names = (saved.length === 0 ? [absolute] : saved).flatMap((directory) =>
    readdirSync(directory)
      .toSorted()
      .map((name) => relative(absolute, join(directory, name))),
  );
  if (names.length > MAX_FILES)
    throw usageError(
      `${path} has ${names.length} entries; more than ${MAX_FILES} are not read at once`,
      "Name the files that are meant.",
    );
  const files: ExternalFile[] = [];
  const { beside, broken: unread } = readBeside(loops.length === 0 ? [absolute] : loops, absolute, path);
  const broken = [...unread];
  let link: string | null = null;
  let total = 0;
  for (const name of names) {
    const stat = lstatSync(join(absolute, name), { throwIfNoEntry: false });
    if (stat?.isSymbolicLink() === true && name === "latest") link = readlinkSync(join(absolute, name));
    if (stat?.isFile() !== true || basename(name).startsWith(".")) continue;
    try {
      const file = readExternalFile(join(path, name), join(absolute, name));
      total += file.bytes.length;
      if (total > MAX_DIRECTORY_BYTES) throw damaged(path, `its files have more than ${MAX_DIRECTORY_BYTES} bytes`);
      files.push(file);
    } catch (error) {
      if (!(error instanceof HoldfastError) || total > MAX_DIRECTORY_BYTES) throw error;
      broken.push({ name, error });
    }
  }
  return { kind: "directory", path, files, beside, broken, link };
}

function readExternalFile(path: string, absolute: string): ExternalFile {
  const read = readRegularFile({ path: absolute, maxBytes: MAX_BYTES });
  if (read.kind !== "read") throw damaged(path, read.kind === "absent" ? "it is gone" : read.why);
  const content = decompress(read.bytes, MAX_BYTES);
  if (content.kind === "damaged") throw damaged(path, content.why);
  if (content.kind === "lz4")
    throw new HoldfastError({
      code: "UNSUPPORTED",
      message: `${path} is compressed with LZ4, which Holdfast does not read`,
      hint: "Nothing was changed. Decompress it with `lz4 -d FILE` and pass the result.",
      data: { file: path },
    });
  return { path, bytes: content.bytes, compression: content.compression };
}

function damaged(path: string, why: string): HoldfastError {
  return new HoldfastError({
    code: "FORMAT_DAMAGED",
    message: `${path} cannot be read: ${why}`,
    hint: "Nothing was changed. Take another copy of the file, or an older checkpoint.",
    data: { file: path },
  });
}

/**
 * Checkpoint directories of loops, if the user names a directory above them: a repository, its `.aiwg`, all loops, or
 * one. Each loop has its own directory; loops of the legacy layout share one. Empty for every other directory. The
 * directory of a loop without a checkpoint may be absent.
 */
function loopDirectories(absolute: string): readonly string[] {
  const [name, parent, above] = [absolute, dirname(absolute), dirname(dirname(absolute))].map((path) => basename(path));
  if (name === ".aiwg") return ofRoot(absolute);
  if (name === "ralph" && parent === ".aiwg") return ofLoops(join(absolute, "loops"));
  if (name === "loops" && parent === "ralph") return ofLoops(absolute);
  if (parent === "loops" && above === "ralph") return [join(absolute, "checkpoints")];
  const root = join(absolute, ".aiwg");
  return isDirectory(root) ? ofRoot(root) : [];
}

function ofRoot(root: string): readonly string[] {
  return [...ofLoops(join(root, "ralph/loops")), ...[join(root, "checkpoints")].filter(isDirectory)];
}

function ofLoops(loops: string): readonly string[] {
  if (!isDirectory(loops)) return [];
  return readdirSync(loops)
    .toSorted()
    .map((loop) => join(loops, loop, "checkpoints"));
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}
