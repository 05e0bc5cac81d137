import { createHash, hash } from "node:crypto";
import { createReadStream, readFileSync, statSync } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createInflate, inflateSync } from "node:zlib";
import { HoldfastError } from "@holdfast/platform/error";
import { type ProcessResult, runProcess } from "@holdfast/platform/subprocess";
import type { Repository } from "./repository.ts";

/** Those of the ids whose object is not there or whose file is empty or torn at its head. */
export async function findMissingObjects(repository: Repository, ids: readonly string[]): Promise<string[]> {
  // What was written a moment ago lies there as a file of its own; a look at it saves a process.
  const unsure = ids.length > LOOK_UP_TO ? ids : ids.filter((id) => !isLooseAndFilled(repository, id));
  if (unsure.length === 0) return [];
  const input = Buffer.from(unsure.map((id) => `${id}\n`).join(""));
  const result = await repository.objects.result({
    args: ["cat-file", "--batch-check=%(objectname) %(objecttype)"],
    input,
  });
  const present = new Set(
    result.stdout
      .toString("latin1")
      .split("\n")
      .filter((line) => / (?:blob|tree|commit|tag)$/.test(line))
      .map((line) => line.slice(0, line.indexOf(" "))),
  );
  return unsure.filter((id) => !present.has(id));
}

/**
 * Is all of it there? Existence for everything; loose objects are also read to their end, because a loose object that
 * another git wrote just before a power cut can be there and be torn. Packs are synced by git before they get their name.
 */
export async function hasSnapshot(repository: Repository, files: SnapshotIds): Promise<boolean> {
  if (!(await hasCommit(repository, files))) return false;
  const args = ["rev-list", "--objects", "--no-object-names", files.tree];
  const walk = await repository.objects.result({ args });
  if (walk.code !== 0) return false;
  const lines = walk.stdout.toString("latin1").split("\n");
  return areComplete(repository, [files.commit, ...lines.filter((line) => line !== "")]);
}

interface SnapshotIds {
  readonly tree: string;
  readonly commit: string;
}

/** Is the commit there, and of this tree? What the tree holds is not looked at. */
export async function hasCommit(repository: Repository, files: SnapshotIds): Promise<boolean> {
  if (!ID.test(files.tree) || !ID.test(files.commit)) return false;
  const args = ["rev-parse", "--verify", "--quiet", `${files.commit}^{tree}`];
  const tree = await repository.objects.result({ args });
  return tree.code === 0 && tree.stdout.toString("utf8").trim() === files.tree;
}

export async function areComplete(repository: Repository, ids: readonly string[]): Promise<boolean> {
  if ((await findMissingObjects(repository, ids)).length > 0) return false;
  const loose = await listLoose(repository, ids);
  return canReadAll(repository, loose);
}

/** Those of the commits that no branch, tag or remote-tracking ref reaches. */
export async function findUnpublished(
  repository: Repository,
  commits: readonly string[],
): Promise<ReadonlySet<string>> {
  const asked = commits.filter((commit) => ID.test(commit));
  if (asked.length === 0) return new Set();
  const input = Buffer.from(asked.map((commit) => `${commit}\n`).join(""));
  const args = ["rev-list", "--ignore-missing", "--stdin", "--not", "--branches", "--tags", "--remotes"];
  const walk = await repository.git.output({ args, input });
  const unreached = new Set(walk.toString("latin1").split("\n"));
  return new Set(asked.filter((commit) => unreached.has(commit)));
}

const LOOK_UP_TO = 2000;
const ID = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

function isLooseAndFilled(repository: Repository, id: string): boolean {
  return (statSync(loosePath(repository, id), { throwIfNoEntry: false })?.size ?? 0) > 0;
}

/** By listing folders, not by asking for each: a large tree has many times more objects than there are folders. */
async function listLoose(repository: Repository, ids: readonly string[]): Promise<readonly string[]> {
  const folders = [...new Set(ids.map((id) => id.slice(0, 2)))];
  const found = await Promise.all(
    folders.map(async (folder) => {
      const names = await readdir(join(repository.objectDirectory, folder)).catch(() => []);
      return names.map((name) => folder + name);
    }),
  );
  const loose = new Set(found.flat());
  return ids.filter((id) => loose.has(id));
}

/** Does git read all of them without a complaint? */
export async function canReadAll(repository: Repository, ids: readonly string[]): Promise<boolean> {
  if (ids.length === 0) return true;
  const reading = repository.objects.start({ args: ["cat-file", "--batch=%(objecttype)"] });
  reading.stdin.end(ids.map((id) => `${id}\n`).join(""));
  reading.stdout.resume();
  const exit = await reading.exit;
  return exit.kind === "exited" && exit.code === 0 && exit.stderr === "";
}

