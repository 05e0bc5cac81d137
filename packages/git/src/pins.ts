// Refs that protect snapshots and commits of runs from git's garbage collection:
//
//   refs/holdfast/<run>/<sequence>         a checkpoint's snapshot; -<id> is appended if the name was taken
//   refs/holdfast/<run>/<sequence>-index   the user's index at that snapshot
//   refs/holdfast/<run>/head/<commit>      the commits that the run's snapshots are based on
//   refs/holdfast/<run>/side/<commit>      a commit of a side worktree
//   refs/holdfast/<run>/kept/<id>          work that no checkpoint has; only the user removes it

import { existsSync } from "node:fs";
import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { isObjectId } from "@holdfast/core/journal";
import { RUN_ID } from "@holdfast/core/run";
import type { SideWorktreeRef, SnapshotRef } from "@holdfast/core/workspace";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { gitError } from "@holdfast/platform/git-command";
import { listRefs } from "./branch-refs.ts";
import {
  findMissingObjects,
  findObject,
  findUnreached,
  isDamaged,
  linesOf,
  missingCommit,
  peelLoose,
  syncCommit,
  syncRepository,
} from "./objects.ts";
import { openScratch } from "./private-index.ts";
import { isRefAbsent, toRawPath } from "./ref-files.ts";
import { takeLock } from "./replace-index.ts";
import type { Repository } from "./repository.ts";
import { type SnapshotObject, readSnapshotObject } from "./snapshot-object.ts";
import { PIN, removeStaleLock, withStaleFileCleanup } from "./stale-files.ts";

/**
 * Pins a snapshot with the index and the HEAD that it was taken with, so that no gc removes them. An existing ref is
 * never moved: it may be the only one that protects a checkpoint's files.
 *
 * A second, different snapshot of the same sequence (after a crash, or by a worker that lost its lease) gets another
 * name. Garbage collection later removes refs that no checkpoint names.
 */
export async function pinSnapshot(repository: Repository, params: SnapshotPin): Promise<Pinned> {
  const plain = snapshotRef(params);
  return pinWhole(repository, params, [plain, `${plain}-${params.snapshot}`]);
}

interface Pinned {
  readonly ref: string;
  /** All refs that were created or moved, and are not synced yet. */
  readonly changed: readonly string[];
}

/** Pins an existing snapshot under the name of another run or sequence. */
export async function pinAgain(repository: Repository, params: Omit<SnapshotPin, "head" | "index">): Promise<string> {
  return (await pinSnapshot(repository, { ...params, ...(await partsOf(repository, params.snapshot)) })).ref;
}

/** Pins a snapshot or commit of another clone under its name there, such as `7` or `side/<commit>`; under another one if that is taken. */
export async function pinFetched(
  repository: Repository,
  params: { readonly run: string; readonly name: string; readonly id: string },
): Promise<void> {
  const { run, name, id } = params;
  const ref = `${NAMESPACE}${run}/${name}`;
  if ((await findObject(repository.git, ref)) === id) return;
  if (!/^\d/.test(name)) await createRef(repository, [ref], id);
  else
    await pinWhole(repository, { ...(await partsOf(repository, id)), run, snapshot: id }, [
      ref,
      `${NAMESPACE}${run}/${name.replace(/-.*/, "")}-${id}`,
    ]);
}

interface SnapshotPin extends SnapshotParts {
  readonly run: string;
  readonly sequence: number;
  readonly snapshot: string;
}

type SnapshotParts = Pick<SnapshotObject, "head" | "index">;

async function partsOf(repository: Repository, id: string): Promise<SnapshotParts> {
  return (await readSnapshotObject(repository, id)) ?? { head: null, index: null };
}

async function pinWhole(
  repository: Repository,
  pin: SnapshotParts & { readonly run: string; readonly snapshot: string },
  names: readonly string[],
): Promise<Pinned> {
  const { run, snapshot, head } = pin;
  const [plain = ""] = names;
  const index =
    pin.index !== null && (await findMissingObjects(repository, [pin.index])).length === 0 ? pin.index : null;
  const headChange = head === null ? null : await planHead(repository, run, head);
  const changes: readonly RefChange[] = [
    { ref: plain, from: null, to: snapshot },
    ...(index === null ? [] : [{ ref: `${plain}-index`, from: null, to: index }]),
    ...(headChange === null ? [] : [headChange]),
  ];
  if (await changeRefs(repository, changes)) return { ref: plain, changed: changes.map(({ ref }) => ref) };
  const ref = await createRef(repository, names, snapshot);
  const changed = [ref];
  if (index !== null) changed.push(await createRef(repository, [`${ref}-index`], index));
  if (headChange !== null) {
    // If another process moved the ref or a killed git locked it, the commit gets a ref of its own.
    const isMoved = await changeRefs(repository, [headChange]);
    changed.push(isMoved ? headChange.ref : await createRef(repository, [headRef(run, headChange.to)], headChange.to));
  }
  return { ref, changed };
}

