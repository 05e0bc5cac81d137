// Stages new file content and moves it into the worktree by renames.

import { randomBytes } from "node:crypto";
import {
  type BigIntStats,
  chmodSync,
  closeSync,
  copyFileSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmdirSync,
  symlinkSync,
  unlinkSync,
} from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import type { FileChange } from "@holdfast/core/workspace";
import { HoldfastError, errorCode } from "@holdfast/platform/error";
import { type Git, gitError } from "@holdfast/platform/git-command";
import { absolutePath, createPathInspector, parentOf } from "./capture-plan.ts";
import type { WorktreeContext } from "./capture.ts";
import { syncFileSystem } from "./objects.ts";
import { type RawPath, quotePath } from "./paths.ts";
import type { TreeEntry } from "./tree-diff.ts";

/** One change, ready to be made. The new content is staged on the same file system where possible. */
export type Placement =
  | { readonly kind: "remove"; readonly path: RawPath }
  | { readonly kind: "place"; readonly path: RawPath; readonly staged: string | Buffer }
  | { readonly kind: "mode"; readonly path: RawPath; readonly permissions: number };

/**
 * Makes the changes. Every file is replaced completely by a rename or not at all. A path changes only while its
 * signature equals the one compared with the snapshot. Links on the way to it are refused, never followed.
 * `respelling.apply` changes the spelling of `paths` after the removals.
 */
export function placeFiles(
  root: string,
  placements: readonly Placement[],
  signatures: ReadonlyMap<RawPath, string>,
  respelling?: { readonly paths: readonly RawPath[]; readonly apply: () => void },
): void {
  const folders = new Set<RawPath>([""]);
  const done: RawPath[] = [];
  const seen = new Map(signatures);
  const guard = (path: RawPath): void => {
    if (signature(root, path) !== seen.get(path)) throw moved(path, done.length, placements.length);
  };
  const emptied = new Set<RawPath>();

  for (const placement of placements) {
    if (placement.kind !== "remove") continue;
    requireFolder(root, parentOf(placement.path), folders, false);
    guard(placement.path);
    unlinkSync(absolutePath(root, placement.path));
    emptied.add(parentOf(placement.path));
    done.push(placement.path);
  }
  pruneEmpty(root, emptied);
  folders.clear();
  if (respelling !== undefined) {
    const changing = respelling.paths.filter((path) => seen.has(path));
    for (const path of changing) guard(path);
    respelling.apply();
    // Renaming a file changes its signature.
    for (const path of changing) seen.set(path, signature(root, path));
  }
  for (const placement of placements) {
    const { path } = placement;
    if (placement.kind === "remove") continue;
    requireFolder(root, parentOf(path), folders, true);
    if (placement.kind === "mode") {
      guard(path);
      chmodSync(absolutePath(root, path), placement.permissions);
    } else {
      removeEmptyFolder(root, path);
      guard(path);
      moveInto(placement.staged, absolutePath(root, path));
    }
    done.push(path);
  }
}

/** The signature of the file at each path. A path beyond a link is not in this worktree and counts as absent. */
export function fileSignatures(root: string, paths: readonly RawPath[]): ReadonlyMap<RawPath, string> {
  const inspect = createPathInspector(root);
  return new Map(paths.map((path) => [path, inspect(path).kind === "absent" ? "" : signature(root, path)]));
}

/**
 * Precise enough to show any later write; "" for an absent path or a directory. Valid only if the path contains no
 * link.
 */
function signature(root: string, path: RawPath): string {
  const stat = lstat(absolutePath(root, path));
  if (stat === undefined || stat.isDirectory()) return "";
  return `${stat.dev}:${stat.ino}:${stat.mode}:${stat.size}:${stat.mtimeNs}:${stat.ctimeNs}`;
}

function lstat(path: Buffer): BigIntStats | undefined {
  try {
    return lstatSync(path, { bigint: true, throwIfNoEntry: false });
  } catch (error) {
    if (errorCode(error) === "ENOTDIR") return undefined;
    throw error;
  }
}

