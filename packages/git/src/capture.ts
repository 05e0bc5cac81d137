// Captures the files of a worktree as a git tree without touching the user's index.

import { readdirSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Skipped } from "@holdfast/core/checkpoint";
import { readRegularFile, writeDurable } from "@holdfast/platform/files";
import type { Git } from "@holdfast/platform/git-command";
import {
  type CapturePlan,
  type PathState,
  absolutePath,
  capturePaths,
  createPathInspector,
  parentOf,
  planCapture,
} from "./capture-plan.ts";
import { fileKey } from "./facts.ts";
import { createNameKey, finishRespelling, foldName } from "./folded-names.ts";
import { type RawPath, joinRecords, splitRecords } from "./paths.ts";
import {
  type IndexCache,
  type IndexDifference,
  type IndexEntry,
  type IndexState,
  type PrivateIndex,
  type ReadUserIndex,
  type UserIndex,
  compareIndexes,
  isRegular,
  openPrivateIndex,
  openScratch,
  parseIndexEntry,
  readUserIndex,
} from "./private-index.ts";
import { readGitDirHead, resolveGitLink, toRawPath } from "./ref-files.ts";
import { type Checkout, type Repository, privateGit, worktreeGit } from "./repository.ts";

export interface CaptureOptions {
  readonly maxUntrackedBytes: number;
  readonly includeIgnored: boolean;
}

export const DEFAULT_CAPTURE: CaptureOptions = { maxUntrackedBytes: 20 * 1024 * 1024, includeIgnored: false };

/**
 * Paths that no capture contains, whatever the ignore rules say: copies of the user's own files, which agents can take out of
 * .gitignore or add to the index.
 */
export function readKeptOut({ home }: Pick<WorktreeContext, "home">): ReadonlySet<RawPath> {
  const file = readRegularFile({ path: join(home, KEPT_OUT), maxBytes: MAX_KEPT_OUT_BYTES });
  return new Set(file.kind === "read" ? splitRecords(file.bytes) : []);
}

/** Adds paths to the list for ever: what was copied once stays in the worktree. Durable when it returns. */
export function keepOut(worktree: Pick<WorktreeContext, "home">, paths: readonly string[]): void {
  const known = readKeptOut(worktree);
  const all = new Set([...known, ...paths.map(toRawPath)]);
  if (all.size > known.size)
    writeDurable({ path: join(worktree.home, KEPT_OUT), data: joinRecords([...all].toSorted()), mode: "replace" });
}

const KEPT_OUT = "kept-out";
const MAX_KEPT_OUT_BYTES = 64 * 1024 * 1024;

export interface Captured {
  readonly tree: string;
  readonly skipped: readonly Skipped[];
  readonly nested: CapturePlan["nested"];
}

/**
 * Captures the whole worktree as a tree object. Reads the user's index and never writes it; writes only objects and our
 * private index. `onUserIndex` receives the user's index early, so that it can be stored while the files are inspected.
 */
export async function captureTree(
  worktree: WorktreeContext,
  options: CaptureOptions,
  onUserIndex?: (index: UserIndex) => void,
): Promise<Captured> {
  if (worktree.folds) finishRespelling(worktree);
  const key = `${options.maxUntrackedBytes}${options.includeIgnored ? "-all" : ""}${worktree.fileModes ? "" : "-modeless"}`;
  await using borrowed = await openPrivateIndex({ home: worktree.indexes ?? worktree.home, key });
  try {
    return await capture(worktree, options, gitsOf(worktree, borrowed, "given"), borrowed, onUserIndex);
  } catch (error) {
    if (!(await isIndexTorn(worktree, borrowed))) throw error;
    return await capture(worktree, options, gitsOf(worktree, borrowed, "none"), borrowed, onUserIndex);
  }
}

export interface WorktreeContext extends Checkout {
  readonly repository: Repository;
  /** Our directory inside this worktree's git directory. */
  readonly home: string;
  /** Directory of the private indexes, if it is not `home`. */
  readonly indexes?: string;
  /** Our git directory for this worktree, with the shared part of its indexes. */
  readonly privateGitDir: string;
  /** True if its file system ignores case or Unicode form, so that two names can be one file. */
  readonly folds: boolean;
  /** False if git ignores the executable bits on the disk: the modes are those of the user's index (core.fileMode). */
  readonly fileModes: boolean;
}

const MAX_ATTEMPTS = 5;
const NOTHING_KNOWN: Pick<IndexCache, "young" | "special"> = { young: new Map(), special: new Set() };

