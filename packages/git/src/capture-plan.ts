// Decides how to update the private index so that it matches the files on disk.

import { accessSync, constants, lstatSync } from "node:fs";
import { join } from "node:path";
import type { Skipped } from "@holdfast/core/checkpoint";
import { errorCode } from "@holdfast/platform/error";
import { type RawPath, isSafePath, pathBytes, quotePath } from "./paths.ts";
import { type IndexCache, LINK_MODE, type LinkEntry, type MissingEntry } from "./private-index.ts";

/** Changes with every write to the file, within the resolution of the file system. */
interface Mark {
  readonly id: string;
  readonly changedMs: number;
}

/** The kind of file at a path. No link on the way to it is followed. */
export type PathState =
  | { readonly kind: "file"; readonly bytes: number; readonly mark: Mark }
  | { readonly kind: "symlink"; readonly mark: Mark }
  | { readonly kind: "directory" }
  | { readonly kind: "special" }
  | { readonly kind: "unreadable"; readonly bytes: number | null }
  | { readonly kind: "absent" };

interface CaptureFacts {
  readonly memo: IndexCache;
  /** True if the memo was computed in this capture. An untracked file may then have been tracked, and large, before. */
  readonly compared: boolean;
  /** Milliseconds since the epoch, read before any file is inspected. */
  readonly now: number;
  /** Entries of our index whose file no longer matches. */
  readonly changed: readonly RawPath[];
  /** Paths that git neither tracks nor ignores. A nested repository ends with a slash. */
  readonly others: readonly RawPath[];
  readonly maxUntrackedBytes: number;
}

/** The changes that make our index match the disk. */
export interface CapturePlan {
  /** Files to hash and record with their stat data. */
  readonly add: readonly RawPath[];
  readonly remove: readonly RawPath[];
  /** Entries without a file: submodules and files outside a sparse checkout. */
  readonly entries: readonly { readonly path: RawPath; readonly mode: string; readonly id: string }[];
  /** The paths in `entries` that get the skip-worktree bit. */
  readonly absent: readonly RawPath[];
  readonly skipped: readonly Skipped[];
  readonly nested: readonly { readonly path: RawPath; readonly head: string | null }[];
  readonly memo: IndexCache;
}

export function capturePaths(facts: CaptureFacts): readonly RawPath[] {
  const { memo } = facts;
  const others = facts.others.filter((path) => !path.endsWith("/") && (facts.compared || !memo.untracked.has(path)));
  const known = [...memo.missing.keys(), ...memo.links.keys(), ...memo.young.keys()];
  return [...new Set([...facts.changed, ...others, ...known])];
}

/** Information that is not in the lists of CaptureFacts. */
interface CaptureInspector {
  readonly found: (path: RawPath) => PathState;
  /** The commit checked out in a nested repository; null if there is none. */
  readonly head: (path: RawPath) => string | null;
  /** Pipes, sockets and devices. */
  readonly special: readonly RawPath[];
  /** The user's index entry of a path if it has the skip-worktree bit. */
  readonly sparse: (path: RawPath) => Pick<MissingEntry, "mode" | "id"> | undefined;
}

