// Creates, lists and finds the worktrees of runs.

import { existsSync } from "node:fs";
import { mkdir, readFile, readdir, realpath, rm, stat, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { RUN_ID } from "@holdfast/core/run";
import type { CreateWorkspace } from "@holdfast/core/workspace";
import { HoldfastError, errorCode, usageError } from "@holdfast/platform/error";
import { removeDurable } from "@holdfast/platform/files";
import { createGit } from "@holdfast/platform/git-command";
import { readBranchTip, readTip } from "./branch-refs.ts";
import { snapshotIdentity } from "./commits.ts";
import { type LocatedWorktree, leadsTo, locateWorktree } from "./moved-worktree.ts";
import { peelLoose, syncFileSystem, syncRepository } from "./objects.ts";
import { hasRefFiles, readGitDirHead, toRawPath } from "./ref-files.ts";
import { type Checkout, type Repository, disableFilters, worktreeGit, worktreesFolder } from "./repository.ts";
import {
  branchHead,
  clearWorktreePath,
  removeEntryLocks,
  removeHalfMadeEntries,
  removeStaleFiles,
  withStaleFileCleanup,
} from "./stale-files.ts";
import { openGitWorkspace } from "./workspace.ts";
import { OWNER_FILE, UNFINISHED_FILE, type WorktreeEntry, readEntries, repairGitLink } from "./worktree-entry.ts";

/** A worktree with the data that git and Holdfast keep about it. */
export interface WorktreeRecord {
  readonly path: string;
  /** The worktree's own git directory; the common directory for the main worktree. */
  readonly gitDir: string;
  readonly run: string | null;
  readonly branch: string | null;
  readonly head: string | null;
  /** True if the directory exists and belongs to this entry: not deleted, not moved, not replaced by another clone. */
  readonly exists: boolean;
  readonly locked: boolean;
  /** True if the files are not all written yet, for example because the creator was killed. */
  readonly unfinished: boolean;
}

/** The main worktree first, then the others by path, as git lists them. Reads the files where they say all that git would. */
export async function listWorktrees(repository: Repository): Promise<WorktreeRecord[]> {
  const entries = await readEntries(repository);
  const main = await readMainRecord(repository);
  if (main === null || !entries.every(isPlain)) return askGitForList(repository);
  const linked = await Promise.all(entries.map((entry) => fromEntry(repository, entry)));
  const all = [...main, ...linked.toSorted((a, b) => (a.path < b.path ? -1 : 1))];
  return all.every(({ head }) => head !== null) ? all : askGitForList(repository);
}

/** The record of the main worktree, or none if the repository is bare; null if git has to be asked. */
async function readMainRecord({ bare, commonDir }: Repository): Promise<readonly WorktreeRecord[] | null> {
  if (bare) return [];
  const head = await readFile(join(commonDir, "HEAD"), "utf8").catch(() => "");
  if (basename(commonDir) !== ".git" || !hasRefFiles(head)) return null;
  const path = dirname(commonDir);
  const place = { path, exists: await leadsTo(path, commonDir) };
  return [describeFiles(place, { gitDir: commonDir, run: null, head, making: false })];
}

async function askGitForList(repository: Repository): Promise<WorktreeRecord[]> {
  const output = await listPatiently(repository);
  const entries = new Map((await readEntries(repository)).map((entry) => [entry.folder, entry]));
  const records = output
    .toString("utf8")
    .split("\0\0")
    .filter((record) => record !== "");
  const parsed = records.map((record) => new Map(record.split("\0").map(splitField)));
  const described = await Promise.all(parsed.map((fields, index) => describe(fields, index === 0)));
  return described.flatMap((record) => record ?? []);

  async function describe(fields: ReadonlyMap<string, string>, main: boolean): Promise<WorktreeRecord | undefined> {
    const path = fields.get("worktree");
    const entry = main || path === undefined ? undefined : entries.get(path);
    const gitDir = main ? repository.commonDir : entry?.gitDir;
    if (path === undefined || gitDir === undefined || fields.has("bare")) return undefined;
    const head = fields.get("HEAD") ?? repository.zero;
    const place =
      entry === undefined
        ? { path, exists: await leadsTo(path, gitDir) }
        : await locateWorktree(repository, { ...entry, folder: path });
    return {
      ...place,
      gitDir,
      run: entry?.run ?? null,
      branch: fields.get("branch") ?? null,
      head: head === repository.zero ? null : head,
      locked: fields.has("locked"),
      unfinished: entry?.making === true,
    };
  }
}

/** Compares the whole id: issue-42 never matches the worktree of issue-4. */
export async function findWorktree(repository: Repository, run: string): Promise<WorktreeRecord | undefined> {
  const entries = (await readEntries(repository)).filter((entry) => entry.run === run);
  const owned = entries.every(isPlain)
    ? await Promise.all(entries.map((entry) => fromEntry(repository, entry)))
    : (await listWorktrees(repository)).filter((record) => record.run === run);
  return owned.find((record) => record.exists) ?? owned[0];
}

/** True if the files of the entry say all that git would: it is complete, and its refs are files. */
function isPlain(entry: WorktreeEntry): entry is WorktreeEntry & { readonly folder: string } {
  const { folder, whole, initializing, head } = entry;
  return folder !== null && whole && !initializing && hasRefFiles(head);
}

async function fromEntry(
  repository: Repository,
  entry: WorktreeEntry & { readonly folder: string },
): Promise<WorktreeRecord> {
  return describeFiles(await locateWorktree(repository, entry), entry);
}

function describeFiles(
  place: LocatedWorktree,
  { gitDir, run, head, making }: Pick<WorktreeEntry, "gitDir" | "run" | "head" | "making">,
): WorktreeRecord {
  return {
    ...place,
    gitDir,
    run,
    branch: /^ref: (refs\/heads\/.*)\n$/s.exec(head)?.[1] ?? null,
    head: readGitDirHead(toRawPath(gitDir)),
    locked: existsSync(join(gitDir, "locked")),
    unfinished: making,
  };
}

function splitField(field: string): [string, string] {
  const space = field.indexOf(" ");
  return space < 0 ? [field, ""] : [field.slice(0, space), field.slice(space + 1)];
}

/**
 * `git worktree list` fails while one entry has no `commondir` yet. That lasts a moment, or for ever if its creator was
 * killed.
 */
async function listPatiently(repository: Repository): Promise<Buffer> {
  const args = ["worktree", "list", "--porcelain", "-z"];
  for (let attempt = 1; attempt < ATTEMPTS; attempt++) {
    const listed = await repository.git.result({ args });
    if (listed.code === 0) return listed.stdout;
    if (attempt === 1) await removeStaleFiles(repository);
    else await sleep(PAUSE_MS);
  }
  await removeHalfMadeEntries(repository);
  return await repository.git.output({ args });
}

const ATTEMPTS = 6;
const PAUSE_MS = 100;

/**
 * Registers the worktree without files, records its owner, then fills it. After a kill the same call continues where it
 * stopped. A user may already have worked in the unfinished directory. Therefore its files are pinned as a snapshot
 * before they are overwritten.
 */
export async function createWorktree(repository: Repository, params: CreateWorkspace): Promise<Checkout> {
  const target = await findTarget(repository, params);
  const there = target.isFinished ? await findRepaired(repository, params) : undefined;
  if (there?.exists === true && !there.unfinished) return { root: there.path, gitDir: there.gitDir };
  const create = async (location: WorktreeLocation): Promise<WorktreeRecord> => {
    const { owned } = location;
    const record = owned?.exists === true ? owned : await register(repository, params, location);
    if (owned?.exists === true && owned.unfinished) await saveUnfinished(repository, owned);
    if (record.unfinished) await fill(repository, record, location.env);
    return record;
  };
  const made = await atLocation(repository, params, target, create, ({ gitDir, unfinished }) => {
    if (unfinished) removeDurable(join(gitDir, UNFINISHED_FILE));
  });
  return { root: made.path, gitDir: made.gitDir };
}

/** Throws the errors of `createWorktree` for a directory that is not empty, a branch in use, or an invalid base. */
export async function checkWorktree(repository: Repository, params: CreateWorkspace): Promise<void> {
  const target = await findTarget(repository, params);
  const check = async (location: Omit<WorktreeLocation, "env">): Promise<void> => {
    if (location.owned?.exists !== true) await findStart(repository, params, location);
  };
  try {
    const unborn = await unbornStart(repository, params);
    await check({ ...target, owned: await findWorktree(repository, params.run), unborn });
  } catch {
    // The obstacle may be only what an earlier attempt left.
    await atLocation(repository, params, target, check);
  }
}

/** A path where a worktree can be created, cleared of what an earlier attempt left. */
interface WorktreeLocation extends Target {
  /** The worktree already created for this run. It may be unfilled, or its directory may be gone. */
  readonly owned: WorktreeRecord | undefined;
  readonly unborn: string | null;
  readonly env: Readonly<Record<string, string>>;
}

/** A directory that lost only its link to git is repaired and kept with its content. */
async function findRepaired(repository: Repository, params: CreateWorkspace): Promise<WorktreeRecord | undefined> {
  const owned = await findWorktree(repository, params.run);
  if (owned === undefined || owned.exists || resolve(params.path ?? owned.path) !== owned.path) return owned;
  const isRepaired = await repairGitLink({ root: owned.path, gitDir: owned.gitDir });
  return isRepaired ? await findWorktree(repository, params.run) : owned;
}

async function atLocation<T>(
  repository: Repository,
  params: CreateWorkspace,
  target: Target,
  act: (location: WorktreeLocation) => Promise<T>,
  afterSync?: (done: T) => void,
): Promise<T> {
  const { run } = params;
  const { path, branch } = target;
  const making = async (env: WorktreeLocation["env"]): Promise<T> => {
    const unborn = await unbornStart(repository, params);
    const starts = [branchHead(branch), ...(unborn === null ? [] : [`${unborn}\n`])];
    await clearWorktreePath(repository, { run, path, branch }, { starts, wasAtIt: false });
    return act({ ...target, owned: await findWorktree(repository, run), unborn, env });
  };
  return withStaleFileCleanup(repository, { kind: "making", run, path, branch }, making, afterSync);
}

interface Target {
  readonly path: string;
  readonly branch: string;
  /** True if its own files show that it is complete. Whether its directory exists is checked later with git. */
  readonly isFinished: boolean;
}

/** Does not use git, because what an earlier attempt left may make git fail. */
async function findTarget(repository: Repository, params: CreateWorkspace): Promise<Target> {
  if (!RUN_ID.test(params.run)) throw usageError(`${params.run} is not a run id`);
  const known = (await readEntries(repository)).find((entry) => entry.run === params.run && entry.folder !== null);
  const path = resolve(params.path ?? known?.folder ?? join(worktreesFolder(repository), params.run));
  const current = /^ref: refs\/heads\/(.*)\n$/.exec(known?.head ?? "")?.[1];
  const branch = params.branch ?? current ?? `holdfast/${params.run}`;
  await requireBranchName(repository, branch);
  return { path: await resolvePath(path), branch, isFinished: known !== undefined && known.whole && !known.making };
}

/** The path as git records it, although its last directories may not exist yet. */
export async function resolvePath(path: string): Promise<string> {
  const real = await realpath(path).catch(() => undefined);
  if (real !== undefined || dirname(path) === path) return real ?? path;
  return join(await resolvePath(dirname(path)), basename(path));
}

/** The arguments for `git worktree add`. */
async function findStart(
  repository: Repository,
  params: CreateWorkspace,
  location: Omit<WorktreeLocation, "env">,
): Promise<readonly string[]> {
  const { path, branch, unborn } = location;
  await requireFree(path, "Move it away, then run the command again. Nothing there was touched.");
  requireUnused(branch, await listWorktrees(repository));
  const known = await readBranchTip(repository, `refs/heads/${branch}`);
  if (known !== null) return [path, branch];
  if (unborn !== null) return ["--detach", path, unborn];
  return ["--no-track", "-b", branch, path, await baseOf(repository, params)];
}

async function register(
  repository: Repository,
  params: CreateWorkspace,
  location: WorktreeLocation,
): Promise<WorktreeRecord> {
  const { path, branch, owned, unborn, env } = location;
  const start = await findStart(repository, params, location);
  const made = await addWorktree(repository, { path, start, owned, env });
  if (unborn !== null && made.head === unborn) await switchToUnborn(made, branch, env);
  await claimWorktree(repository, made, { owner: params.run, owned });
  return { ...made, run: params.run, unfinished: true };
}

/** Registers a worktree without files. `owned` is an earlier entry of the same owner, whose directory is gone. */
export async function addWorktree(
  repository: Repository,
  params: {
    readonly path: string;
    readonly start: readonly string[];
    readonly owned: WorktreeRecord | undefined;
    readonly env: Readonly<Record<string, string>>;
  },
): Promise<WorktreeRecord> {
  const { path, start, owned, env } = params;
  await mkdir(dirname(path), { recursive: true });
  // --force only takes over the entry of a directory that is gone.
  const args = ["worktree", "add", "--no-checkout", "--quiet", ...(owned === undefined ? [] : ["--force"])];
  await repository.git.output({ args: [...args, ...start], env });
  const made = (await listWorktrees(repository)).find((record) => record.path === path);
  if (made !== undefined) return made;
  throw new HoldfastError({ code: "GIT_FAILED", message: `git did not register the worktree ${path}` });
}

/**
 * Records the owner of a worktree, and that it is unfinished. Synced before the first file: after a power cut, files
 * without the record of their owner would block our own path.
 */
export async function claimWorktree(
  repository: Repository,
  made: WorktreeRecord,
  { owner, owned }: { readonly owner: string; readonly owned: WorktreeRecord | undefined },
): Promise<void> {
  await writeFile(join(made.gitDir, UNFINISHED_FILE), "");
  await writeFile(join(made.gitDir, OWNER_FILE), `${owner}\n`);
  if (owned !== undefined && owned.gitDir !== made.gitDir) await rm(join(owned.gitDir, OWNER_FILE), { force: true });
  await syncRepository(repository, made.head === null ? [] : [made.head]);
}

/** The files are synced together with the repository, unless they are on another disk. */
async function fill(
  repository: Repository,
  record: WorktreeRecord,
  env: Readonly<Record<string, string>>,
): Promise<void> {
  const git = worktreeGit({ root: record.path, gitDir: record.gitDir });
  await removeEntryLocks(record.gitDir);
  const args = ["reset", "--hard", "--quiet", "--no-recurse-submodules"];
  await git.output({ args, env: { ...(await disableFilters(repository)), ...env } });
  const [own, common] = await Promise.all([stat(record.path), stat(repository.commonDir)]);
  if (own.dev !== common.dev) await syncFileSystem(record.path, { scratch: record.gitDir });
}

async function saveUnfinished(repository: Repository, record: WorktreeRecord): Promise<void> {
  if ((await readdir(record.path)).length < 2) return;
  const workspace = await openGitWorkspace(repository, { root: record.path, gitDir: record.gitDir });
  await workspace.snapshot({
    run: record.run ?? "",
    sequence: 0,
    message: "What lay in a worktree that was not finished",
    at: new Date(0).toISOString(),
    maxUntrackedBytes: Number.MAX_SAFE_INTEGER,
  });
}

async function baseOf(repository: Repository, params: CreateWorkspace): Promise<string> {
  const commit = await resolveCommit(repository, params.base ?? "HEAD");
  if (commit !== null) return commit;
  throw usageError(`${params.base ?? "HEAD"} is not a commit`, "Name a branch, a tag or a commit id.");
}

/**
 * In a repository without commits, a new worktree also starts on a branch without commits. Git registers no worktree
 * without a commit, so an unreferenced empty commit is used until HEAD is set. Returns null in any other case.
 */
async function unbornStart(repository: Repository, params: CreateWorkspace): Promise<string | null> {
  if (params.base !== undefined || (await resolveCommit(repository, "HEAD")) !== null) return null;
  const args = ["commit-tree", repository.emptyTree, "-m", "A worktree before its first commit"];
  return repository.objects.line({ args, env: snapshotIdentity(0) });
}

async function switchToUnborn(
  record: WorktreeRecord,
  branch: string,
  env: Readonly<Record<string, string>>,
): Promise<void> {
  const git = worktreeGit({ root: record.path, gitDir: record.gitDir });
  await git.output({ args: ["symbolic-ref", "HEAD", `refs/heads/${branch}`], env });
}

/** Resolves a name as the worktree does from which the repository was opened. A loose commit is read without git. */
async function resolveCommit(repository: Repository, name: string): Promise<string | null> {
  const git = createGit({ cwd: repository.commonDir, gitDir: repository.gitDir });
  return peelLoose(repository, name)?.commit ?? (await readTip(git, name));
}

async function requireBranchName(repository: Repository, branch: string): Promise<void> {
  if (PLAIN_BRANCH.test(branch)) return;
  const valid = await repository.git.result({ args: ["check-ref-format", `refs/heads/${branch}`] });
  if (valid.code === 0 && !branch.startsWith("-")) return;
  throw usageError(`${branch} is not a branch name`);
}

/** Names that git accepts in every version: words between slashes. */
const PLAIN_BRANCH = /^[A-Za-z0-9]\w*(?:[-/][A-Za-z0-9]\w*)*$/;

export async function requireFree(path: string, hint: string): Promise<void> {
  const names = await readdir(path).catch((error: unknown) => {
    if (errorCode(error) === "ENOENT") return [];
    throw error;
  });
  if (names.length === 0) return;
  throw usageError(`${path} exists and is not empty`, hint, { path });
}

function requireUnused(branch: string, all: readonly WorktreeRecord[]): void {
  const holder = all.find((record) => record.branch === `refs/heads/${branch}` && record.exists);
  if (holder === undefined) return;
  throw new HoldfastError({
    code: "CONFLICT",
    message: `branch ${branch} is checked out in ${holder.path}`,
    hint: "Give the run another branch, or remove that worktree.",
    data: { path: holder.path, run: holder.run },
  });
}
