import { join } from "node:path";
import type { Skipped } from "../../core/checkpoint/checkpoint.ts";
import { createInspector } from "./inspect-path.ts";
import {
  compareIndexes,
  parseIndexEntry,
  type IndexEntry,
  type IndexDifference,
  type IndexMemo,
} from "../indexes/index-memo.ts";
import { createGit, type Git } from "../git/git-command.ts";
import { readRepositoryHead } from "./head-files.ts";
import { capturePaths, planCapture, type CapturePlan, type Found } from "./plan-capture.ts";
import type { IndexState } from "../indexes/index-state.ts";
import { borrowIndex, fileKey, type BorrowedIndex } from "../indexes/private-index.ts";
import { joinRecords, splitRecords, type RawPath } from "../raw-path.ts";
import type { Checkout, Repository } from "../repository.ts";
import { findSpecialFiles, foldersToSearch, withoutIgnored } from "./special-files.ts";
import { readUserIndex, type ReadUserIndex, type UserIndex } from "../indexes/user-index.ts";

export interface CaptureOptions {
  readonly maxUntrackedBytes: number;
  readonly includeIgnored: boolean;
}

export const DEFAULT_CAPTURE: CaptureOptions = { maxUntrackedBytes: 20 * 1024 * 1024, includeIgnored: false };

export interface Captured {
  readonly tree: string;
  readonly skipped: readonly Skipped[];
  readonly nested: CapturePlan["nested"];
}

/**
 * The whole worktree as a tree object. Reads the user's index, never writes it; what it writes is objects and our own index.
 * `onUserIndex` is told early what the user's index says, so that it can be stored while the files are looked at.
 */
export async function captureTree(
  place: CapturePlace,
  options: CaptureOptions,
  onUserIndex?: (index: UserIndex) => void,
): Promise<Captured> {
  const key = `${options.maxUntrackedBytes}${options.includeIgnored ? "-all" : ""}`;
  const borrowed = await borrowIndex({ home: place.home, key });
  try {
    return await capture(place, options, gitsOf(place, borrowed, "given"), borrowed, onUserIndex);
  } catch (error) {
    if (!(await isIndexTorn(place, borrowed))) throw error;
    return await capture(place, options, gitsOf(place, borrowed, "none"), borrowed, onUserIndex);
  } finally {
    await borrowed.release();
  }
}

export interface CapturePlace extends Checkout {
  readonly repository: Repository;
  /** Our folder in this worktree's git directory. */
  readonly home: string;
  /** Our git directory for this worktree, with the shared part of its indexes. */
  readonly privateGitDir: string;
}

const MAX_LOOKS = 5;
const NOTHING_KNOWN: Pick<IndexMemo, "young" | "special"> = { young: new Map(), special: new Set() };

async function capture(
  place: CapturePlace,
  options: CaptureOptions,
  git: Gits,
  borrowed: BorrowedIndex,
  onUserIndex: ((index: UserIndex) => void) | undefined,
): Promise<Captured> {
  const { state } = borrowed;
  for (let look = 1; ; look++) {
    const now = Date.now();
    const [{ index, difference, compared }, changed, others] = await Promise.all([
      readDifference(place, git, state, onUserIndex),
      state === undefined ? [] : listChanged(git.own),
      listOthers(git.user, options),
    ]);
    const { young, special: known } = state?.memo ?? NOTHING_KNOWN;
    const memo = { ...difference, young, special: known };
    const facts = { memo, compared, now, changed, others, maxUntrackedBytes: options.maxUntrackedBytes };
    const paths = capturePaths(facts);
    const found = lookAt(place.root, paths);
    const special = await lookForSpecial(place, options, paths, known);
    const sparse = new Map(memo.sparse ? (await index.entries()).map((entry) => [entry.path, entry]) : []);
    // The parts were read one after the other: they fit together only if the user's index stood still meanwhile.
    if ((await fileKey(join(place.gitDir, "index"))) !== index.key && look < MAX_LOOKS) continue;

    const plan = planCapture(facts, {
      found: (path) => found.get(path) ?? { kind: "absent" },
      head: (path) => readRepositoryHead(place.root, path),
      special,
      sparse: (path) => (sparse.get(path)?.skip === true ? sparse.get(path) : undefined),
    });
    const touched = await applyCapture(git.own, plan, place.repository.zero);
    const tree = state !== undefined && !touched ? state.tree : await git.own.line({ args: ["write-tree"] });
    const userIndex = { key: index.key, paths: index.paths, content: index.content };
    const seenSpecial = special.length !== known.size || special.some((path) => !known.has(path));
    if (touched || seenSpecial || state?.userIndex.key !== index.key)
      await borrowed.keep({ userIndex, tree, memo: plan.memo });
    return { tree, skipped: plan.skipped, nested: plan.nested };
  }
}

