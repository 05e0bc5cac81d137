import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { lstat, mkdir, readFile, readdir, rename, rm, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Shape, count, list, nullable, object, oneOf, optional, tagged, text } from "@holdfast/core/json";
import { HoldfastError } from "@holdfast/platform/error";
import { readRegularFile, writeDurable } from "@holdfast/platform/files";
import { type ProcessIdentity, livenessOf, processIdentity, randomId } from "@holdfast/platform/identity";
import { MARK_VARIABLE, terminateTree } from "@holdfast/platform/process-tree";
import { syncRepository } from "./objects.ts";
import { fileKey } from "./private-index.ts";
import { isLockedByHoldfast } from "./replace-index.ts";
import type { Repository } from "./repository.ts";
import { type WorktreeEntry, parseSideWorktreeOwner, readEntries } from "./worktree-entry.ts";

/*
 * Killed, git leaves locks that it never takes away itself and worktree entries that it cannot read any more: they stop our next
 * command, and some of them the user's own git. This is the one place that knows them and clears them. What is ours is told by
 * the note that was written before git started, by a name that only we use, or by the marks in a worktree that was never handed out.
 * A worktree entry is moved into our own folder, never deleted.
 */

/** `act` with a git of ours that can be killed at any time: first what an earlier one left is cleared, then nobody else is at it. */
export async function withStaleFileCleanup<T>(
  repository: Repository,
  work: GitOperation,
  act: (env: Readonly<Record<string, string>>) => Promise<T>,
): Promise<T> {
  const { own, left } = await beginGitOperation(repository.home, work);
  const cleared: WorkNote[] = [];
  // A note must not be gone from the disk while the lock that it tells of comes back with a power cut.
  const forget = async (notes: readonly WorkNote[]): Promise<void> => {
    await syncRepository(repository);
    for (const note of notes) await endGitOperation(note);
  };
  try {
    for (const note of left) {
      await terminateTree({ mark: note.mark, graceMs: 0 });
      if (await clearNoted(repository, note)) cleared.push(note);
    }
    const done = await act({ [MARK_VARIABLE]: own.mark });
    await forget([...cleared, own]);
    return done;
  } catch (error) {
    // A git that fails takes its locks away itself; one that was killed where we were not is as dead as any other.
    const isClear = !wasKilled(error) || (await clearNoted(repository, own).catch(() => false));
    if (isClear) await forget([...cleared, own]).catch(() => abandonGitOperation(own));
    else abandonGitOperation(own);
    throw error;
  }
}

/** What the dead have left, of whatever run. What cannot be cleared now is not worth an error: whoever needs the place will tell. */
export async function removeStaleFiles(repository: Repository): Promise<void> {
  const notes = await readGitOperations(repository.home);
  for (const { work, abandoned } of notes) {
    if (abandoned) await withStaleFileCleanup(repository, work, async () => undefined).catch(() => undefined);
  }
}

/**
 * Frees the place of a worktree: of entries that stand for it and were never finished, of the link to one that is gone, and of the
 * lock on its branch. An entry without an owner was registered by us when its HEAD is one of those with which we begin and nobody
 * has put anything into its folder. Call under a note.
 */
export async function clearWorktreePath(
  repository: Repository,
  place: MadePlace,
  params: { readonly starts: readonly string[]; readonly wasAtIt: boolean },
): Promise<void> {
  const look = async (): Promise<AsidePlan> =>
    planQuarantine({
      path: place.path,
      entries: await readEntries(repository),
      untouched: await isUntouched(place.path),
      starts: params.starts,
    });
  let { aside, standing } = await look();
  // Somebody else's git may be making it at this moment. No note of the dead speaks against that, or no folder in it for it.
  if (aside.some((entry) => isHalfMade(entry) && (!params.wasAtIt || entry.folder === null))) {
    await sleep(LOCK_MS);
    ({ aside, standing } = await look());
  }
  for (const entry of aside) await setAside(repository, entry);
  if (standing === undefined) await clearLink(repository, place.path);
  const isHalf = standing?.run === place.run && standing.making;
  if (standing === undefined || isHalf) await clearBranchLock(repository, place, params.wasAtIt || isHalf);
}

