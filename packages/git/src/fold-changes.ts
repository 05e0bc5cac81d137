// Joins the changes of a restore that concern one file, on a file system that takes different names for one.

import type { GitPath } from "@holdfast/core/checkpoint";
import { HoldfastError } from "@holdfast/platform/error";
import { parentOf } from "./capture-plan.ts";
import { type Respelling, foldName } from "./folded-names.ts";
import { type RawPath, quotePath } from "./paths.ts";
import { type NamedEntry, type TreeChange, isSameEntry } from "./tree-diff.ts";

export interface FoldedChanges {
  /** At most one change for each file on disk. */
  readonly changes: readonly TreeChange[];
  readonly respellings: readonly Respelling[];
}

/**
 * Joins the changes that concern one file on disk. A removal whose file the target has under another spelling is a
 * respelling: removing it would destroy the file of the target. Throws RESTORE_REFUSED if the target has two files
 * with different content that would be one file on disk.
 */
export function foldChanges(
  changes: readonly TreeChange[],
  target: readonly NamedEntry[],
  keyOf: (path: RawPath) => string,
): FoldedChanges {
  const names = indexTarget(target);
  refuseCollisions(changes, names, keyOf);
  const groups = Map.groupBy(changes, ({ path }) => keyOf(path));
  const joined: TreeChange[] = [];
  const respellings: Respelling[] = [];
  for (const group of groups.values()) {
    const removed = group.filter(({ to }) => to === null);
    // All have the same content, or the restore was refused.
    const wanted = group.find(({ to, from }) => to !== null && from !== null) ?? group.find(({ to }) => to !== null);
    const [first] = removed;
    if (first === undefined) {
      if (wanted !== undefined) joined.push(wanted);
      continue;
    }
    const path = wanted?.path ?? aliasesOf(first.path, names, keyOf)[0]?.path;
    if (path === undefined) {
      joined.push(first);
      continue;
    }
    respellings.push(...removed.map((change) => ({ from: change.path, to: path })));
    const from = wanted?.from ?? first.from;
    if (wanted !== undefined && !isSameEntry(from, wanted.to)) joined.push({ ...wanted, from });
  }
  return { changes: joined, respellings };
}

interface TargetNames {
  readonly files: ReadonlyMap<string, readonly NamedEntry[]>;
  /** The folds of all directories, with one of their files. */
  readonly folders: ReadonlyMap<string, NamedEntry>;
}

function indexTarget(target: readonly NamedEntry[]): TargetNames {
  const folders = new Map<string, NamedEntry>();
  const known = new Set<RawPath>();
  for (const entry of target) {
    for (let at = parentOf(entry.path); at !== "" && !known.has(at); at = parentOf(at)) {
      known.add(at);
      folders.set(foldName(at), entry);
    }
  }
  return { files: Map.groupBy(target, ({ path }) => foldName(path)), folders };
}

function aliasesOf(path: RawPath, names: TargetNames, keyOf: (path: RawPath) => string): readonly NamedEntry[] {
  const others = (names.files.get(foldName(path)) ?? []).filter((entry) => entry.path !== path);
  if (others.length === 0) return others;
  const key = keyOf(path);
  return others.filter((entry) => keyOf(entry.path) === key);
}

function refuseCollisions(changes: readonly TreeChange[], names: TargetNames, keyOf: (path: RawPath) => string): void {
  for (const { path, to } of changes) {
    if (to === null) continue;
    const alias = aliasesOf(path, names, keyOf).find((entry) => !isSameEntry(entry, to));
    const inFolder = names.folders.get(foldName(path));
    const other = alias ?? inFolder ?? fileAbove(path, names);
    if (other !== undefined) throw collision(path, other.path);
  }
}

/** A file of the target whose name is that of a directory of this path. */
function fileAbove(path: RawPath, names: TargetNames): NamedEntry | undefined {
  for (let at = parentOf(path); at !== ""; at = parentOf(at)) {
    const file = names.files.get(foldName(at))?.[0];
    if (file !== undefined) return file;
  }
  return undefined;
}

function collision(one: RawPath, other: RawPath): HoldfastError {
  const names: readonly GitPath[] = [one, other].sort().map(quotePath);
  return new HoldfastError({
    code: "RESTORE_REFUSED",
    message: `${names.join(" and ")} are one name on this file system, and the snapshot has different files there`,
    hint: "Restore it on a file system that distinguishes them, or restore other paths only; nothing was changed.",
    data: { names },
  });
}

/** Reports directories that the tree spells in several ways. One directory on disk cannot have them all. */
export function findAmbiguousFolders(entries: readonly NamedEntry[]): (folder: RawPath) => boolean {
  const spellings = new Map<string, Set<RawPath>>();
  const known = new Set<RawPath>();
  for (const { path } of entries) {
    for (let at = parentOf(path); at !== "" && !known.has(at); at = parentOf(at)) {
      known.add(at);
      const fold = foldName(at);
      spellings.set(fold, (spellings.get(fold) ?? new Set()).add(at));
    }
  }
  return (folder) => (spellings.get(foldName(folder))?.size ?? 0) > 1;
}