function requireFolder(root: string, folder: RawPath, known: Set<RawPath>, make: boolean): void {
  if (folder === "" || known.has(folder)) return;
  requireFolder(root, parentOf(folder), known, make);
  const path = absolutePath(root, folder);
  const stat = lstat(path);
  if (stat === undefined && make) mkdirSync(path);
  else if (stat?.isDirectory() !== true) {
    throw new HoldfastError({
      code: "RESTORE_REFUSED",
      message: `${quotePath(folder)} is not a folder any more`,
      hint: "Something else is writing into this worktree. Take a new snapshot and plan again.",
      data: { path: quotePath(folder) },
    });
  }
  known.add(folder);
}

function moveInto(staged: string | Buffer, path: Buffer): void {
  try {
    renameSync(staged, path);
    return;
  } catch (error) {
    if (errorCode(error) !== "EXDEV") throw error;
  }
  // Another file system is mounted inside the worktree: copy next to the target, then rename there.
  const beside = Buffer.concat([path, Buffer.from(`.holdfast-${randomBytes(6).toString("hex")}`)]);
  const stat = lstatSync(staged);
  if (stat.isSymbolicLink()) symlinkSync(readlinkSync(staged, { encoding: "buffer" }), beside);
  else {
    copyFileSync(staged, beside);
    chmodSync(beside, stat.mode & 0o777);
    syncPath(beside);
  }
  renameSync(beside, path);
  // The sync of the worktree's file system does not cover this one.
  syncPath(path.subarray(0, path.lastIndexOf(0x2f)));
}

