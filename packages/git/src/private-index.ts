// The private index of a worktree and the cached state beside it, which make a snapshot as cheap as `git status`.

import { hash, randomBytes } from "node:crypto";
import { copyFile, link, mkdir, readFile, readdir, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { uptime } from "node:os";
import { join } from "node:path";
import {
  type Shape,
  type TypeOf,
  anyOf,
  count,
  dictionary,
  flag,
  list,
  nullable,
  object,
  parseJsonAs,
  text,
  variants,
} from "@holdfast/core/json";
import { errorCode } from "@holdfast/platform/error";
import type { Git } from "@holdfast/platform/git-command";
import { type ProcessIdentity, isAlive, ownBootId } from "@holdfast/platform/identity";
import { fileKey } from "./facts.ts";
import { type RawPath, splitRecords } from "./paths.ts";

/**
 * Opens the private index of a worktree, a stat cache that makes a snapshot as cheap as `git status`. It survives
 * between snapshots but is only a cache. Each operation works on its own copy and renames the result into place. A kill
 * or a concurrent process costs at most a slower next snapshot.
 */
export async function openPrivateIndex(params: { readonly home: string; readonly key: string }): Promise<PrivateIndex> {
  const { home, key } = params;
  const kept = join(home, `index-${key}`);
  const scratch = await openScratch(home);
  const { folder } = scratch;
  const path = join(folder, "index");
  try {
    const source = await readFile(`${kept}.json`, "utf8").catch(() => "");
    const boot = readBootId();
    const remembered = parseIndexState(source);
    const usable =
      remembered?.boot === boot && (await takeCopy(kept, path)) && (await fileKey(path)) === remembered.index;
    const state = usable ? remembered : undefined;
    if (state === undefined) await rm(path, { force: true });
    return {
      ...scratch,
      path,
      state,
      async keep(next) {
        const index = await fileKey(path);
        if (index === null) return;
        const draft = join(folder, "state");
        await writeFile(draft, formatIndexState({ ...next, index, boot }), { mode: 0o600 });
        await rename(path, kept);
        await rename(draft, `${kept}.json`);
      },
    };
  } catch (error) {
    await scratch[Symbol.asyncDispose]();
    throw error;
  }
}

/** A directory for one operation. Its end or a later sweep removes it with its content. */
export async function openScratch(home: string): Promise<Scratch> {
  const folder = join(home, `op-${process.pid}-${randomBytes(6).toString("hex")}`);
  await mkdir(folder, { mode: 0o700 });
  return { folder, [Symbol.asyncDispose]: () => removeQuietly(folder) };
}

interface Scratch extends AsyncDisposable {
  readonly folder: string;
}

export interface PrivateIndex extends Scratch {
  /** The index file to pass to git. It does not exist if there is no previous index. */
  readonly path: string;
  readonly state: IndexState | undefined;
  keep(next: Omit<IndexState, "index" | "boot">): Promise<void>;
}

/** Called when objects that the indexes name turn out to be gone. */
export async function deletePrivateIndexes(home: string): Promise<void> {
  const names = (await readdir(home)).filter((name) => name.startsWith("index-"));
  await Promise.all(names.map((name) => rm(join(home, name), { force: true })));
}

/**
 * Removes what killed processes and failed cleanups left: operation directories, incomplete git directories, temporary
 * files and drafts of shared indexes. A failed removal is ignored.
 */
export async function removeStaleOperations(home: string): Promise<void> {
  const [own, drafts] = await Promise.all([home, join(home, "git")].map((folder) => readdir(folder).catch(() => [])));
  const names = [...(own ?? []), ...(drafts ?? []).map((name) => join("git", name))];
  for (const name of names) {
    const pid = /^op-(\d+)-/.exec(name)?.[1];
    const isLeft = pid === undefined ? /^(?:git-|\.tmp-|git\/sharedindex_)/.test(name) : !isAlive(Number(pid));
    if (!isLeft) continue;
    const path = join(home, name);
    const made = await stat(path).catch(() => undefined);
    // A process of another container may look dead from here, so only old files are removed.
    if (made !== undefined && Date.now() - made.mtimeMs > ABANDONED_MS) await removeQuietly(path);
  }
}

/** The process that wrote a lock or a note. */
export const PROCESS: Shape<ProcessIdentity> = object<ProcessIdentity>({
  host: text,
  pid: count,
  started: nullable(text),
  boot: nullable(text),
});

const ABANDONED_MS = 10 * 60_000;

/**
 * Git judges "racily clean" files by the time of the index file, so a copy must never look newer than the original. A
 * hard link has the exact time and costs nothing. Git replaces an index and never writes into one.
 */
async function takeCopy(kept: string, path: string): Promise<boolean> {
  try {
    await link(kept, path);
    return true;
  } catch (error) {
    if (errorCode(error) === "ENOENT") return false;
  }
  const { mtimeMs } = await stat(kept);
  await copyFile(kept, path);
  const second = Math.floor(mtimeMs / 1000);
  await utimes(path, second, second);
  return true;
}

/**
 * Our indexes are not synced and may contain anything after a power cut. They are therefore valid only until the next
 * boot.
 */
export function readBootId(): string {
  return ownBootId() ?? String(Math.round(Date.now() / 60_000 - uptime() / 60));
}

export async function removeQuietly(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true }).catch(() => undefined);
}