interface MadePlace {
  readonly run: string;
  readonly path: string;
  readonly branch: string;
}

/** Of a worktree that was never handed out: nobody but a git of ours, killed since, can have locked it. Call under a note. */
export async function removeEntryLocks(gitDir: string): Promise<void> {
  for (const name of await readdir(gitDir)) if (name.endsWith(".lock")) await rm(join(gitDir, name), { force: true });
}

/**
 * The locks of a run of which no process is alive: in the worktrees made for it, and on its branch. A branch that another worktree
 * has checked out may be locked by the user's git, and so may every branch of a run that has no worktree of its own.
 */
export async function removeRunLocks(
  repository: Repository,
  { run, branch }: { readonly run: string; readonly branch: string | null },
): Promise<readonly string[]> {
  const entries = await readEntries(repository);
  const own = entries.filter((entry) => entry.run === run || parseSideWorktreeOwner(entry.run)?.run === run);
  const locks = (await Promise.all(own.map(({ gitDir }) => findLocks(gitDir)))).flat();
  const mainHead = await readFile(join(repository.commonDir, "HEAD"), "utf8").catch(() => "");
  const heads = [mainHead, ...entries.filter((entry) => !own.includes(entry)).map(({ head }) => head)];
  for (const name of new Set([branch, `refs/heads/holdfast/${run}`])) {
    if (name === null || heads.includes(`ref: ${name}\n`)) continue;
    const isOwn = own.some((entry) => entry.run === run) || name === `refs/heads/holdfast/${run}`;
    const lock = join(repository.commonDir, `${name}.lock`);
    if (isOwn && lock.startsWith(join(repository.commonDir, "refs/heads/")) && existsSync(lock)) locks.push(lock);
  }
  const removed: string[] = [];
  for (const lock of locks) {
    if (await isLockedByHoldfast(lock)) continue;
    await rm(lock, { force: true });
    removed.push(lock);
  }
  return removed;
}

/** Submodules of the worktree keep their git directories in it, each with an object database that holds no locks of git commands. */
async function findLocks(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const found = entries.map(async (entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return entry.name === "objects" ? [] : await findLocks(path);
    return entry.isFile() && entry.name.endsWith(".lock") ? [path] : [];
  });
  return (await Promise.all(found)).flat();
}

/** A lock in our own namespace that no note tells of: litter once it is old. */
export async function removeStaleLock(path: string): Promise<void> {
  const since = await changedAt(path);
  if (since !== undefined && Date.now() - since > STALE_MS) await rm(path, { force: true });
}

/**
 * Entries that nobody noted and that git stumbles over when it lists all of them. While git marks one as initializing it holds
 * nobody's work; after an hour nobody is at it any more.
 */
export async function removeHalfMadeEntries(repository: Repository): Promise<void> {
  for (const entry of await readEntries(repository)) {
    if (!entry.initializing || entry.whole || entry.used || entry.run !== null) continue;
    const since = await changedAt(join(entry.gitDir, "locked"));
    if (since !== undefined && Date.now() - since > STALE_MS) await setAside(repository, entry);
  }
}

const STALE_MS = 3_600_000;
/** The longest that a user's git should be at one worktree entry or one ref, or at all packed ones. */
const LOCK_MS = 1000;
const PACKED_MS = 60_000;
/** Two times of one file system, written and told by the kernel, are that exact at worst. */
const CLOCK_MS = 2000;
const LINK_BYTES = 64 * 1024;

interface AsidePlan {
  /** They stand for the path and were never finished. */
  readonly aside: readonly WorktreeEntry[];
  /** What stands for the path and stays. */
  readonly standing: WorktreeEntry | undefined;
}

