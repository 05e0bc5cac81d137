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
import { basename, dirname, join, resolve, sep } from "node:path";
import { type Json, type JsonObject, isJsonObject } from "@holdfast/core/json";
import type { ProgressEvent, ProgressListener } from "@holdfast/core/progress";
import { compressFor } from "@holdfast/formats/compression";
import { type CrunchConfig, crunchLocation } from "@holdfast/formats/crunch-config";
import { readCrunchDirectory } from "@holdfast/formats/crunch-directory";
import { type CrunchLimits, type DirectoryAction, planCrunchWrite } from "@holdfast/formats/crunch-directory-write";
import type { cachedDecoder } from "@holdfast/formats/crunch-yaml";
import type { Encoded, ExternalCheckpoint, FormatName, Loss } from "@holdfast/formats/format";
import { findFormat } from "@holdfast/formats/registry";
import { readSourceFiles } from "@holdfast/formats/source-files";
import { HoldfastError } from "@holdfast/platform/error";
import {
  TEMPORARY_PREFIX,
  makeDurableDirectory,
  readRegularFile,
  removeDurable,
  removeStaleTemporaryFiles,
  syncDirectory,
  writeDurable,
  writeDurableSymlink,
} from "@holdfast/platform/files";

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
    removeStaleTemporaryFiles(place, LEFT_BEHIND);
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

export interface WriteResult {
  /** Absolute, in the order of writing; empty: everything was there already. */
  readonly paths: readonly string[];
  /** Gone by the other tool's own rules. */
  readonly removed: readonly string[];
  readonly losses: readonly Loss[];
}

/** One document to one place, whole or not at all, packed when its name says so. The same bytes again are not written again. */
export function writeDocument(encoded: Pick<Encoded, "bytes" | "losses">, path: string): WriteResult {
  const { losses } = encoded;
  const data = compressFor(path, encoded.bytes);
  if (sameBytes(path, data)) return { paths: [], removed: [], losses };
  makeDurableDirectory(dirname(path), 0o755);
  removeStaleTemporaryFiles(dirname(path), LEFT_BEHIND);
  writeDurable({ path, data, mode: "replace" });
  return { paths: [path], removed: [], losses };
}

/** Longer than anybody takes from writing a file to giving it its name. */

/** Below `root`, where the tool that reads it looks for it. */
export function resolveInside(root: string, relative: string): string {
  const place = resolve(root, relative);
  if (place.startsWith(root.endsWith(sep) ? root : root + sep)) return place;
  throw new HoldfastError({ code: "INTERNAL", message: `${relative} leads out of ${root}` });
}

/** What comes with a clone may hold links: nothing that is written unasked leaves the repository through one. */
export function assertInside(root: string, place: string): void {
  // One that is yet to be made holds no links.
  if (statSync(root, { throwIfNoEntry: false }) === undefined) return;
  const home = realpathSync(root);
  let there = place;
  while (statSync(there, { throwIfNoEntry: false }) === undefined && dirname(there) !== there) there = dirname(there);
  const real = realpathSync(there);
  if (real === home || real.startsWith(home + sep)) return;
  throw new HoldfastError({
    code: "IO_FAILED",
    message: `${place} is reached through a link that leads out of ${root}; nothing was written there`,
    hint: "Remove the link, or name another place: `mirror.directory` in holdfast.config.yaml, for crunch `location` in .claude/checkpoint-config.yaml.",
    data: { root, path: place },
  });
}

/** Where crunch keeps the checkpoints of this piece of work, below the root. */
export function checkpointDirectoryFor(
  root: string,
  config: CrunchConfig | null,
  checkpoint: Pick<ExternalCheckpoint, "work">,
): string {
  const issue = checkpoint.work.kind === "issue" ? checkpoint.work.number : null;
  return resolveInside(root, crunchLocation(config?.location ?? ".claude/crunch/{issue}/checkpoints", issue));
}