interface RefChange {
  readonly ref: string;
  /** null: the ref must not exist. */
  readonly from: string | null;
  readonly to: string;
}

/** Changes all of these refs with one git. False, and none is changed, if one has another value or is locked. */
async function changeRefs(repository: Repository, changes: readonly RefChange[]): Promise<boolean> {
  const lines = changes.map(({ ref, from, to }) => `update ${ref} ${to} ${from ?? repository.zero}\n`);
  return (
    (await repository.git.result({ args: ["update-ref", "--stdin"], input: Buffer.from(lines.join("")) })).code === 0
  );
}

/**
 * Plans how to pin a commit that snapshots of the run are based on, with its history; null if a ref has it already. As
 * long as the run's commits follow each other, it has one such ref. A ref moves only if the new commit or another ref
 * reaches what it named, so no commit is let go of. After a rebase or an amended commit, the run has one more. The
 * commit is synced: a ref that names a lost commit protects nothing, and a moved one would no longer protect what it
 * named before.
 */
async function planHead(repository: Repository, run: string, head: string): Promise<RefChange | null> {
  const listed = Array.from(await listRefs(repository, headRef(run, "")), ([ref, id]) => ({ ref, id }));
  if (listed.some(({ id }) => id === head)) return null;
  // The user's last commit may be gone or empty: git does not sync what it writes, and a power cut may have lost it.
  if ((await findMissingObjects(repository, [head])).length > 0 || (await isDamaged(repository, head))) return null;
  const parents = peelLoose(repository, head)?.parents ?? [];
  const follows = listed.every(({ id }) => parents.includes(id));
  const tips = follows ? [head] : await findTips(repository, [head, ...listed.map(({ id }) => id)]);
  if (!tips.includes(head)) return null;
  await syncCommit(repository, head);
  const reached = listed.find(({ id }) => !tips.includes(id));
  return { ref: reached?.ref ?? headRef(run, head), from: reached?.id ?? null, to: head };
}

/** Those of the commits that no other one reaches. All of them if git fails, for example for a broken history. */
async function findTips(repository: Repository, commits: readonly string[]): Promise<readonly string[]> {
  const found = await repository.git.result({ args: ["merge-base", "--independent", ...commits] });
  return found.code === 0 ? found.stdout.toString("utf8").trim().split("\n") : commits;
}

function headRef(run: string, commit: string): string {
  return `${NAMESPACE}${run}/head/${commit}`;
}

/**
 * Creates the first of these refs that is free or already names the object, and returns it. A killed git leaves the
 * lock of a ref, and the user should not have to remove it: then the next name is used.
 */
export async function createRef(repository: Repository, names: readonly string[], id: string): Promise<string> {
  for (const ref of [...names, ...[...SPARE].map((digit) => `${names.at(-1) ?? ""}${digit}`)]) {
    const args = ["update-ref", ref, id, repository.zero];
    const made = await repository.git.result({ args });
    const there = made.code === 0 ? id : await findObject(repository.git, ref);
    if (there === id) return ref;
    if (there === null && !existsSync(join(repository.commonDir, `${ref}.lock`))) throw gitError(args, made);
  }
  throw new HoldfastError({
    code: "WORKSPACE_BUSY",
    message: `every name for ${names.join(" and ")} is taken or locked`,
    hint: "Wait for the git that works there; if none is running, remove those lock files.",
    retry: "later",
  });
}

const SPARE = "0123456789abcdef";

export async function listPins(repository: Repository, run?: string): Promise<SnapshotRef[]> {
  const below = namespaceOf(run);
  if (isRefAbsent(toRawPath(repository.commonDir), below.slice(0, -1))) return [];
  const all = await repository.git.result({ args: ["for-each-ref", FACTS, below] });
  if (all.code === 0) return parsePins(all.stdout);
  // One damaged object makes git fail for the whole list. Separate calls return the others.
  const names = await repository.git.line({ args: ["for-each-ref", "--format=%(refname)", below] });
  const pins = await Promise.all(names.split("\n").map((ref) => damagedOrWhole(repository, ref)));
  return pins.flat();
}

/** Empty if git cannot read the history of a commit: then no ref could protect it. */
export async function findUnpinned(repository: Repository, commits: readonly string[]): Promise<ReadonlySet<string>> {
  const refs = [`--glob=${NAMESPACE}*/head/*`];
  return findUnreached(repository, { commits, refs }).catch(() => new Set<string>());
}