async function capture(
  worktree: WorktreeContext,
  options: CaptureOptions,
  git: Gits,
  borrowed: PrivateIndex,
  onUserIndex: ((index: UserIndex) => void) | undefined,
): Promise<Captured> {
  const { state } = borrowed;
  const isKeptOut = createKeptOutCheck(worktree);
  for (let attempt = 1; ; attempt++) {
    const now = Date.now();
    const [{ index, difference, compared }, changed] = await Promise.all([
      readDifference(worktree, git, { state, options, isKeptOut, onUserIndex }),
      state === undefined ? [] : listChanged(git.own),
    ]);
    const visible = index.others.filter((path) => !isKeptOut(path) && !isSystemFile(path));
    const others = worktree.folds ? await withoutTrackedNames(worktree, visible, index) : visible;
    const { young, special: known } = state?.memo ?? NOTHING_KNOWN;
    const memo = { ...difference, young, special: known };
    const facts = { memo, compared, now, changed, others, maxUntrackedBytes: options.maxUntrackedBytes };
    const paths = capturePaths(facts);
    const found = inspectAll(worktree.root, paths);
    const special = await findVisibleSpecial(worktree, options, paths, known);
    const sparse = new Map(memo.sparse ? (await index.entries()).map((entry) => [entry.path, entry]) : []);
    // The lists were read one after the other. They are consistent only if the user's index did not change meanwhile.
    if ((await fileKey(join(worktree.gitDir, "index"))) !== index.key && attempt < MAX_ATTEMPTS) continue;

    const plan = planCapture(facts, {
      found: (path) => found.get(path) ?? { kind: "absent" },
      head: (path) => readRepositoryHead(worktree.root, path),
      special,
      sparse: (path) => (sparse.get(path)?.skip === true ? sparse.get(path) : undefined),
    });
    const seeds = worktree.fileModes ? [] : await findModes(plan, index);
    const touched = await applyCapture(git.own, plan, worktree.repository.zero, seeds);
    const tree = state !== undefined && !touched ? state.tree : await git.own.line({ args: ["write-tree"] });
    const userIndex = { key: index.key, paths: index.paths, content: index.content };
    const seenSpecial = special.length !== known.size || special.some((path) => !known.has(path));
    if (touched || seenSpecial || state?.userIndex.key !== index.key)
      await borrowed.keep({ userIndex, tree, memo: plan.memo });
    return { tree, skipped: plan.skipped, nested: plan.nested };
  }
}

/**
 * Returns how the two indexes differ. It uses the cached difference while the user's index lists the same paths, and
 * otherwise compares them.
 */
async function readDifference(
  worktree: WorktreeContext,
  git: Gits,
  params: {
    readonly state: IndexState | undefined;
    readonly options: CaptureOptions;
    readonly isKeptOut: (path: RawPath) => boolean;
    readonly onUserIndex: ((index: UserIndex) => void) | undefined;
  },
): Promise<{ readonly index: ReadUserIndex; readonly difference: IndexDifference; readonly compared: boolean }> {
  const { state, isKeptOut } = params;
  const rules = params.options.includeIgnored ? [] : ["--exclude-standard"];
  const index = await readUserIndex(git.user, { gitDir: worktree.gitDir, before: state?.userIndex, rules });
  params.onUserIndex?.(index);
  if (state !== undefined && state.userIndex.paths === index.paths)
    return { index, difference: state.memo, compared: false };
  const [user, own] = await Promise.all([index.entries(), state === undefined ? [] : listEntries(git.own)]);
  // A path that our index has and this list lacks is removed from ours, unless it is listed as untracked.
  const tracked = user.filter(({ path }) => !isKeptOut(path));
  return { index, difference: compareIndexes(tracked, own, worktree), compared: true };
}

/**
 * The entries of the user's index for the files that are about to be hashed. Where git ignores the bits of the disk, it
 * keeps the mode of an entry when it adds the file, and a new entry is not executable. So ours need the right mode first.
 */
async function findModes(plan: CapturePlan, index: ReadUserIndex): Promise<readonly IndexEntry[]> {
  if (plan.add.length === 0) return [];
  const add = new Set(plan.add);
  return (await index.entries()).filter(({ path, mode }) => isRegular(mode) && add.has(path));
}

/** A file system that folds names has one file for several spellings of a path. */
export function createKeptOutCheck(worktree: Pick<WorktreeContext, "home" | "folds">): (path: RawPath) => boolean {
  const keyOf = worktree.folds ? foldName : (path: RawPath) => path;
  const keys = new Set(Array.from(readKeptOut(worktree), keyOf));
  return (path) => keys.size > 0 && keys.has(keyOf(path));
}