/** State of a private index. Valid only while both index files are unchanged since it was computed. */
export interface IndexState {
  /** Identifies our index file. `boot` is the boot in which it was written. */
  readonly index: string;
  readonly boot: string;
  readonly userIndex: UserIndex;
  /** The tree that our index writes. */
  readonly tree: string;
  readonly memo: IndexCache;
}

export function formatIndexState({ index, boot, userIndex, tree, memo }: IndexState): string {
  const stored: TypeOf<typeof STORED> = {
    format: "2",
    index,
    boot,
    userIndex: { key: userIndex.key, paths: userIndex.paths, content: userIndex.content },
    tree,
    sparse: memo.sparse,
    untracked: [...memo.untracked],
    special: [...memo.special],
    young: Object.fromEntries(memo.young),
    missing: Object.fromEntries(memo.missing),
    links: Object.fromEntries(memo.links),
  };
  return JSON.stringify(stored);
}

/** undefined for anything that `formatIndexState` does not write; the index is then rebuilt. */
export function parseIndexState(source: string): IndexState | undefined {
  const stored = parseJsonAs(STORED, source);
  if (stored === undefined) return undefined;
  const { index, boot, userIndex, tree, sparse } = stored;
  const memo: IndexCache = {
    untracked: new Set(stored.untracked),
    missing: new Map(Object.entries(stored.missing)),
    links: new Map(Object.entries(stored.links)),
    young: new Map(Object.entries(stored.young)),
    special: new Set(stored.special),
    sparse,
  };
  return { index, boot, userIndex, tree, memo };
}

/** The content of the user's index, reduced to digests that are cheap to compare. */
const USER_INDEX = object({
  /** Identifies the file; null if there is none. A refresh of its stat data creates another file with the same content. */
  key: nullable(text),
  /** Digest of paths, modes and flags, and of the ids of entries without a file on disk (submodules, sparse entries). */
  paths: text,
  /** Digest of the whole content, that is of everything staged. */
  content: text,
});
export type UserIndex = TypeOf<typeof USER_INDEX>;

const MISSING_ENTRY = object({
  mode: text,
  id: text,
  /** The skip-worktree bit: absence on disk is not a deletion. */
  skip: flag,
  /** True if ours has an entry of that name with wrong content. */
  stored: flag,
});
export type MissingEntry = TypeOf<typeof MISSING_ENTRY>;

/** A submodule: the commit in the user's index, and our entry for the path. */
const LINK_ENTRY = object({
  recorded: text,
  stored: nullable(variants("kind", { link: object({ id: text }), file: object({}) })),
});
export type LinkEntry = TypeOf<typeof LINK_ENTRY>;

const STORED = object({
  format: anyOf(["2"]),
  index: text,
  boot: text,
  userIndex: USER_INDEX,
  tree: text,
  sparse: flag,
  untracked: list(text),
  special: list(text),
  young: dictionary(text),
  missing: dictionary(MISSING_ENTRY),
  links: dictionary(LINK_ENTRY),
});

/** The cached data next to the private index. */
export interface IndexCache extends IndexDifference {
  /**
   * Files that changed shortly before they were hashed, with their marks. They depend on the time, not on the indexes.
   */
  readonly young: ReadonlyMap<RawPath, string>;
  /** Known pipes, sockets and devices that are not ignored. */
  readonly special: ReadonlySet<RawPath>;
}

/**
 * How the paths of the user's index and of our private index differ. It is a pure function of the two
 * (`compareIndexes`). It is cached because computing it for a large worktree costs as much as inspecting the worktree.
 */