export function planQuarantine(params: {
  readonly path: string;
  readonly entries: readonly WorktreeEntry[];
  /** There is nothing in the folder but its link to git. */
  readonly untouched: boolean;
  readonly starts: readonly string[];
}): AsidePlan {
  const { path, entries, untouched, starts } = params;
  const aside = entries.filter((entry) => {
    if (!standsFor(entry, path) || (entry.run !== null && !entry.making)) return false;
    return isHalfMade(entry) || (entry.run === null && untouched && starts.includes(entry.head));
  });
  return { aside, standing: entries.find((entry) => entry.folder === path && !aside.includes(entry)) };
}

/** What is not ours and was used may hold somebody's work, however damaged it is. */
function isHalfMade(entry: WorktreeEntry): boolean {
  return (!entry.whole || entry.initializing) && (entry.making || !entry.used);
}

/** git names an entry after its folder, with a number where the name was taken. */
function standsFor(entry: WorktreeEntry, path: string): boolean {
  if (entry.folder !== null) return entry.folder === path;
  const text = entry.link.replaceAll("\0", "");
  if (text !== "") return join(path, ".git").startsWith(text);
  return entry.name.startsWith(basename(path)) && /^\d*$/.test(entry.name.slice(basename(path).length));
}

/** False: what is left may be somebody else's, so it is looked at again later. */
async function clearNoted(repository: Repository, note: WorkNote): Promise<boolean> {
  switch (note.work.kind) {
    case "making": {
      const { branch, detached } = note.work;
      const start = detached === undefined ? branchHead(branch) : `${detached}\n`;
      await clearWorktreePath(repository, note.work, { starts: [start], wasAtIt: true });
      return true;
    }
    case "unpinning":
      return clearUnpinning(repository, note.work.refs, note.writtenAt);
  }
}

/** The HEAD of a worktree on this branch. */
export function branchHead(branch: string): string {
  return `ref: refs/heads/${branch}\n`;
}

function wasKilled(error: unknown): boolean {
  return error instanceof HoldfastError && error.data["ended"] !== undefined && error.data["ended"] !== "exited";
}

async function isUntouched(path: string): Promise<boolean> {
  const names = await readdir(path).catch(() => []);
  return names.every((name) => name === ".git");
}

async function setAside(repository: Repository, entry: WorktreeEntry): Promise<void> {
  const damaged = join(repository.home, "damaged");
  await mkdir(damaged, { recursive: true, mode: 0o700 });
  // A name of its own each time: a rename onto an earlier one would delete that.
  await rename(entry.gitDir, join(damaged, `worktree-${entry.name}-${randomBytes(4).toString("hex")}`));
}

/** The `.git` of a folder with nothing else in it, torn or leading to an entry of ours that is gone: the place would look taken. */
async function clearLink(repository: Repository, path: string): Promise<void> {
  const link = join(path, ".git");
  const found = await lstat(link).catch(() => undefined);
  if (found?.isFile() !== true || found.size > LINK_BYTES || !(await isUntouched(path))) return;
  const text = (await readFile(link, "utf8")).replaceAll("\0", "").replace(/\n$/, "");
  const start = `gitdir: ${join(repository.commonDir, "worktrees")}/`;
  if (start.startsWith(text) || text.startsWith(start)) await rm(link, { force: true });
}

/** Branches under holdfast/ are made for runs alone. Of another, the user's own git may hold the lock, but not for long. */
async function clearBranchLock(repository: Repository, place: MadePlace, wasAtIt: boolean): Promise<void> {
  const heads = join(repository.commonDir, "refs/heads");
  const lock = join(heads, `${place.branch}.lock`);
  // A planted note could name any place.
  if (!lock.startsWith(`${heads}/`)) return;
  if (place.branch !== `holdfast/${place.run}`) {
    if (!wasAtIt) return removeStaleLock(lock);
    const before = await fileKey(lock);
    if (before === null) return;
    await sleep(LOCK_MS);
    if ((await fileKey(lock)) !== before) return;
  }
  await rm(lock, { force: true });
}