/**
 * Counts what neither a branch, tag or remote nor the HEADs of the snapshots have. 0 when git cannot count, for example
 * because an object is damaged.
 */
export async function pinnedBytes(repository: Repository, run?: string): Promise<number> {
  const heads = new Set((await listPins(repository, run)).flatMap(({ head }) => head ?? []));
  const input = linesOf([...heads].map((head) => `^${head}^{tree}`));
  const all = ["--ignore-missing", `--glob=${namespaceOf(run)}`, "--not", "--branches", "--tags", "--remotes"];
  const args = ["rev-list", "--objects", "--disk-usage", "--stdin", ...all];
  return Number((await repository.git.find({ args, input })) ?? 0);
}

const FACTS =
  "--format=%(objectname) %(refname) %(creatordate:unix) %(trailers:key=Holdfast-Head,valueonly,separator=%2C)";

/** The age and HEAD of a damaged snapshot are unknown. It counts as fresh, so that no gc removes its ref. */
async function damagedOrWhole(repository: Repository, ref: string): Promise<SnapshotRef[]> {
  const one = await repository.git.result({ args: ["for-each-ref", FACTS, ref] });
  if (one.code === 0) return parsePins(one.stdout);
  const name = await repository.git.line({ args: ["for-each-ref", "--format=%(objectname) %(refname)", ref] });
  return parsePins(Buffer.from(`${name} ${Math.floor(Date.now() / 1000)} `));
}

function parsePins(output: Buffer): SnapshotRef[] {
  return output
    .toString("utf8")
    .split("\n")
    .flatMap((line) => {
      const [, snapshot, ref, run, sequence, seconds, head] = SNAPSHOT_REF_LINE.exec(line) ?? [];
      if (snapshot === undefined || ref === undefined || run === undefined) return [];
      const createdAt = new Date(Number(seconds) * 1000).toISOString();
      return [{ ref, run, sequence: Number(sequence), snapshot, head: head ?? null, createdAt }];
    });
}

const SNAPSHOT_REF_LINE = /^([0-9a-f]+) (refs\/holdfast\/([^/]+)\/(\d+)(?:-[0-9a-f]+)?) (\d+) ?([0-9a-f]+)?$/;

export async function removePins(repository: Repository, named: readonly string[]): Promise<void> {
  const other = named.find((ref) => !PIN.test(ref));
  if (other !== undefined) {
    throw usageError(`${other} is not a snapshot ref`, "Only refs under refs/holdfast/ can be removed.");
  }
  if (named.length === 0) return;
  const all = [...(await listRefs(repository, NAMESPACE)).keys()];
  await deleteRefs(repository, planRemoval(all, new Set(named)));
}

/** All refs of a run: snapshots, heads, side worktrees, and kept work. */
export async function listRunRefs(repository: Repository, run: string): Promise<readonly string[]> {
  return [...(await listRefs(repository, namespaceOf(run))).keys()];
}

/** Deletes these refs; one of `expected` only if it names that object. The same call completes what a kill interrupted. */
export async function deleteRefs(
  repository: Repository,
  refs: readonly string[],
  expected: ReadonlyMap<string, string> = new Map(),
): Promise<void> {
  if (refs.length === 0) return;
  await withStaleFileCleanup(repository, { kind: "unpinning", refs }, async (env) => {
    await using scratch = await openScratch(repository.home);
    const packed = await readPackedRefs(repository);
    const rest: string[] = [];
    for (const ref of refs) {
      const loose = { ref, expected: expected.get(ref), scratch: scratch.folder };
      if (packed.has(ref) || !(await removeLoose(repository, loose))) rest.push(ref);
    }
    if (rest.length === 0) return;
    const commands = rest.map((ref) => `delete ${[ref, expected.get(ref) ?? ""].join(" ").trim()}\n`).join("");
    await repository.git.output({ args: ["update-ref", "--stdin"], input: Buffer.from(commands), env });
  });
}

/** Adds each index without a snapshot. A run without snapshots needs its HEADs no longer. */
function planRemoval(all: readonly string[], named: ReadonlySet<string>): readonly string[] {
  const kept = new Set(all.filter((ref) => !named.has(ref)));
  const removed = all.filter((ref) => !kept.has(ref) || (INDEX_REF.test(ref) && !kept.has(ref.replace(INDEX_REF, ""))));
  const runs = new Set(removed.map(runOf));
  for (const ref of kept) if (NEEDS_HEAD.test(ref)) runs.delete(runOf(ref));
  const heads = all.filter((ref) => HEAD.test(ref) && runs.has(runOf(ref)));
  return [...new Set([...heads, ...removed])];
}

function runOf(ref: string): string {
  return ref.slice(NAMESPACE.length).split("/")[0] ?? "";
}