interface Gits {
  /** Uses our index, without conversions or configuration. */
  readonly own: Git;
  /** Uses the user's index and ignore rules. */
  readonly user: Git;
}

/**
 * A power cut can leave the user's index empty or half zeroed, just when the user needs a snapshot. Such an index is
 * treated as absent. This applies only if git reads the same worktree correctly without it, so that no other failure is
 * hidden.
 */
async function isIndexTorn(worktree: WorktreeContext, borrowed: PrivateIndex): Promise<boolean> {
  const args = ["ls-files", "-s", "-z"];
  const given = await gitsOf(worktree, borrowed, "given").user.result({ args });
  if (given.code === 0) return false;
  return (await gitsOf(worktree, borrowed, "none").user.result({ args })).code === 0;
}

function gitsOf(worktree: WorktreeContext, borrowed: PrivateIndex, userIndex: "given" | "none"): Gits {
  const { repository, root, privateGitDir, fileModes } = worktree;
  const { objectDirectory } = repository;
  const settings = fileModes ? [] : ["core.fileMode=false"];
  return {
    own: privateGit({ privateGitDir, objectDirectory }, root, borrowed.path, settings),
    user: worktreeGit(worktree, userIndex === "none" ? `${borrowed.path}-none` : undefined),
  };
}

async function listEntries(git: Git): Promise<IndexEntry[]> {
  return splitRecords(await git.output({ args: ["ls-files", "-s", "-v", "-z"] })).map(parseIndexEntry);
}

async function listChanged(git: Git): Promise<RawPath[]> {
  // Submodules are inspected without git: git would start itself inside them, under their configuration.
  return splitRecords(await git.output({ args: ["diff-files", "--name-only", "--ignore-submodules=all", "-z"] }));
}

/**
 * True for files that macOS writes into any folder: the view of a folder, or attributes of a file on a disk that cannot
 * store them. Untracked ones are left out, because a restore must not compete with the Finder for them.
 */
export function isSystemFile(path: RawPath, platform: NodeJS.Platform = process.platform): boolean {
  return platform === "darwin" && SYSTEM_FILE.test(path);
}

const SYSTEM_FILE = /(?:^|\/)(?:\.DS_Store|\._[^/]*)$/;

/**
 * Leaves out files that git tracks under another spelling. Git lists them if its own settings do not fit the file system;
 * on Linux it never compares Unicode forms. Otherwise a snapshot would have two names for one file.
 */
async function withoutTrackedNames(
  worktree: WorktreeContext,
  others: readonly RawPath[],
  index: ReadUserIndex,
): Promise<readonly RawPath[]> {
  if (others.length === 0) return others;
  const tracked = Map.groupBy(await index.entries(), ({ path }) => foldName(path));
  const keyOf = createNameKey(worktree.root, true);
  return others.filter((path) => {
    const known = tracked.get(foldName(path));
    return known === undefined || !known.some((entry) => keyOf(entry.path) === keyOf(path));
  });
}

/** Known special files were checked before. New ones are rare enough to ask git whether they are ignored. */
async function findVisibleSpecial(
  worktree: WorktreeContext,
  options: CaptureOptions,
  paths: readonly RawPath[],
  known: ReadonlySet<RawPath>,
): Promise<readonly RawPath[]> {
  const all = findSpecialFiles(worktree.root, foldersToSearch(paths, known));
  if (options.includeIgnored) return all;
  const visible = await withoutIgnored(
    worktree,
    all.filter((path) => !known.has(path)),
  );
  return [...all.filter((path) => known.has(path)), ...visible].sort();
}

function inspectAll(root: string, paths: readonly RawPath[]): Map<RawPath, PathState> {
  const inspect = createPathInspector(root);
  return new Map(paths.map((path) => [path, inspect(path)]));
}

async function applyCapture(git: Git, plan: CapturePlan, zero: string, seeds: readonly IndexEntry[]): Promise<boolean> {
  const lines = [
    ...plan.remove.map((path) => `0 ${zero}\t${path}`),
    ...[...seeds, ...plan.entries].map(({ mode, id, path }) => `${mode} ${id}\t${path}`),
  ];
  if (lines.length > 0) {
    await git.output({ args: ["update-index", "-z", "--index-info"], input: joinRecords(lines) });
  }
  if (plan.absent.length > 0) {
    await git.output({ args: ["update-index", "--skip-worktree", "-z", "--stdin"], input: joinRecords(plan.absent) });
  }
  if (plan.add.length > 0) {
    // --remove, because a file may vanish between our inspection and git's.
    const args = ["update-index", "--add", "--remove", "--replace", "-z", "--stdin"];
    await git.output({ args, input: joinRecords(plan.add) });
  }
  return lines.length > 0 || plan.absent.length > 0 || plan.add.length > 0;
}

