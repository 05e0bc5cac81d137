// Removes the locks and worktree entries that a killed git leaves behind and never removes itself. They block our next
// command, and some block the user's own git. We remove only what is ours. The proof is the note written before git
// started, a name that only we use, or the marks in an unfinished worktree. A worktree entry is moved into our own
// directory, never deleted.

import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { lstat, mkdir, readFile, readdir, rename, rm, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type TypeOf, list, object, optional, parseJsonAs, text, variants } from "@holdfast/core/json";
import { HoldfastError } from "@holdfast/platform/error";
import { readRegularFile, writeDurable } from "@holdfast/platform/files";
import { type ProcessIdentity, livenessOf, processIdentity, randomId } from "@holdfast/platform/identity";
import { MARK_VARIABLE, terminateTree } from "@holdfast/platform/process-tree";
import { fileKey } from "./facts.ts";
import { leadsTo } from "./moved-worktree.ts";
import { syncRepository } from "./objects.ts";
import { PROCESS } from "./private-index.ts";
import { isLockedByHoldfast } from "./replace-index.ts";
import type { Repository } from "./repository.ts";
import { type WorktreeEntry, parseSideWorktreeOwner, readEntries } from "./worktree-entry.ts";

/**
 * Runs `act` with a git that may be killed at any time. It first clears what an earlier one left, and excludes
 * concurrent operations of the same kind. `afterSync` is called when the repository is synced, still without concurrent
 * operations.
 */
export async function withStaleFileCleanup<T>(
  repository: Repository,
  work: GitOperation,
  act: (env: Readonly<Record<string, string>>) => Promise<T>,
  afterSync: (done: T) => void = () => undefined,
): Promise<T> {
  const { own, left } = await beginGitOperation(repository.home, work);
  const cleared: WorkNote[] = [];
  // The repository is synced before a note is removed. Otherwise a power cut could bring back a lock without its note.
  const forget = async (notes: readonly WorkNote[], done?: () => void): Promise<void> => {
    await syncRepository(repository);
    done?.();
    for (const note of notes) await endGitOperation(note);
  };
  try {
    for (const note of left) {
      await terminateTree({ mark: note.mark, graceMs: 0 });
      if (await clearNoted(repository, note)) cleared.push(note);
    }
    const done = await act({ [MARK_VARIABLE]: own.mark });
    await forget([...cleared, own], () => afterSync(done));
    return done;
  } catch (error) {
    // A failed git removes its own locks. A git that was killed while this process lives leaves them, like any other.
    const isClear = !wasKilled(error) || (await clearNoted(repository, own).catch(() => false));
    if (isClear) await forget([...cleared, own]).catch(() => abandonGitOperation(own));
    else abandonGitOperation(own);
    throw error;
  }
}

/** Removes what dead processes left, of any run. Failures are ignored: a caller that needs the path reports them. */
export async function removeStaleFiles(repository: Repository): Promise<void> {
  const notes = await readGitOperations(repository.home);
  for (const { work, abandoned } of notes) {
    if (abandoned) await withStaleFileCleanup(repository, work, async () => undefined).catch(() => undefined);
  }
}

/**
 * Frees the path of a worktree. It removes unfinished entries for the path, the link to a missing entry, and the lock
 * on its branch. An entry without an owner is ours if its HEAD is one we start with and its directory contains no
 * files. Call it with a note written.
 */
export async function clearWorktreePath(
  repository: Repository,
  created: CreatedWorktree,
  params: { readonly starts: readonly string[]; readonly wasAtIt: boolean },
): Promise<void> {
  const plan = async (): Promise<QuarantinePlan> =>
    planQuarantine({
      path: created.path,
      entries: await readEntries(repository),
      untouched: await isUntouched(created.path),
      starts: params.starts,
    });
  let { quarantined, remaining } = await plan();
  // Another git may be creating the entry right now: no note of a dead process claims it, or it names no directory yet.
  if (quarantined.some((entry) => isHalfMade(entry) && (!params.wasAtIt || entry.folder === null))) {
    await sleep(LOCK_MS);
    ({ quarantined, remaining } = await plan());
  }
  for (const entry of quarantined) await quarantine(repository, entry);
  if (remaining === undefined) await clearLink(repository, created.path);
  const isHalf = remaining?.run === created.run && remaining.making;
  if (remaining === undefined || isHalf) await clearBranchLock(repository, created, params.wasAtIt || isHalf);
}