const INDEX_REF = /-index[0-9a-f]?$/;
const NEEDS_HEAD = /^refs\/holdfast\/[^/]+\/(?:\d+(?:-[0-9a-f]+)?|kept\/[0-9a-f]+)$/;
const HEAD = /^refs\/holdfast\/[^/]+\/head\//;

async function readPackedRefs(repository: Repository): Promise<ReadonlySet<string>> {
  const text = await readFile(join(repository.commonDir, "packed-refs"), "latin1").catch(() => "");
  return new Set(text.split("\n").map((line) => line.slice(line.indexOf(" ") + 1)));
}

/**
 * Deletes the ref under its own lock, as git does, but without locking packed-refs. A killed `git update-ref -d` leaves
 * packed-refs locked, and then the user's git cannot delete branches. Returns false if git has to do it.
 */
async function removeLoose(
  repository: Repository,
  { ref, expected, scratch }: { readonly ref: string; readonly expected: string | undefined; readonly scratch: string },
): Promise<boolean> {
  const path = join(repository.commonDir, ref);
  const lock = `${path}.lock`;
  if (!existsSync(path)) return false;
  await removeStaleLock(lock);
  if (!(await takeLock(lock, scratch).catch(() => false))) return false;
  const isExpected = expected === undefined || (await readFile(path, "latin1").catch(() => "")).trim() === expected;
  if (isExpected) await rm(path, { force: true });
  await rm(lock, { force: true });
  return isExpected;
}

const NAMESPACE = "refs/holdfast/";

function namespaceOf(run: string | undefined): string {
  return run !== undefined && RUN_ID.test(run) ? `${NAMESPACE}${run}/` : NAMESPACE;
}

function snapshotRef(params: Pick<SnapshotPin, "run" | "sequence">): string {
  if (!RUN_ID.test(params.run) || !Number.isSafeInteger(params.sequence) || params.sequence < 0) {
    throw usageError(
      `${params.run}@${params.sequence} cannot name a snapshot`,
      "A run is lower-case letters, digits and dashes; a sequence is a whole number.",
    );
  }
  return `${NAMESPACE}${params.run}/${params.sequence}`;
}

/**
 * Pins a commit or snapshot outside the namespaces that garbage collection cleans. The name identifies the object, so a
 * repeated call finds the existing ref.
 */
export async function pinKept(repository: Repository, params: RunObject): Promise<string> {
  const { run, commit: id } = params;
  if (!(await hasObject(repository, params))) {
    throw new HoldfastError({
      code: "TREE_MISSING",
      message: `Commit ${id} is not in this repository`,
      hint: "Fetch it from where it is (`git fetch`), then try again.",
      data: { commit: id },
    });
  }
  const parts = await partsOf(repository, id);
  return (await pinWhole(repository, { ...parts, run, snapshot: id }, [`${NAMESPACE}${run}/kept/${id}`])).ref;
}

/**
 * Pins the commit of a side worktree under its own id, so that two side worktrees of the same commit share the ref. A
 * repeated call after a kill finds it. Such a commit shows up in `git log --all`, as the HEAD of any worktree does.
 */
export async function pinSideWorktree(repository: Repository, params: RunObject): Promise<string> {
  const { run, commit } = params;
  if (!(await hasObject(repository, params))) throw missingCommit(commit);
  const ref = await createRef(repository, [`${NAMESPACE}${run}/side/${commit}`], commit);
  await syncRepository(repository);
  return ref;
}

interface RunObject {
  readonly run: string;
  readonly commit: string;
}

async function hasObject(repository: Repository, { run, commit }: RunObject): Promise<boolean> {
  if (!RUN_ID.test(run) || !isObjectId(commit)) {
    throw usageError(`${commit} of run ${run} cannot be pinned under that name`);
  }
  return (await findMissingObjects(repository, [commit])).length === 0;
}

export async function listSideWorktreePins(repository: Repository): Promise<readonly SideWorktreeRef[]> {
  const args = ["for-each-ref", "--format=%(objectname) %(refname) %(committerdate:unix)", "refs/holdfast/*/side/**"];
  const listed = await repository.git.result({ args });
  return listed.stdout
    .toString("utf8")
    .split("\n")
    .flatMap((line) => {
      const [, commit, ref, run, seconds] = SIDE_REF_LINE.exec(line) ?? [];
      if (commit === undefined || ref === undefined || run === undefined) return [];
      return [{ ref, run, commit, createdAt: new Date(Number(seconds) * 1000).toISOString() }];
    });
}

const SIDE_REF_LINE = /^([0-9a-f]+) (refs\/holdfast\/([^/]+)\/side\/[0-9a-f]+) (\d+)$/;