/**
 * Returns pipes, sockets and devices in these directories, which git does not list. They contain no data that could be
 * lost. They are collected only so that a snapshot can list everything it omits.
 */
function findSpecialFiles(root: string, folders: ReadonlySet<RawPath>): readonly RawPath[] {
  return [...folders].flatMap((folder) => {
    try {
      const entries = readdirSync(absolutePath(root, folder), { withFileTypes: true, encoding: "buffer" });
      const special = entries.filter((entry) => !entry.isFile() && !entry.isDirectory() && !entry.isSymbolicLink());
      return special.map((entry) => `${folder === "" ? "" : `${folder}/`}${entry.name.toString("latin1")}`);
    } catch {
      return [];
    }
  });
}

/** The root, the directories of new or changed paths, and those of known special files. */
function foldersToSearch(paths: readonly RawPath[], known: ReadonlySet<RawPath>): ReadonlySet<RawPath> {
  return new Set(["", ...paths.map(parentOf), ...Array.from(known, parentOf)]);
}

/** Those of the paths that git does not ignore. */
export async function findNotIgnored(checkout: Checkout, paths: readonly string[]): Promise<readonly string[]> {
  const found = new Set(await withoutIgnored(checkout, paths.map(toRawPath)));
  return paths.filter((path) => found.has(toRawPath(path)));
}

async function withoutIgnored(checkout: Checkout, paths: readonly RawPath[]): Promise<readonly RawPath[]> {
  if (paths.length === 0) return paths;
  const names = new Set(await findIgnored(checkout, paths));
  return paths.filter((path) => !names.has(path));
}

async function findIgnored(checkout: Checkout, paths: readonly RawPath[]): Promise<readonly RawPath[]> {
  const ignored = await worktreeGit(checkout).result({
    args: ["check-ignore", "-z", "--stdin"],
    // This command has no literal paths. A leading "./" makes a colon or an asterisk in a name harmless.
    input: joinRecords(paths.map((path) => `./${path}`)),
    env: { GIT_LITERAL_PATHSPECS: "0" },
  });
  return splitRecords(ignored.stdout).map((path) => path.slice(2));
}

/**
 * Those of these links that stand in for a directory that git ignores. The rule `node_modules/` does not match a link
 * of that name, but no user wants it in a commit. Git does not answer for such a path, so it is asked about directories
 * of the same names in a scratch worktree, which contains only the rules.
 */
export async function findLinksToIgnored(
  repository: Pick<Repository, "home">,
  { root, gitDir }: Checkout,
  links: readonly RawPath[],
): Promise<ReadonlySet<RawPath>> {
  if (links.length === 0) return new Set();
  await using scratch = await openScratch(repository.home);
  const folders = new Set(links.flatMap(foldersAbove));
  for (const link of links) await mkdir(absolutePath(scratch.folder, link), { recursive: true });
  for (const folder of folders) {
    const rules = `${folder === "" ? "" : `${folder}/`}.gitignore`;
    // A folder whose name is not UTF-8 is not found, and its own rules do not count.
    const path = absolutePath(root, rules).toString();
    const read = readRegularFile({ path, maxBytes: MAX_RULES_BYTES });
    if (read.kind === "read") await writeFile(absolutePath(scratch.folder, rules), read.bytes);
  }
  return new Set(await findIgnored({ root: scratch.folder, gitDir }, links));
}

const MAX_RULES_BYTES = 1024 * 1024;

function foldersAbove(path: RawPath): readonly RawPath[] {
  const parent = parentOf(path);
  return parent === "" ? [""] : [parent, ...foldersAbove(parent)];
}

/**
 * The commit checked out in a nested repository or submodule; null if there is none. Read without git, because git
 * would apply that repository's configuration.
 */
function readRepositoryHead(root: string, path: RawPath): string | null {
  const dotGit = join(absolutePath(root, path).toString("latin1"), ".git");
  const gitDir = resolveGitLink(dotGit);
  return gitDir === undefined ? null : readGitDirHead(gitDir);
}
