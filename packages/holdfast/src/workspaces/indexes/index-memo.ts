import type { RawPath } from "../raw-path.ts";

/** What is kept beside the private index. */
export interface IndexMemo extends IndexDifference {
  /** Files that had changed only a moment before they were hashed, with their marks. Not a matter of the indexes, but of when. */
  readonly young: ReadonlyMap<RawPath, string>;
  /** Pipes, sockets and devices that were seen and are not ignored. */
  readonly special: ReadonlySet<RawPath>;
}

/**
 * How the user's index and our private index differ in their paths. A pure function of the two (`compareIndexes`), kept only
 * because computing it for a large worktree costs as much as looking at the worktree.
 */
export interface IndexDifference {
  /** In ours only: captured although git does not track them. */
  readonly untracked: ReadonlySet<RawPath>;
  /** Tracked, but ours does not have what it should: to be looked at each time. */
  readonly missing: ReadonlyMap<RawPath, MissingEntry>;
  readonly links: ReadonlyMap<RawPath, LinkEntry>;
  /** Does the user's index hold skip-worktree bits? */
  readonly sparse: boolean;
}

export interface MissingEntry {
  readonly mode: string;
  readonly id: string;
  /** skip-worktree: absence on disk is no deletion. */
  readonly skip: boolean;
  /** Ours has an entry of that name, but a wrong one. */
  readonly stored: boolean;
}

/** A submodule: the commit that the user's index records, and what ours holds for the path. */
export interface LinkEntry {
  readonly recorded: string;
  readonly stored: { readonly kind: "link"; readonly id: string } | { readonly kind: "file" } | null;
}

/** A line of `ls-files -s -v`. */
export interface IndexEntry {
  readonly path: RawPath;
  readonly mode: string;
  readonly id: string;
  readonly skip: boolean;
}

export const LINK_MODE = "160000";

/** Both lists in index order; a path with several merge stages counts once. */
export function compareIndexes(user: readonly IndexEntry[], ours: readonly IndexEntry[]): IndexDifference {
  const untracked = new Set<RawPath>();
  const missing = new Map<RawPath, MissingEntry>();
  const links = new Map<RawPath, LinkEntry>();
  let sparse = false;
  let at = 0;
  let last: RawPath | undefined;
  for (const entry of user) {
    sparse ||= entry.skip;
    if (entry.path === last) continue;
    last = entry.path;
    let own = ours[at];
    while (own !== undefined && own.path < entry.path) {
      untracked.add(own.path);
      own = ours[++at];
    }
    const same = own?.path === entry.path ? own : undefined;
    if (same !== undefined) at++;
    if (entry.mode === LINK_MODE) links.set(entry.path, { recorded: entry.id, stored: storedLink(same) });
    else if (same === undefined || isStale(entry, same)) {
      missing.set(entry.path, { mode: entry.mode, id: entry.id, skip: entry.skip, stored: same !== undefined });
    }
  }
  for (const own of ours.slice(at)) untracked.add(own.path);
  return { untracked, missing, links, sparse };
}

export function parseIndexEntry(record: string): IndexEntry {
  // "H 100644 <id> 0\t<path>"; S and s: skip-worktree.
  const tab = record.indexOf("\t");
  const space = record.indexOf(" ", 9);
  const tag = record[0];
  return {
    path: record.slice(tab + 1),
    mode: record.slice(2, 8),
    id: record.slice(9, space),
    skip: tag === "S" || tag === "s",
  };
}

function storedLink(own: IndexEntry | undefined): LinkEntry["stored"] {
  if (own === undefined) return null;
  return own.mode === LINK_MODE ? { kind: "link", id: own.id } : { kind: "file" };
}

/** Ours stands in for a file that was not on disk; that is right only while the user's index says the same. */
function isStale(user: IndexEntry, own: IndexEntry): boolean {
  return own.mode === LINK_MODE || (own.skip && !(user.skip && user.id === own.id && user.mode === own.mode));
}