interface CreatedWorktree {
  readonly run: string;
  readonly path: string;
  readonly branch: string;
}

/** For an unfinished worktree, which only a killed git of ours can have locked. Call it with a note written. */
export async function removeEntryLocks(gitDir: string): Promise<void> {
  for (const name of await readdir(gitDir)) if (name.endsWith(".lock")) await rm(join(gitDir, name), { force: true });
}

/**
 * Removes the locks of a run without a live process: in its worktrees and on its branch. The user's git may hold the
 * lock of a branch that another worktree has checked out, so that one is kept. The lock of a branch other than
 * holdfast/<run> is removed only if the run has its own worktree.
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

/**
 * Submodules keep their git directories here. Their object databases contain no locks of git commands and are skipped.
 */
async function findLocks(folder: string): Promise<readonly string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const found = entries.map(async (entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return entry.name === "objects" ? [] : await findLocks(path);
    return entry.isFile() && entry.name.endsWith(".lock") ? [path] : [];
  });
  return (await Promise.all(found)).flat();
}

/** Removes a lock in our own namespace without a note once it is an hour old. */
export async function removeStaleLock(path: string): Promise<void> {
  const since = await changedAt(path);
  if (since !== undefined && Date.now() - since > STALE_MS) await rm(path, { force: true });
}

/**
 * Removes entries without a note on which `git worktree list` fails. An entry that git marks as initializing contains
 * no work, and after an hour no process is creating it any more.
 */
export async function removeHalfMadeEntries(repository: Repository): Promise<void> {
  for (const entry of await readEntries(repository)) {
    if (!entry.initializing || entry.whole || entry.used || entry.run !== null) continue;
    const since = await changedAt(join(entry.gitDir, "locked"));
    if (since !== undefined && Date.now() - since > STALE_MS) await quarantine(repository, entry);
  }
}

const STALE_MS = 3_600_000;
/**
 * The longest time the user's git should hold one worktree entry or one ref. PACKED_MS is the limit for packed-refs.
 */
const LOCK_MS = 1000;
const PACKED_MS = 60_000;
/** The largest error between two times of one file system that the kernel writes and reports. */
const CLOCK_MS = 2000;
const LINK_BYTES = 64 * 1024;

interface QuarantinePlan {
  /** Unfinished entries for the path. */
  readonly quarantined: readonly WorktreeEntry[];
  /** The entry for the path that is kept; undefined if there is none. */
  readonly remaining: WorktreeEntry | undefined;
}

export function planQuarantine(params: {
  readonly path: string;
  readonly entries: readonly WorktreeEntry[];
  /** The directory contains only its link to git. */
  readonly untouched: boolean;
  readonly starts: readonly string[];
}): QuarantinePlan {
  const { path, entries, untouched, starts } = params;
  const quarantined = entries.filter((entry) => {
    if (!isEntryOf(entry, path) || (entry.run !== null && !entry.making)) return false;
    return isHalfMade(entry) || (entry.run === null && untouched && starts.includes(entry.head));
  });
  return { quarantined, remaining: entries.find((entry) => entry.folder === path && !quarantined.includes(entry)) };
}

/** An entry that is not ours and was used may contain a user's work, however damaged it is. */
function isHalfMade(entry: WorktreeEntry): boolean {
  return (!entry.whole || entry.initializing) && (entry.making || !entry.used);
}

/** Git names an entry after its directory, with a number appended if the name was taken. */
function isEntryOf(entry: WorktreeEntry, path: string): boolean {
  if (entry.folder !== null) return entry.folder === path;
  const text = entry.link.replaceAll("\0", "");
  if (text !== "") return join(path, ".git").startsWith(text);
  return entry.name.startsWith(basename(path)) && /^\d*$/.test(entry.name.slice(basename(path).length));
}

/** Returns false if the remaining files may belong to another process. They are checked again later. */
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
    case "removing":
      return recoverRemoval(repository, note.work);
  }
}

/** Where a worktree is that is being removed: still whole, then while its content is deleted. */
export function removalPaths(path: string): { readonly whole: string; readonly deleted: string } {
  return { whole: `${path}.removing`, deleted: `${path}.deleting` };
}