export interface IndexDifference {
  /** Only in ours: captured although git does not track them. */
  readonly untracked: ReadonlySet<RawPath>;
  /** Tracked paths for which our entry is absent or wrong. They are inspected in every capture. */
  readonly missing: ReadonlyMap<RawPath, MissingEntry>;
  readonly links: ReadonlyMap<RawPath, LinkEntry>;
  /** True if the user's index contains skip-worktree bits. */
  readonly sparse: boolean;
}

/** A line of `ls-files -s -v`. */
export interface IndexEntry {
  readonly path: RawPath;
  readonly mode: string;
  readonly id: string;
  readonly skip: boolean;
}

export const LINK_MODE = "160000";
export const SYMLINK_MODE = "120000";

/** True for the mode of an ordinary file. */
export function isRegular(mode: string): boolean {
  return mode === "100644" || mode === "100755";
}

/**
 * Both lists are in index order. A path with several merge stages counts once. Without `fileModes`, our entry of a file
 * must have the mode of the user's.
 */
export function compareIndexes(
  user: readonly IndexEntry[],
  ours: readonly IndexEntry[],
  { fileModes }: { readonly fileModes: boolean },
): IndexDifference {
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
    else if (same === undefined || isStale(entry, same) || (!fileModes && hasOtherMode(entry, same))) {
      missing.set(entry.path, { mode: entry.mode, id: entry.id, skip: entry.skip, stored: same !== undefined });
    }
  }
  for (const own of ours.slice(at)) untracked.add(own.path);
  return { untracked, missing, links, sparse };
}

export function parseIndexEntry(record: string): IndexEntry {
  // Format: "H 100644 <id> 0\t<path>". The tags S and s mean skip-worktree.
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

/** Our entry represents a file that was not on disk. It is valid only while the user's index has the same entry. */
function isStale(user: IndexEntry, own: IndexEntry): boolean {
  return own.mode === LINK_MODE || (own.skip && !(user.skip && user.id === own.id && user.mode === own.mode));
}

function hasOtherMode(user: IndexEntry, own: IndexEntry): boolean {
  return user.mode !== own.mode && isRegular(user.mode) && isRegular(own.mode);
}

export interface ReadUserIndex extends UserIndex {
  entries(): Promise<readonly IndexEntry[]>;
  /** Paths that the index lacks, limited by `rules`. A nested repository ends with a slash. */
  readonly others: readonly RawPath[];
}

/** Lists the untracked paths, and the index only if its file changed since `before`. `rules` are options of `ls-files`. */
export async function readUserIndex(
  git: Git,
  params: { readonly gitDir: string; readonly before: UserIndex | undefined; readonly rules: readonly string[] },
): Promise<ReadUserIndex> {
  const { gitDir, before, rules } = params;
  const list = (...args: readonly string[]): Promise<Buffer> => git.output({ args: ["ls-files", ...args, "-z"] });
  const key = await fileKey(join(gitDir, "index"));
  if (before !== undefined && before.key === key) {
    const others = splitRecords(await list("--others", ...rules));
    return { ...before, others, entries: async () => splitRecords(await list("-s", "-v")).map(parseIndexEntry) };
  }
  const whole = await list("-s", "-v", "--others", ...rules);
  // Untracked paths come first, each after "? ". No entry of the index has this letter.
  let start = 0;
  while (whole[start] === 0x3f) start = whole.indexOf(0, start) + 1;
  const listing = whole.subarray(start);
  return {
    key,
    content: hash("sha1", listing),
    paths: hash("sha1", withoutFileIds(listing)),
    others: splitRecords(whole.subarray(0, start)).map((record) => record.slice(2)),
    entries: async () => splitRecords(listing).map(parseIndexEntry),
  };
}

/**
 * The same listing with the ids of ordinary files blanked. It edits bytes in place, because strings of this size would
 * cost too much.
 */
function withoutFileIds(listing: Buffer): Buffer {
  const copy = Buffer.from(listing);
  const idLength = copy.indexOf(0x20, 9) - 9;
  for (let start = 0; start < copy.length;) {
    const end = copy.indexOf(0, start);
    const isSparse = copy[start] === 0x53 || copy[start] === 0x73;
    const isLink = copy[start + 2] === 0x31 && copy[start + 3] === 0x36;
    // Format: "H 100644 <id> 0\t<path>".
    if (!isSparse && !isLink) copy.fill(0x2e, start + 9, start + 9 + idLength);
    start = end + 1;
  }
  return copy;
}