/** How the two indexes differ: as remembered while the user's says the same about paths, else by comparing them. */
async function readDifference(
  place: CapturePlace,
  git: Gits,
  state: IndexState | undefined,
  onUserIndex: ((index: UserIndex) => void) | undefined,
): Promise<{ readonly index: ReadUserIndex; readonly difference: IndexDifference; readonly compared: boolean }> {
  const index = await readUserIndex(git.user, place.gitDir, state?.userIndex);
  onUserIndex?.(index);
  if (state !== undefined && state.userIndex.paths === index.paths)
    return { index, difference: state.memo, compared: false };
  const [user, own] = await Promise.all([index.entries(), state === undefined ? [] : listEntries(git.own)]);
  return { index, difference: compareIndexes(user, own), compared: true };
}

interface Gits {
  /** Our index, no conversion, no config. */
  readonly own: Git;
  /** The user's index and ignore rules. */
  readonly user: Git;
}

/**
 * A power cut can leave the user's index empty or half zeros, and just then they need their files saved: what it cannot say any
 * more is taken as not said. Only where git reads the same worktree well without it, so that no other failure hides here.
 */
async function isIndexTorn(place: CapturePlace, borrowed: BorrowedIndex): Promise<boolean> {
  const args = ["ls-files", "-s", "-z"];
  const given = await gitsOf(place, borrowed, "given").user.result({ args });
  if (given.kind !== "exited" || given.code === 0) return false;
  return (await gitsOf(place, borrowed, "none").user.result({ args })).code === 0;
}

function gitsOf(place: CapturePlace, borrowed: BorrowedIndex, userIndex: "given" | "none"): Gits {
  const { repository, root, gitDir } = place;
  const own = createGit({
    cwd: root,
    gitDir: place.privateGitDir,
    workTree: root,
    objectDirectory: repository.objectDirectory,
    indexFile: borrowed.path,
  });
  const absent = userIndex === "none" ? { indexFile: `${borrowed.path}-none` } : {};
  return { own, user: createGit({ cwd: root, gitDir, workTree: root, ...absent }) };
}

async function listEntries(git: Git): Promise<IndexEntry[]> {
  return splitRecords(await git.output({ args: ["ls-files", "-s", "-v", "-z"] })).map(parseIndexEntry);
}

async function listChanged(git: Git): Promise<RawPath[]> {
  // Submodules are looked at by hand: git would start itself inside them, under their config.
  return splitRecords(await git.output({ args: ["diff-files", "--name-only", "--ignore-submodules=all", "-z"] }));
}

async function listOthers(git: Git, options: CaptureOptions): Promise<RawPath[]> {
  const rules = options.includeIgnored ? [] : ["--exclude-standard"];
  return splitRecords(await git.output({ args: ["ls-files", "--others", ...rules, "-z"] }));
}

/** Those that are known were judged before; new ones are rare enough to ask git whether they are ignored. */
async function lookForSpecial(
  place: CapturePlace,
  options: CaptureOptions,
  paths: readonly RawPath[],
  known: ReadonlySet<RawPath>,
): Promise<readonly RawPath[]> {
  const all = findSpecialFiles(place.root, foldersToSearch(paths, known));
  if (options.includeIgnored) return all;
  const visible = await withoutIgnored(
    place,
    all.filter((path) => !known.has(path)),
  );
  return [...all.filter((path) => known.has(path)), ...visible].sort();
}

function lookAt(root: string, paths: readonly RawPath[]): Map<RawPath, Found> {
  const inspect = createInspector(root);
  return new Map(paths.map((path) => [path, inspect(path)]));
}

async function applyCapture(git: Git, plan: CapturePlan, zero: string): Promise<boolean> {
  const lines = [
    ...plan.remove.map((path) => `0 ${zero}\t${path}`),
    ...plan.entries.map(({ mode, id, path }) => `${mode} ${id}\t${path}`),
  ];
  if (lines.length > 0) {
    await git.output({ args: ["update-index", "-z", "--index-info"], input: joinRecords(lines) });
  }
  if (plan.absent.length > 0) {
    await git.output({ args: ["update-index", "--skip-worktree", "-z", "--stdin"], input: joinRecords(plan.absent) });
  }
  if (plan.add.length > 0) {
    // --remove: a file may vanish between our look and git's.
    const args = ["update-index", "--add", "--remove", "--replace", "-z", "--stdin"];
    await git.output({ args, input: joinRecords(plan.add) });
  }
  return lines.length > 0 || plan.absent.length > 0 || plan.add.length > 0;
}