/**
 * Puts a worktree back that a killed removal moved and had not begun to delete, or deletes the rest of one. Its link to git proves that
 * it is the worktree of this run. Returns false if its place is taken: it stays where it is until the place is free.
 */
async function recoverRemoval(
  repository: Repository,
  { run, path }: { readonly run: string; readonly path: string },
): Promise<boolean> {
  const entry = (await readEntries(repository)).find((one) => one.run === run);
  if (entry === undefined) return true;
  const { whole, deleted } = removalPaths(path);
  if (await leadsTo(deleted, entry.gitDir)) await deleteFolder(deleted);
  if (!(await leadsTo(whole, entry.gitDir))) return true;
  return rename(whole, path).then(
    () => true,
    () => false,
  );
}

/** Its link to git is deleted last: until then the owner of the directory is known. */
export async function deleteFolder(path: string): Promise<void> {
  for (const name of await readdir(path)) {
    if (name !== ".git") await rm(join(path, name), { recursive: true, force: true });
  }
  await rm(path, { recursive: true, force: true });
}

/** The content of HEAD in a worktree on this branch. */
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

async function quarantine(repository: Repository, entry: WorktreeEntry): Promise<void> {
  const damaged = join(repository.home, "damaged");
  await mkdir(damaged, { recursive: true, mode: 0o700 });
  // The name is unique each time, because a rename onto an earlier file would delete that file.
  await rename(entry.gitDir, join(damaged, `worktree-${entry.name}-${randomBytes(4).toString("hex")}`));
}

/**
 * Removes the `.git` of an otherwise empty directory if it is truncated or leads to a missing entry of ours. With it
 * the path would look occupied.
 */
async function clearLink(repository: Repository, path: string): Promise<void> {
  const link = join(path, ".git");
  const found = await lstat(link).catch(() => undefined);
  if (found?.isFile() !== true || found.size > LINK_BYTES || !(await isUntouched(path))) return;
  const text = (await readFile(link, "utf8")).replaceAll("\0", "").replace(/\n$/, "");
  const start = `gitdir: ${join(repository.commonDir, "worktrees")}/`;
  if (start.startsWith(text) || text.startsWith(start)) await rm(link, { force: true });
}

/** Only runs use branches under holdfast/. The user's own git may lock any other branch, but not for long. */
async function clearBranchLock(repository: Repository, created: CreatedWorktree, wasAtIt: boolean): Promise<void> {
  const heads = join(repository.commonDir, "refs/heads");
  const lock = join(heads, `${created.branch}.lock`);
  // A planted note could name any path.
  if (!lock.startsWith(`${heads}/`)) return;
  if (created.branch !== `holdfast/${created.run}`) {
    if (!wasAtIt) return removeStaleLock(lock);
    const before = await fileKey(lock);
    if (before === null) return;
    await sleep(LOCK_MS);
    if ((await fileKey(lock)) !== before) return;
  }
  await rm(lock, { force: true });
}

/**
 * Git deletes a packed ref under the lock on packed-refs. If it is killed there, the user's git can neither delete
 * branches nor fetch. The lock is ours if it is newer than our note and one of two conditions holds. Either our refs
 * are locked too, since git locks them first and we clear them last. Or packed-refs was replaced under the lock, so
 * that its holder only had to release it.
 */
async function clearUnpinning(repository: Repository, refs: readonly string[], since: number): Promise<boolean> {
  const locks = refs
    .filter((ref) => PIN.test(ref) || KEPT.test(ref) || OWN_BRANCH.test(ref))
    .map((ref) => join(repository.commonDir, `${ref}.lock`));
  const packed = join(repository.commonDir, "packed-refs");
  const [lock = 0, draft = 0, replaced = 0] = await Promise.all(
    [`${packed}.lock`, `${packed}.new`, packed].map(changedAt),
  );
  // After a power cut the draft alone may remain. A live git writes the draft only under the lock.
  const isOurs = lock === 0 || replaced >= lock - CLOCK_MS || locks.some((path) => existsSync(path));
  const newest = Math.max(lock, draft);
  if (newest >= since - CLOCK_MS && isOurs) {
    if (Date.now() - newest < PACKED_MS) return false;
    // The order matters: without its lock, git would fail on the other file.
    await rm(`${packed}.new`, { force: true });
    await rm(`${packed}.lock`, { force: true });
  }
  for (const path of locks) await rm(path, { force: true });
  return true;
}