export function planCapture(facts: CaptureFacts, inspector: CaptureInspector): CapturePlan {
  const { memo } = facts;
  const untracked = new Set(facts.others.filter((path) => !path.endsWith("/")));
  const next = {
    missing: new Map<RawPath, MissingEntry>(),
    links: new Map<RawPath, LinkEntry>(),
    young: new Map<RawPath, string>(),
  };
  const changed = new Set(facts.changed);
  const add: RawPath[] = [];
  const entries: CapturePlan["entries"][number][] = [];
  const absent: RawPath[] = [];
  const skipped: Skipped[] = [];
  // Captured before as untracked and not listed now: removed, ignored by now, or inside a nested repository.
  const remove = [...memo.untracked].filter((path) => !untracked.has(path));
  const dropped = new Set(remove);

  for (const path of capturePaths(facts)) {
    if (dropped.has(path)) continue;
    const found = inspector.found(path);
    const link = memo.links.get(path);
    const fate =
      link === undefined
        ? fileFate(path, found)
        : linkFate({ link, found, changed: changed.has(path), head: inspector.head(path) });
    if (link !== undefined) next.links.set(path, { ...link, stored: storedAfter(fate, link) });
    switch (fate.kind) {
      case "same":
        break;
      case "add":
        if (fate.forgetFirst) remove.push(path);
        add.push(path);
        break;
      case "entry":
        entries.push({ path, mode: fate.mode, id: fate.id });
        if (fate.absent) absent.push(path);
        break;
      case "leave":
        if (fate.stored) remove.push(path);
        if (fate.problem !== undefined) skipped.push(fate.problem);
        if (!untracked.delete(path) && link === undefined) next.missing.set(path, memo.missing.get(path) ?? ABSENT);
        break;
    }
  }
  const named = new Set(skipped.map(({ path }) => path));
  const special = inspector.special.map(
    (path) => ({ path: quotePath(path), reason: "special_file", bytes: null }) as const,
  );
  return {
    add,
    remove,
    entries,
    absent,
    skipped: [...skipped, ...special.filter(({ path }) => !named.has(path))],
    nested: nestedOf(facts, inspector),
    memo: { ...next, untracked, special: new Set(inspector.special), sparse: memo.sparse },
  };

  function fileFate(path: RawPath, found: PathState): Fate {
    const due = memo.missing.get(path);
    const isUntracked = untracked.has(path);
    const stored = due === undefined ? !isUntracked || memo.untracked.has(path) : due.stored;
    const problem = problemOf(path, found, isUntracked ? facts.maxUntrackedBytes : Number.POSITIVE_INFINITY);
    if (problem === undefined && (found.kind === "file" || found.kind === "symlink")) {
      const known = memo.young.get(path);
      const edited = known !== undefined && known !== found.mark.id;
      const isNew = !stored || due !== undefined || changed.has(path) || edited;
      if ((isNew || known !== undefined) && found.mark.changedMs > facts.now - YOUNG_MS)
        next.young.set(path, found.mark.id);
      // Git compares times by the second and cannot detect a later edit of a file that was this young. Our exact mark
      // can. Git then re-reads the file only if its entry is removed first.
      return isNew ? { kind: "add", forgetFirst: edited && stored && !changed.has(path) } : { kind: "same" };
    }
    const sparse = found.kind === "absent" && !isUntracked ? inspector.sparse(path) : undefined;
    if (sparse !== undefined) return { kind: "entry", mode: sparse.mode, id: sparse.id, absent: true };
    return { kind: "leave", stored, problem };
  }
}

/** What happens to one path in our index. */
type Fate =
  | { readonly kind: "same" }
  | { readonly kind: "add"; readonly forgetFirst: boolean }
  | { readonly kind: "entry"; readonly mode: string; readonly id: string; readonly absent: boolean }
  | { readonly kind: "leave"; readonly stored: boolean; readonly problem: Skipped | undefined };

const YOUNG_MS = 2000;

// A tracked file that is not on disk. Only its name matters until it is back or the user's index changes.
const ABSENT: MissingEntry = { mode: "100644", id: "", skip: false, stored: false };

/** A submodule is a directory with a commit. A file at its path is captured as a file. */
function linkFate(at: { link: LinkEntry; found: PathState; changed: boolean; head: string | null }): Fate {
  const { stored } = at.link;
  switch (at.found.kind) {
    case "directory": {
      const id = at.head ?? at.link.recorded;
      return stored?.kind === "link" && stored.id === id
        ? { kind: "same" }
        : { kind: "entry", mode: LINK_MODE, id, absent: false };
    }
    case "file":
    case "symlink":
      return stored?.kind === "file" && !at.changed ? { kind: "same" } : { kind: "add", forgetFirst: false };
    case "special":
    case "unreadable":
    case "absent":
      return { kind: "leave", stored: stored !== null, problem: undefined };
  }
}

