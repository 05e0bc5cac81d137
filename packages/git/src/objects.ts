// Writes git objects, checks that they exist and are intact, and syncs the file system of a repository.

import { createHash, hash, randomBytes } from "node:crypto";
import { createReadStream, existsSync, readFileSync, statSync } from "node:fs";
import { chmod, mkdir, open, readdir, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { createInflate, deflateSync, inflateSync } from "node:zlib";
import { isObjectId } from "@holdfast/core/journal";
import { HoldfastError, errorCode } from "@holdfast/platform/error";
import { type Git, gitError } from "@holdfast/platform/git-command";
import { type ProcessResult, runProcess } from "@holdfast/platform/subprocess";
import type { Repository } from "./repository.ts";

/** Returns the ids whose object is absent or whose file is empty or corrupt at its start. */
export async function findMissingObjects(repository: Repository, ids: readonly string[]): Promise<string[]> {
  // A recent object is usually a loose file. Checking that file saves a process.
  const unsure = ids.length > LOOK_UP_TO ? ids : ids.filter((id) => !isLooseAndFilled(repository, id));
  if (unsure.length === 0) return [];
  const args = ["cat-file", "--batch-check=%(objectname) %(objecttype)"];
  const result = await repository.objects.result({ args, input: linesOf(unsure) });
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
 * True if the snapshot is complete. All objects must exist, and loose ones must be readable to their end. A loose
 * object that another git wrote just before a power cut may be truncated. Git syncs packs before it names them.
 */
export async function hasSnapshot(repository: Repository, files: SnapshotIds): Promise<boolean> {
  if (!(await hasTree(repository, files))) return false;
  const args = ["rev-list", "--objects", "--no-object-names", files.tree];
  const walk = await repository.objects.result({ args });
  if (walk.code !== 0) return false;
  const lines = walk.stdout.toString("latin1").split("\n");
  return areComplete(repository, [files.snapshot, ...lines.filter((line) => line !== "")]);
}

interface SnapshotIds {
  readonly tree: string;
  /** A snapshot, or the commit of a side worktree. */
  readonly snapshot: string;
}

/** True if the snapshot exists and has this tree. The contents of the tree are not checked. */
export async function hasTree(repository: Repository, files: SnapshotIds): Promise<boolean> {
  if (!isObjectId(files.tree) || !isObjectId(files.snapshot)) return false;
  return (await findObject(repository.objects, `${files.snapshot}^{tree}`)) === files.tree;
}

export async function areComplete(repository: Repository, ids: readonly string[]): Promise<boolean> {
  if ((await findMissingObjects(repository, ids)).length > 0) return false;
  const loose = await listLoose(repository, ids);
  return canReadAll(repository, loose);
}

interface StoredObject {
  readonly id: string;
  readonly type: string;
  readonly bytes: Buffer;
}

/** The objects in the output of `cat-file --batch`, up to the first one that is absent or cut off. */
export function* batchObjects(output: Buffer): Generator<StoredObject> {
  for (let rest = output; rest.length > 0;) {
    const start = rest.indexOf(0x0a) + 1;
    const [, id = "", type = "", size] = /^([0-9a-f]+) (\w+) (\d+)\n$/.exec(rest.toString("latin1", 0, start)) ?? [];
    const end = start + Number(size);
    if (size === undefined || end >= rest.length) return;
    yield { id, type, bytes: rest.subarray(start, end) };
    rest = rest.subarray(end + 1);
  }
}

/** An object that revisions reach. `where`: the path of a file, or the kind and id of another object. */
interface ReachedObject extends StoredObject {
  readonly where: string;
}

/**
 * The objects that these revisions reach, as far as `maxBytes` suffice. `missing`: why there are fewer than git listed; null: these are all.
 */
export async function readReached(
  { objects: git }: Repository,
  { revisions, maxBytes }: { readonly revisions: readonly string[]; readonly maxBytes: number },
): Promise<{ readonly objects: readonly ReachedObject[]; readonly missing: "too many bytes" | "not shown" | null }> {
  const input = linesOf(revisions);
  const listed = (await git.output({ args: ["rev-list", "--objects", "--stdin"], input })).toString("utf8").split("\n");
  const lines = listed.filter((line) => line !== "");
  const names = new Map(lines.map((line) => [line.split(" ", 1)[0] ?? "", line.slice(line.indexOf(" ") + 1)]));
  const args = ["cat-file", "--batch"];
  const read = await git.result({ args, input: linesOf([...names.keys()]), maxOutputBytes: maxBytes });
  const objects = Array.from(batchObjects(read.stdout), ({ id, type, bytes }) => {
    const where = type === "blob" ? (names.get(id) ?? id) : `${type} ${id.slice(0, 12)}`;
    return { id, type, bytes, where };
  });
  if (read.kind === "overflowed") return { objects, missing: "too many bytes" };
  return { objects, missing: objects.length < names.size ? "not shown" : null };
}

/** Lines for the standard input of git. */
export function linesOf(lines: Iterable<string>): Buffer {
  return Buffer.from(Array.from(lines, (line) => `${line}\n`).join(""));
}

/** Returns the commits that none of these refs reaches, such as `--branches`. */
export async function findUnreached(
  repository: Repository,
  params: { readonly commits: readonly string[]; readonly refs: readonly string[] },
): Promise<ReadonlySet<string>> {
  const asked = params.commits.filter((commit) => isObjectId(commit));
  if (asked.length === 0) return new Set();
  const args = ["rev-list", "--ignore-missing", "--stdin", "--not", ...params.refs];
  const walk = await repository.git.output({ args, input: linesOf(asked) });
  const unreached = new Set(walk.toString("latin1").split("\n"));
  return new Set(asked.filter((commit) => unreached.has(commit)));
}

const LOOK_UP_TO = 2000;
export function isLooseAndFilled(repository: Repository, id: string): boolean {
  return (statSync(loosePath(repository, id), { throwIfNoEntry: false })?.size ?? 0) > 0;
}

/**
 * Lists directories instead of checking each object: a large tree has many times more objects than there are
 * directories.
 */
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

/** True if git reads all of them without an error or a warning. */
export async function canReadAll(repository: Repository, ids: readonly string[]): Promise<boolean> {
  if (ids.length === 0) return true;
  const reading = repository.objects.start({ args: ["cat-file", "--batch=%(objecttype)"] });
  reading.stdin.end(linesOf(ids));
  reading.stdout.resume();
  const exit = await reading.exit;
  if (exit.kind !== "exited") throw gitError(["cat-file"], exit);
  return exit.code === 0 && exit.stderr === "";
}

/**
 * True if a loose object of this name exists and its bytes do not match the name. A power cut leaves such files, empty
 * or truncated; git treats them as stored and never rewrites them. An object that cannot be opened or read counts as
 * undamaged.
 */
export async function isDamaged(repository: Repository, id: string): Promise<boolean> {
  const path = loosePath(repository, id);
  const size = statSync(path, { throwIfNoEntry: false })?.size;
  if (size === undefined) return false;
  try {
    const { sum, read } = size > AT_ONCE_BYTES ? await readPiecewise(repository, path) : readAtOnce(repository, path);
    // Both are compared, because git rejects an object with trailing bytes.
    return sum !== id || read !== size;
  } catch (error) {
    return String(errorCode(error)).startsWith("Z_");
  }
}

export function loosePath(repository: Repository, id: string): string {
  return join(repository.objectDirectory, id.slice(0, 2), id.slice(2));
}

// Nearly all objects are small, and a stream for each would cost several times the work itself.
const AT_ONCE_BYTES = 64 * 1024;

interface ReadObject {
  readonly sum: string;
  /** Bytes read from the file. */
  readonly read: number;
}

function readAtOnce(repository: Repository, path: string): ReadObject & { readonly content: Buffer } {
  const inflated: unknown = inflateSync(readFileSync(path), { info: true });
  if (!isInflated(inflated)) throw new HoldfastError({ code: "INTERNAL", message: "zlib answered in an unknown way" });
  const { buffer: content, engine } = inflated;
  return { sum: hash(repository.objectFormat, content), read: engine.bytesWritten, content };
}

/** With the option `info`, zlib returns another value than its types declare. */
function isInflated(
  value: unknown,
): value is { readonly buffer: Buffer; readonly engine: { readonly bytesWritten: number } } {
  if (typeof value !== "object" || value === null || !("buffer" in value) || !("engine" in value)) return false;
  const { buffer, engine } = value;
  return Buffer.isBuffer(buffer) && typeof engine === "object" && engine !== null && "bytesWritten" in engine;
}

/** A commit, its tree and its parents, without git; null if commit or tree is not a whole loose object, and git has to be asked. */
export function peelLoose(
  repository: Repository,
  id: string,
): { readonly commit: string; readonly tree: string; readonly parents: readonly string[] } | null {
  try {
    const { sum, content } = readAtOnce(repository, loosePath(repository, id));
    const [header = ""] = content.toString("latin1").split("\n\n", 1);
    const [, tree] = /^commit \d+\0tree ([0-9a-f]{40,64})$/m.exec(header) ?? [];
    const parents = Array.from(header.matchAll(/^parent ([0-9a-f]{40,64})$/gm), ([, parent = ""]) => parent);
    return sum === id && tree !== undefined && isLooseAndFilled(repository, tree)
      ? { commit: id, tree, parents }
      : null;
  } catch {
    return null;
  }
}

async function readPiecewise(repository: Repository, path: string): Promise<ReadObject> {
  const inflate = createInflate();
  const sum = createHash(repository.objectFormat);
  await pipeline(createReadStream(path), inflate, sum);
  return { sum: sum.digest("hex"), read: inflate.bytesWritten };
}

/**
 * Stores a small object as git does, and returns its id. This saves a process for every snapshot. The object survives a
 * power cut once the caller has synced the file system. A killed call leaves a file that `git gc` removes.
 */
export async function writeLooseObject(
  repository: Repository,
  type: "tag" | "blob" | "tree" | "commit",
  content: Buffer,
): Promise<string> {
  const bytes = Buffer.concat([Buffer.from(`${type} ${content.length}\0`), content]);
  const id = hash(repository.objectFormat, bytes);
  const path = loosePath(repository, id);
  if (existsSync(path)) return id;
  const { mode } = await stat(repository.objectDirectory);
  // A repository that several users share has the group's rights on all its directories.
  await mkdir(dirname(path), { mode }).then(
    () => chmod(dirname(path), mode & 0o7777),
    (error: unknown) => {
      if (errorCode(error) !== "EEXIST") throw error;
    },
  );
  const draft = join(dirname(path), `tmp_obj_${randomBytes(6).toString("hex")}`);
  const file = await open(draft, "wx", 0o400 | (mode & 0o044));
  try {
    await file.writeFile(deflateSync(bytes));
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(draft, path);
  return id;
}

export async function treeOfCommit(repository: Repository, commit: string): Promise<string> {
  const tree = await findObject(repository.objects, `${commit}^{tree}`);
  if (tree === null) throw missingCommit(commit);
  return tree;
}

/** The id of the object that a name or expression stands for; null if there is none. */
export function findObject(git: Git, name: string): Promise<string | null> {
  return git.find({ args: ["rev-parse", "--verify", "--quiet", "--end-of-options", name] });
}

export function missingCommit(commit: string): HoldfastError {
  return new HoldfastError({
    code: "TREE_MISSING",
    message: `Commit ${commit} of a side worktree is not in this repository`,
    hint: "Fetch refs/holdfast/* from where it was made, or restore a checkpoint before the side worktree.",
    data: { commit },
  });
}

/**
 * When this returns, all earlier writes to the file system of this path survive a power cut. Syncing single files is
 * not enough. Git syncs no directories, and objects that another git wrote may never have been synced.
 */
export async function syncFileSystem(path: string, options: SyncOptions = {}): Promise<void> {
  const { platform = process.platform, scratch = path } = options;
  if (platform === "win32") return;
  const one = platform === "linux" ? await sync(["-f", path]) : undefined;
  if (one?.code === 0) return;
  // Plain `sync` never fails, even if the disk does. It may replace only a `sync` that does not support the option -f.
  if (one !== undefined && !UNKNOWN_OPTION.test(one.stderr.replaceAll(path, ""))) throw failed(path, one.stderr);
  const all = await sync([]);
  if (all.code !== 0) throw failed(path, all.stderr);
  if (platform === "darwin") await flushDrive(path, scratch);
}

interface SyncOptions {
  readonly platform?: NodeJS.Platform;
  /** A directory of ours for a temporary file; default the path itself. */
  readonly scratch?: string;
}

/**
 * On macOS `sync` hands everything to the drive, and only F_FULLFSYNC makes the drive write its cache. Node's fsync uses it.
 * A new file is synced, because a clean one may be skipped, and then the directory, as git does with `fsyncMethod=batch`.
 */
async function flushDrive(path: string, scratch: string): Promise<void> {
  const [target, own] = await Promise.all([stat(path), stat(scratch)]);
  const file = join(target.dev === own.dev ? scratch : path, `.tmp-sync-${randomBytes(6).toString("hex")}`);
  try {
    const fresh = await open(file, "wx", 0o600);
    try {
      await fresh.write("\n");
      await fresh.sync();
    } finally {
      await fresh.close();
    }
  } finally {
    await rm(file, { force: true });
  }
  await syncFile(path);
}

const UNKNOWN_OPTION = /(?:invalid|unrecognized|unknown|illegal) option|^usage:/im;

function sync(args: readonly string[]): Promise<ProcessResult> {
  return runProcess({ command: "sync", args, env: { ...process.env, LC_ALL: "C" } });
}

/**
 * Syncs refs and objects. The user may have moved the objects to another disk. `commits` exist already: they and their
 * history survive a power cut from then on, which is remembered.
 */
export async function syncRepository(repository: Repository, commits: readonly string[] = []): Promise<void> {
  const { commonDir, objectDirectory, home } = repository;
  await syncFileSystem(commonDir, { scratch: home });
  const [own, objects] = await Promise.all([stat(commonDir), stat(objectDirectory)]);
  if (own.dev !== objects.dev) await syncFileSystem(objectDirectory);
  for (const commit of commits) synced.add(`${objectDirectory} ${commit}`);
}

/**
 * Syncs one loose object and loose refs with the directories that name them. False, and nothing is promised, if one of
 * them is not a file: git may have packed it, or stores refs in another way.
 */
export async function syncNames(
  repository: Repository,
  { object, refs }: { readonly object: string; readonly refs: readonly string[] },
): Promise<boolean> {
  const { commonDir, objectDirectory } = repository;
  const files = [loosePath(repository, object), ...refs.map((ref) => join(commonDir, ref))];
  if (!files.every((file) => existsSync(file))) return false;
  const folders = new Set([dirname(loosePath(repository, object)), objectDirectory]);
  for (const ref of refs) for (let at = dirname(ref); at !== "."; at = dirname(at)) folders.add(join(commonDir, at));
  await Promise.all(files.map(syncFile));
  await Promise.all([...folders].map(syncFile));
  return true;
}

async function syncFile(path: string): Promise<void> {
  const file = await open(path, "r");
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Makes a commit and its history survive a power cut. */
export async function syncCommit(repository: Repository, commit: string): Promise<void> {
  if (!synced.has(`${repository.objectDirectory} ${commit}`)) await syncRepository(repository, [commit]);
}

/** Commits that existed when this process synced their repository. An id is the hash of its content. */
const synced = new Set<string>();

function failed(path: string, why: string): HoldfastError {
  const isFull = /no space left on device|disk quota exceeded/i.test(why);
  return new HoldfastError({
    code: isFull ? "DISK_FULL" : "IO_FAILED",
    message: `the file system of ${path} could not be synced: ${why}`.trim(),
    hint: isFull
      ? "Free some space and run the command again; nothing was lost."
      : "Check the system log: the disk may be failing. The last writes may not survive a power cut.",
    ...(isFull ? { retry: "later" as const } : {}),
  });
}