/**
 * git deletes a packed ref under the lock on packed-refs, and killed there it leaves that to the user, whose git then can delete
 * no branch and fetch nothing. It is ours when it came after our note, and either our refs are locked too (git locks them first,
 * so they are the last to be cleared) or packed-refs was replaced under it (then whoever held it had only to let go).
 */
async function clearUnpinning(repository: Repository, refs: readonly string[], since: number): Promise<boolean> {
  const locks = refs.filter((ref) => PIN.test(ref)).map((ref) => join(repository.commonDir, `${ref}.lock`));
  const packed = join(repository.commonDir, "packed-refs");
  const [lock = 0, draft = 0, replaced = 0] = await Promise.all(
    [`${packed}.lock`, `${packed}.new`, packed].map(changedAt),
  );
  // After a power cut the draft alone may be left. While git is alive it writes one only under the lock.
  const isOurs = lock === 0 || replaced >= lock - CLOCK_MS || locks.some((path) => existsSync(path));
  const newest = Math.max(lock, draft);
  if (newest >= since - CLOCK_MS && isOurs) {
    if (Date.now() - newest < PACKED_MS) return false;
    // In this order: without its lock, git would stumble over the other file.
    await rm(`${packed}.new`, { force: true });
    await rm(`${packed}.lock`, { force: true });
  }
  for (const path of locks) await rm(path, { force: true });
  return true;
}

async function changedAt(path: string): Promise<number | undefined> {
  return (await stat(path).catch(() => undefined))?.mtimeMs;
}

/** Refs of snapshots and asides: nobody but us makes or locks them. */
export const PIN = /^refs\/holdfast\/[a-z0-9-]+\/(?:\d+(?:-[0-9a-f]+)?|aside\/[0-9a-f]+)$/;

/** Work that git does in the user's git directory and cannot finish when it is killed. */
export type GitOperation =
  | {
      readonly kind: "making";
      /** Whose: a run's id, or with an aside's key behind it. */
      readonly run: string;
      readonly path: string;
      readonly branch: string;
      /** The commit that it is to stand on where it stands on no branch. */
      readonly detached?: string;
    }
  | { readonly kind: "unpinning"; readonly refs: readonly string[] };

/** Written before git starts and removed when it is done: one whose writer is dead tells what may be left, and that it is ours. */
interface WorkNote {
  readonly file: string;
  /** In the environment of every git that does this work. */
  readonly mark: string;
  readonly writtenAt: number;
  readonly work: GitOperation;
}

/**
 * Writes the note of this work, on the disk before it returns. Two of one kind and run at a time are refused (WORKSPACE_BUSY)
 * after a moment. `left` are the notes of those who died in the same work: nobody else will touch what they left.
 */
export async function beginGitOperation(
  home: string,
  work: GitOperation,
): Promise<{ readonly own: WorkNote; readonly left: readonly WorkNote[] }> {
  for (let attempt = 1; ; attempt++) {
    const own = writeNote(home, work);
    const others = (await readGitOperations(home)).filter(
      (note) => note.file !== own.file && sameWork(note.work, work),
    );
    const busy = others.find((note) => !note.abandoned);
    if (busy === undefined) return { own, left: others };
    await endGitOperation(own);
    if (attempt === ATTEMPTS) throw workBusy(busy);
    // Two who came at once each saw the other: the next time they do not come at once.
    await sleep(PAUSE_MS * (1 + Math.random()));
  }
}

/** One that cannot be removed costs the next one a look: no reason to fail. */
export async function endGitOperation(note: WorkNote): Promise<void> {
  active.delete(note.mark);
  await rm(note.file, { force: true }).catch(() => undefined);
}