function syncPath(path: Buffer): void {
  const file = openSync(path, "r");
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

/** Removes only directories that lost their last file here. A directory with any content remains. */
function pruneEmpty(root: string, emptied: ReadonlySet<RawPath>): void {
  for (const folder of emptied) {
    for (let at = folder; at !== ""; at = parentOf(at)) if (!removeEmptyFolder(root, at)) break;
  }
}

function removeEmptyFolder(root: string, folder: RawPath): boolean {
  const path = absolutePath(root, folder);
  if (lstat(path)?.isDirectory() !== true) return false;
  try {
    rmdirSync(path);
    return true;
  } catch {
    return false;
  }
}

function moved(path: RawPath, done: number, total: number): HoldfastError {
  return new HoldfastError({
    code: "RESTORE_REFUSED",
    message: `${quotePath(path)} was changed while the restore was under way; ${done} of ${total} changes were made`,
    hint: "Something else is writing into this worktree. Stop it, take a new snapshot and restore again: that completes it.",
    retry: "later",
    data: { path: quotePath(path), done, total },
  });
}

export interface ResolvedChange {
  readonly change: FileChange;
  readonly path: RawPath;
  readonly to: TreeEntry | null;
}

/** Writes and syncs all new content in our own directory before anything in the worktree changes. */
export async function stageChanges(
  worktree: WorktreeContext,
  changes: readonly ResolvedChange[],
  folder: string,
): Promise<readonly Placement[]> {
  const blobs: { id: string; file: string; permissions: Permissions }[] = [];
  const links: { text: string; staged: string }[] = [];
  const inspect = createPathInspector(worktree.root);
  const placements = changes.map(({ change, path, to }, number): Placement => {
    if (to === null) return { kind: "remove", path };
    const there = inspect(path).kind === "absent" ? undefined : statFile(absolutePath(worktree.root, path));
    const permissions = permissionsFor(there, to.mode);
    if (change.kind === "mode") return { kind: "mode", path, permissions: permissions.mode };
    const staged = join(folder, String(number));
    const text = `${staged}.text`;
    if (to.mode === LINK) links.push({ text, staged });
    blobs.push({ id: to.id, file: to.mode === LINK ? text : staged, permissions });
    return { kind: "place", path, staged };
  });
  const each = blobs.length <= SYNC_EACH_UP_TO;
  await stageBlobs({ git: worktree.repository.objects, blobs, sync: each });
  for (const { text, staged } of links) symlinkSync(readFileSync(text), staged);
  if (!each) await syncFileSystem(folder);
  return placements;
}

const LINK = "120000";
// For more files than this, one sync of the whole file system is cheaper than one per file.
const SYNC_EACH_UP_TO = 16;

/**
 * Git stores only the executable bit. An existing file keeps its other bits, so that a private file remains private.
 */
function permissionsFor(there: number | undefined, mode: string): Permissions {
  const executable = mode === "100755";
  if (there === undefined) return { mode: executable ? 0o777 : 0o666, exact: false };
  const bits = there & 0o777;
  return { mode: executable ? bits | ((bits & 0o444) >> 2) : bits & ~0o111, exact: true };
}

function statFile(path: Buffer): number | undefined {
  try {
    const stat = lstatSync(path);
    return stat.isFile() ? stat.mode : undefined;
  } catch {
    return undefined;
  }
}

interface Permissions {
  readonly mode: number;
  /** False for a new file, to which the umask applies. */
  readonly exact: boolean;
}

interface StageParams {
  readonly git: Git;
  readonly blobs: readonly { readonly id: string; readonly file: string; readonly permissions: Permissions }[];
  /** Sync each file as it is written. If false, the caller syncs the file system before it relies on the files. */
  readonly sync: boolean;
}

/** Writes blobs to files without conversion. One git process serves all of them, and none is held in memory. */
async function stageBlobs({ git, blobs, sync }: StageParams): Promise<void> {
  if (blobs.length === 0) return;
  const args = ["cat-file", "--batch"];
  const reading = git.start({ args });
  reading.stdin.end(blobs.map(({ id }) => `${id}\n`).join(""));
  const bytes = new ByteReader(reading.stdout);
  try {
    for (const { id, file, permissions } of blobs) {
      const [name, type, size] = (await bytes.line()).split(" ");
      if (name !== id || type !== "blob") throw missingBlob(id);
      const handle = await open(file, "wx", permissions.mode);
      try {
        if (permissions.exact) await handle.chmod(permissions.mode);
        await bytes.copy(Number(size), handle);
        if (sync) await handle.sync();
      } catch (error) {
        await handle.close().catch(() => undefined);
        throw error;
      }
      await handle.close();
      await bytes.skip(1);
    }
  } catch (error) {
    reading.kill();
    reading.stdout.destroy();
    await reading.exit;
    throw error;
  }
  const exit = await reading.exit;
  if (exit.kind !== "exited" || exit.code !== 0) throw gitError(args, exit);
}

function missingBlob(id: string): HoldfastError {
  return new HoldfastError({
    code: "TREE_MISSING",
    message: `blob ${id} of the snapshot is not whole in this repository`,
    hint: "Run `git fsck`, or restore another checkpoint. Nothing was changed.",
  });
}

/** Reads lines and byte ranges from a stream in turn. */
class ByteReader {
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(stream: AsyncIterable<Buffer>) {
    this.#chunks = stream[Symbol.asyncIterator]();
  }

  async line(): Promise<string> {
    let end = this.#rest.indexOf(0x0a);
    while (end < 0) {
      const more = await this.#next();
      if (more === undefined) return this.#rest.toString("latin1");
      this.#rest = Buffer.concat([this.#rest, more]);
      end = this.#rest.indexOf(0x0a);
    }
    const line = this.#rest.toString("latin1", 0, end);
    this.#rest = this.#rest.subarray(end + 1);
    return line;
  }

  async copy(size: number, to: FileHandle): Promise<void> {
    await this.#take(size, (part) => to.writeFile(part));
  }

  async skip(size: number): Promise<void> {
    await this.#take(size, async () => undefined);
  }

  async #take(size: number, use: (part: Buffer) => Promise<void>): Promise<void> {
    for (let left = size; left > 0;) {
      if (this.#rest.length === 0) {
        const more = await this.#next();
        if (more === undefined)
          throw new HoldfastError({ code: "GIT_FAILED", message: "git cat-file ended in the middle of a blob" });
        this.#rest = more;
      }
      const part = this.#rest.subarray(0, left);
      // writeFile writes everything or throws. A plain write may write only a part on a full disk.
      await use(part);
      left -= part.length;
      this.#rest = this.#rest.subarray(part.length);
    }
  }

  async #next(): Promise<Buffer | undefined> {
    const next = await this.#chunks.next();
    return next.done === true ? undefined : next.value;
  }
}