function storedAfter(fate: Fate, link: LinkEntry): LinkEntry["stored"] {
  switch (fate.kind) {
    case "same":
      return link.stored;
    case "add":
      return { kind: "file" };
    case "entry":
      return { kind: "link", id: fate.id };
    case "leave":
      return null;
  }
}

function nestedOf(facts: CaptureFacts, inspector: CaptureInspector): CapturePlan["nested"] {
  const submodules = [...facts.memo.links.keys()].filter((path) => inspector.found(path).kind === "directory");
  const others = facts.others.filter((path) => path.endsWith("/")).map((path) => path.slice(0, -1));
  return [...submodules, ...others].map((path) => ({ path, head: inspector.head(path) }));
}

function problemOf(path: RawPath, found: PathState, limit: number): Skipped | undefined {
  const name = quotePath(path);
  switch (found.kind) {
    case "file":
    case "symlink": {
      // Git cannot store a name that some file system reads as ".git", in any case or spelling.
      if (!isSafePath(path)) return { path: name, reason: "special_file", bytes: null };
      const bytes = found.kind === "file" ? found.bytes : 0;
      return bytes > limit ? { path: name, reason: "too_large", bytes } : undefined;
    }
    case "special":
      return { path: name, reason: "special_file", bytes: null };
    case "unreadable":
      return { path: name, reason: "unreadable", bytes: found.bytes };
    case "directory":
    case "absent":
      return undefined;
  }
}

/**
 * Inspects paths below a root without following links. A path beyond a symbolic link counts as absent, because it is
 * not in this worktree. Synchronous, because an inspection takes microseconds and the thread pool ten times as long.
 */
export function createPathInspector(root: string): (path: RawPath) => PathState {
  const folders = new Map<RawPath, "directory" | "absent" | "unreadable">();
  const rootBytes = Buffer.from(root.endsWith("/") ? root : `${root}/`);

  const folder = (path: RawPath): "directory" | "absent" | "unreadable" => {
    if (path === "") return "directory";
    const known = folders.get(path);
    if (known !== undefined) return known;
    const parent = folder(parentOf(path));
    const found = parent === "directory" ? inspectPath(absolute(path)) : undefined;
    const state = found === undefined ? parent : found.kind === "directory" ? "directory" : missingAs(found);
    folders.set(path, state);
    return state;
  };
  const absolute = (path: RawPath): Buffer => Buffer.concat([rootBytes, pathBytes(path)]);

  return (path) => {
    const parent = folder(parentOf(path));
    if (parent === "absent") return { kind: "absent" };
    if (parent === "unreadable") return { kind: "unreadable", bytes: null };
    return inspectPath(absolute(path));
  };
}

export function absolutePath(root: string, path: RawPath): Buffer {
  return Buffer.concat([Buffer.from(join(root, "/")), pathBytes(path)]);
}

export function parentOf(path: RawPath): RawPath {
  return path.slice(0, Math.max(0, path.lastIndexOf("/")));
}

function missingAs(found: PathState): "absent" | "unreadable" {
  return found.kind === "unreadable" ? "unreadable" : "absent";
}

function inspectPath(path: Buffer): PathState {
  try {
    const stat = lstatSync(path);
    if (stat.isDirectory()) return { kind: "directory" };
    const mark = { id: `${stat.ino}:${stat.size}:${stat.mtimeMs}:${stat.ctimeMs}`, changedMs: stat.ctimeMs };
    if (stat.isSymbolicLink()) return { kind: "symlink", mark };
    if (!stat.isFile()) return { kind: "special" };
    try {
      accessSync(path, constants.R_OK);
    } catch {
      return { kind: "unreadable", bytes: stat.size };
    }
    return { kind: "file", bytes: stat.size, mark };
  } catch (error) {
    const code = errorCode(error);
    return code === "ENOENT" || code === "ENOTDIR" ? { kind: "absent" } : { kind: "unreadable", bytes: null };
  }
}