/**
 * Is there a loose object of this name whose bytes are not what the name promises? A power cut leaves such files, empty or cut
 * short; git takes them for stored and never writes them again. One that cannot be opened or read is not judged.
 */
export async function isDamaged(repository: Repository, id: string): Promise<boolean> {
  const path = loosePath(repository, id);
  const size = statSync(path, { throwIfNoEntry: false })?.size;
  if (size === undefined) return false;
  try {
    const { sum, read } = size > AT_ONCE_BYTES ? await readPiecewise(repository, path) : readAtOnce(repository, path);
    // Both: git refuses an object with anything behind its end.
    return sum !== id || read !== size;
  } catch (error) {
    return error instanceof Error && "code" in error && String(error.code).startsWith("Z_");
  }
}

export function loosePath(repository: Repository, id: string): string {
  return join(repository.objectDirectory, id.slice(0, 2), id.slice(2));
}

// Small ones are nearly all of them, and a stream for each would cost several times the work itself.
const AT_ONCE_BYTES = 64 * 1024;

interface ReadObject {
  readonly sum: string;
  /** Of the file. */
  readonly read: number;
}

function readAtOnce(repository: Repository, path: string): ReadObject {
  const inflated: unknown = inflateSync(readFileSync(path), { info: true });
  if (!isInflated(inflated)) throw new HoldfastError({ code: "INTERNAL", message: "zlib answered in an unknown way" });
  return { sum: hash(repository.objectFormat, inflated.buffer), read: inflated.engine.bytesWritten };
}

/** Under `info` zlib answers otherwise than its types say. */
function isInflated(
  value: unknown,
): value is { readonly buffer: Buffer; readonly engine: { readonly bytesWritten: number } } {
  if (typeof value !== "object" || value === null || !("buffer" in value) || !("engine" in value)) return false;
  const { buffer, engine } = value;
  return Buffer.isBuffer(buffer) && typeof engine === "object" && engine !== null && "bytesWritten" in engine;
}

async function readPiecewise(repository: Repository, path: string): Promise<ReadObject> {
  const inflate = createInflate();
  const sum = createHash(repository.objectFormat);
  await pipeline(createReadStream(path), inflate, sum);
  return { sum: sum.digest("hex"), read: inflate.bytesWritten };
}

export async function treeOfCommit(repository: Repository, commit: string): Promise<string> {
  const args = ["rev-parse", "--verify", "--quiet", "--end-of-options", `${commit}^{tree}`];
  const found = await repository.objects.result({ args });
  if (found.code !== 0) throw missingCommit(commit);
  return found.stdout.toString("utf8").trim();
}

export function missingCommit(commit: string): HoldfastError {
  return new HoldfastError({
    code: "TREE_MISSING",
    message: `Commit ${commit} of an aside is not in this repository`,
    hint: "Fetch refs/holdfast/* from where it was made, or go back to a checkpoint before the aside.",
    data: { commit },
  });
}

/**
 * Everything written to the file system of this path so far survives a power cut when this returns. Syncing single files is not
 * enough: git syncs no directory, and objects that another git wrote a moment ago were never synced at all.
 */
export async function syncFileSystem(path: string): Promise<void> {
  if (process.platform === "win32") return;
  const one = process.platform === "linux" ? await sync(["-f", path]) : undefined;
  if (one?.code === 0) return;
  // The plain one cannot fail, whatever the disk says: it may stand in for one that knows no single file systems, and for nothing else.
  if (one !== undefined && !UNKNOWN_OPTION.test(one.stderr.replaceAll(path, ""))) throw failed(path, one.stderr);
  const all = await sync([]);
  if (all.code !== 0) throw failed(path, all.stderr);
}

const UNKNOWN_OPTION = /(?:invalid|unrecognized|unknown|illegal) option|^usage:/im;

function sync(args: readonly string[]): Promise<ProcessResult> {
  return runProcess({ command: "sync", args, env: { ...process.env, LC_ALL: "C" } });
}

/** Refs and objects. Somebody may have moved the objects to a disk of their own. */
export async function syncRepository({ commonDir, objectDirectory }: Repository): Promise<void> {
  await syncFileSystem(commonDir);
  const [own, objects] = await Promise.all([stat(commonDir), stat(objectDirectory)]);
  if (own.dev !== objects.dev) await syncFileSystem(objectDirectory);
}

function failed(path: string, why: string): HoldfastError {
  const isFull = /no space left on device|disk quota exceeded/i.test(why);
  return new HoldfastError({
    code: isFull ? "DISK_FULL" : "IO_FAILED",
    message: `the file system of ${path} could not be synced: ${why}`.trim(),
    hint: isFull
      ? "Free some space and run the command again; nothing was lost."
      : "Look at the system log: the disk may be failing. What was written may not survive a power cut.",
    ...(isFull ? { retry: "later" as const } : {}),
  });
}