/** Keeps the note on the disk for whoever comes next. */
export function abandonGitOperation(note: WorkNote): void {
  active.delete(note.mark);
}

/** A note whose writer cannot be told dead (another host, another container) counts as abandoned after an hour. */
export async function readGitOperations(
  home: string,
): Promise<readonly (WorkNote & { readonly abandoned: boolean })[]> {
  const names = (await readdir(home).catch(() => [])).filter((name) => NAME.test(name));
  const notes = await Promise.all(names.map((name) => readNote(join(home, name))));
  return notes.flatMap((note) => note ?? []);
}

const ATTEMPTS = 10;
const PAUSE_MS = 100;

const MAX_BYTES = 64 * 1024 * 1024;
const NAME = /^work-([0-9a-f]{32})$/;

/** Marks of the work that this process does now: the system cannot tell it from what this process gave up. */
const active = new Set<string>();

interface Written {
  readonly work: GitOperation;
  readonly owner: ProcessIdentity;
}

const WRITTEN: Shape<Written> = object<Written>({
  work: tagged<GitOperation, "kind">("kind", {
    making: object({ kind: oneOf({ making: true }), run: text, path: text, branch: text, detached: optional(text) }),
    unpinning: object({ kind: oneOf({ unpinning: true }), refs: list(text) }),
  }),
  owner: object<ProcessIdentity>({ host: text, pid: count, started: nullable(text), boot: nullable(text) }),
});

function writeNote(home: string, work: GitOperation): WorkNote {
  const mark = randomId();
  const file = join(home, `work-${mark}`);
  const written: Written = { work, owner: processIdentity() };
  active.add(mark);
  try {
    writeDurable({ path: file, data: Buffer.from(`${JSON.stringify(written)}\n`), mode: "create" });
  } catch (error) {
    active.delete(mark);
    throw error;
  }
  return { file, mark, work, writtenAt: Date.now() };
}

async function readNote(file: string): Promise<(WorkNote & { readonly abandoned: boolean }) | undefined> {
  const found = await stat(file).catch(() => undefined);
  const written = found === undefined ? undefined : parseNote(file);
  const mark = /[0-9a-f]{32}$/.exec(file)?.[0];
  if (found === undefined || written === undefined || mark === undefined) return undefined;
  const { work, owner } = written;
  return { file, mark, work, writtenAt: found.mtimeMs, abandoned: isAbandoned(mark, owner, found.mtimeMs) };
}

/** Ours are never torn. Anything else was put here by somebody, and is nobody's note. */
function parseNote(file: string): Written | undefined {
  try {
    const read = readRegularFile({ path: file, maxBytes: MAX_BYTES });
    const value: unknown = read.kind === "read" ? JSON.parse(read.bytes.toString("utf8")) : undefined;
    // The shape is tied to the type and found nothing wrong.
    return WRITTEN(value) === null ? (value as Written) : undefined;
  } catch {
    return undefined;
  }
}

function isAbandoned(mark: string, owner: ProcessIdentity, writtenAt: number): boolean {
  if (active.has(mark)) return false;
  const self = processIdentity();
  const own = owner.pid === self.pid && owner.started === self.started && owner.boot === self.boot;
  if (own && owner.host === self.host) return true;
  const liveness = livenessOf(owner, self);
  return liveness === "dead" || (liveness === "unknown" && Date.now() - writtenAt > STALE_MS);
}

function sameWork(one: GitOperation, other: GitOperation): boolean {
  if (one.kind !== "making" || other.kind !== "making") return one.kind === other.kind;
  return one.run === other.run || one.path === other.path;
}

function workBusy(note: WorkNote): HoldfastError {
  const what = note.work.kind === "making" ? `the worktree ${note.work.path} is being made` : "refs are being removed";
  return new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: `${what} by another process at this moment`,
    hint: "Run the command again when it is done.",
    retry: "later",
  });
}