/** Files, index and `latest` of a crunch directory, in an order that leaves it whole wherever this is cut. */
export function writeCrunchDirectory(params: {
  readonly directory: string;
  readonly add: readonly ExternalCheckpoint[];
  /** Crunch's own, where this is the directory that it speaks of. */
  readonly config: CrunchConfig | null;
  /** Ids of all that the run has: nothing else is removed by the config's rules. */
  readonly ours: ReadonlySet<string>;
  /** A directory that is begun now hides itself from git, with all that it will hold. */
  readonly hide?: boolean;
  /** Of one who writes here again and again. */
  readonly reader?: ReturnType<typeof cachedDecoder>;
}): WriteResult {
  const { directory, add, config, ours, reader } = params;
  makeDurableDirectory(directory, 0o755);
  // A kill may have left something although nothing is to be written now.
  removeStaleTemporaryFiles(directory, LEFT_BEHIND);
  if (params.hide === true && readdirSync(directory).length === 0)
    writeDocument({ bytes: new TextEncoder().encode("*\n"), losses: [] }, join(directory, ".gitignore"));
  const source = readSourceFiles(directory, directory);
  if (source.kind !== "directory")
    throw new HoldfastError({ code: "USAGE", message: `${directory} is not a directory`, hint: "Name a directory." });
  reader?.keepOnly(source.files);
  const plan = planCrunchWrite({
    directory: readCrunchDirectory({ files: source.files, link: source.link }, reader?.decode),
    add,
    links: true,
    ...(config === null ? {} : { limits: limitsOf(directory, config, ours) }),
    suffix: config?.compress === true ? ".gz" : "",
  });
  const paths = plan.actions.flatMap((action) => (action.kind === "remove" ? [] : applyWrite(directory, action)));
  const removed = plan.actions.flatMap((action) => (action.kind === "remove" ? [remove(directory, action.name)] : []));
  return { paths, removed, losses: [...plan.losses.flatMap(({ losses }) => losses), ...plan.limited] };
}

function limitsOf(directory: string, { retention }: CrunchConfig, ours: ReadonlySet<string>): CrunchLimits {
  return {
    retention,
    ours,
    sizeOf: (name, bytes) =>
      bytes === null
        ? (statSync(join(directory, name), { throwIfNoEntry: false })?.size ?? 0)
        : compressFor(name, bytes).length,
  };
}

/** Removals come last in every plan: by then nothing names the files. */
function remove(directory: string, name: string): string {
  const path = join(directory, basename(name));
  removeDurable(path);
  return path;
}

function applyWrite(
  directory: string,
  action: Exclude<DirectoryAction, { readonly kind: "remove" }>,
): readonly string[] {
  const path = join(directory, basename(action.name));
  if (action.kind === "write") return writeDocument({ bytes: action.bytes, losses: [] }, path).paths;
  if (writeDurableSymlink({ path, target: action.target }) === "made") return [path];
  // A system without links gets a file that holds the name.
  return writeDocument({ bytes: new TextEncoder().encode(`${action.target}\n`), losses: [] }, path).paths;
}

function sameBytes(path: string, bytes: Uint8Array): boolean {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat?.isFile() === true && stat.size === bytes.length && readFileSync(path).equals(bytes);
}

/**
 * Where a layout names two checkpoints alike, the one that has the place is put beside it before another takes it. A file there that
 * cannot be read may be the only copy of something, and is not overwritten.
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

export interface CheckpointMirror extends AsyncDisposable {
  /** Hears what the run tells, and passes it on. */
  readonly listen: ProgressListener;
}

/**
 * Brings each checkpoint of a run to where others read it, as it is saved, never twice at once. It serves others: when it fails that is told
 * once, the run goes on, and the next checkpoint tries again. Disposed when all that was saved is there.
 */
export function mirrorCheckpoints(params: {
  readonly run: string;
  readonly listen: ProgressListener | undefined;
  /** What is behind when it fails: "Crunch's directory". */
  readonly what: string;
  /** Called at once, too: one that was killed may have left it behind. */
  readonly catchUp: () => Promise<void>;
  /** Called instead every so often while nothing is saved. */
  readonly pulse?: { readonly everyMs: number; readonly beat: () => Promise<void> };
  /** Once more at the end: what it tells of the run itself is other then. */
  readonly last?: boolean;
}): CheckpointMirror {
  const { run, listen, pulse } = params;
  let told: string | null = null;
  let waiting = false;
  const attempt = async (act: () => Promise<void>): Promise<void> => {
    try {
      await act();
      told = null;
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      if (why !== told) tell(listen, run, `${params.what} is behind: ${why}`);
      told = why;
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

function tell(listen: ProgressListener | undefined, run: string, text: string): void {
  const event: ProgressEvent = { kind: "note", text, run, at: new Date().toISOString() };
  listen?.(event);
}