async function changedAt(path: string): Promise<number | undefined> {
  return (await stat(path).catch(() => undefined))?.mtimeMs;
}

/** Refs that only Holdfast creates and locks, and removes when nothing needs them. */
export const PIN = /^refs\/holdfast\/[a-z0-9-]+\/(?:\d+(?:-[0-9a-f]+)?(?:-index[0-9a-f]?)?|(?:side|head)\/[0-9a-f]+)$/;

/** Work that is kept until the user removes it, or the whole run. */
const KEPT = /^refs\/holdfast\/[a-z0-9-]+\/kept\/[0-9a-f]+(?:-index[0-9a-f]?)?$/;

/** A branch that only a run uses. */
const OWN_BRANCH = /^refs\/heads\/holdfast\/[a-z0-9-]+$/;

/** An operation in the user's git directory that leaves files behind when git is killed. */
const OPERATION = variants("kind", {
  making: object({
    /** The owner: a run's id, or `<run>/<key>` for a side worktree. */
    run: text,
    path: text,
    branch: text,
    /** The commit to check out if the worktree has no branch. */
    detached: optional(text),
  }),
  unpinning: object({ refs: list(text) }),
  removing: object({
    /** As for "making". */
    run: text,
    /** The place of the worktree. */
    path: text,
  }),
});
export type GitOperation = TypeOf<typeof OPERATION>;

/**
 * Written before git starts and removed when it is done. The note of a dead process shows what may remain, and that it
 * is ours.
 */
interface WorkNote {
  readonly file: string;
  /** Set in the environment of every git process of this operation. */
  readonly mark: string;
  readonly writtenAt: number;
  readonly work: GitOperation;
}

/**
 * Writes the note of this operation durably. Concurrent operations of the same kind and run are refused with
 * WORKSPACE_BUSY after a few attempts. `left` contains the notes of processes that died in the same operation. No other
 * process touches what they left.
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
    // Two processes that started together each saw the other's note. A random pause separates their next attempts.
    await sleep(PAUSE_MS * (1 + Math.random()));
  }
}

/** A note that cannot be removed costs the next operation one check. It is not a reason to fail. */
export async function endGitOperation(note: WorkNote): Promise<void> {
  active.delete(note.mark);
  await rm(note.file, { force: true }).catch(() => undefined);
}

/** Leaves the note on disk for the next process. */
export function abandonGitOperation(note: WorkNote): void {
  active.delete(note.mark);
}

/** A note counts as abandoned after an hour if its writer cannot be proven dead (another host, another container). */
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

/**
 * Marks of operations in progress in this process. The process identity alone cannot distinguish them from abandoned
 * ones.
 */
const active = new Set<string>();

const WRITTEN = object({ work: OPERATION, owner: PROCESS });
type Written = TypeOf<typeof WRITTEN>;

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

/** Our own notes are never partial. Anything else is not a note of ours and is ignored. */
function parseNote(file: string): Written | undefined {
  try {
    const read = readRegularFile({ path: file, maxBytes: MAX_BYTES });
    return read.kind === "read" ? parseJsonAs(WRITTEN, read.bytes.toString("utf8")) : undefined;
  } catch {
    return undefined;
  }
}

function isAbandoned(mark: string, owner: ProcessIdentity, writtenAt: number): boolean {
  if (active.has(mark)) return false;
  const self = processIdentity();
  const own = owner.pid === self.pid && owner.started === self.started && owner.boot === self.boot;
  if (own && (owner.boot !== null || owner.host === self.host)) return true;
  const liveness = livenessOf(owner, self);
  return liveness === "dead" || (liveness === "unknown" && Date.now() - writtenAt > STALE_MS);
}

function sameWork(one: GitOperation, other: GitOperation): boolean {
  if (one.kind === "unpinning" || other.kind === "unpinning") return one.kind === other.kind;
  return one.kind === other.kind && (one.run === other.run || one.path === other.path);
}

function workBusy(note: WorkNote): HoldfastError {
  const { work } = note;
  const what =
    work.kind === "unpinning"
      ? "refs are being removed"
      : `the worktree ${work.path} is being ${work.kind === "making" ? "made" : "removed"}`;
  return new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: `${what} by another process at this moment`,
    hint: "Run the command again when it is done.",
    retry: "later",
  });
}
