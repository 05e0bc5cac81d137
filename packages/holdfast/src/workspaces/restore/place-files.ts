import { randomBytes } from "node:crypto";
import {
  chmodSync,
  closeSync,
  copyFileSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  renameSync,
  rmdirSync,
  unlinkSync,
  symlinkSync,
  readlinkSync,
  type BigIntStats,
} from "node:fs";
import { HoldfastError } from "../../core/error.ts";
import { absolutePath, createInspector, parentOf } from "../capture/inspect-path.ts";
import { quotePath, type RawPath } from "../raw-path.ts";

/** One change, ready to be made: the new content lies staged on the same file system where possible. */
export type Placement =
  | { readonly kind: "remove"; readonly path: RawPath }
  | { readonly kind: "place"; readonly path: RawPath; readonly staged: string | Buffer }
  | { readonly kind: "mode"; readonly path: RawPath; readonly permissions: number };

/**
 * Makes the changes. Every file is replaced whole by a rename or not at all. A path is touched only while it looks as it did
 * when it was compared with the snapshot, and only through real folders: a link on the way is refused, never followed.
 */
export function placeFiles(root: string, placements: readonly Placement[], seen: ReadonlyMap<RawPath, string>): void {
  const folders = new Set<RawPath>([""]);
  const done: RawPath[] = [];
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

/** What stands at each path now. What only a link on the way leads to is not in this worktree, so nothing stands there. */
export function signatures(root: string, paths: readonly RawPath[]): ReadonlyMap<RawPath, string> {
  const inspect = createInspector(root);
  return new Map(paths.map((path) => [path, inspect(path).kind === "absent" ? "" : signature(root, path)]));
}

/** So exact that any write since would show; "" for nothing, or a folder. Only for a path whose folders are known to be real. */
function signature(root: string, path: RawPath): string {
  const stat = lstat(absolutePath(root, path));
  if (stat === undefined || stat.isDirectory()) return "";
  return `${stat.dev}:${stat.ino}:${stat.mode}:${stat.size}:${stat.mtimeNs}:${stat.ctimeNs}`;
}

function lstat(path: Buffer): BigIntStats | undefined {
  try {
    return lstatSync(path, { bigint: true, throwIfNoEntry: false });
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOTDIR") return undefined;
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
    if (!(error instanceof Error && "code" in error && error.code === "EXDEV")) throw error;
  }
  // Another file system is mounted inside the worktree: copy next to the place, then rename there.
  const beside = Buffer.concat([path, Buffer.from(`.holdfast-${randomBytes(6).toString("hex")}`)]);
  const stat = lstatSync(staged);
  if (stat.isSymbolicLink()) symlinkSync(readlinkSync(staged, { encoding: "buffer" }), beside);
  else {
    copyFileSync(staged, beside);
    chmodSync(beside, stat.mode & 0o777);
    syncPath(beside);
  }
  renameSync(beside, path);
  // The sync of the worktree's own file system does not reach this one.
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

/** Only folders that lost their last file here; a folder that holds anything at all stays. */
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
