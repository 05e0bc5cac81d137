// Plans a restore: compares trees and disk, and decides what to write, remove and leave untouched.

import { createHash, hash } from "node:crypto";
import { closeSync, lstatSync, openSync, readSync, readdirSync, readlinkSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import type { FilesPlane, GitPath } from "@holdfast/core/checkpoint";
import type { FileChange, PreviewSnapshot, RestorePlan, Untouched } from "@holdfast/core/workspace";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import { gitError } from "@holdfast/platform/git-command";
import { type PathState, absolutePath, createPathInspector, parentOf } from "./capture-plan.ts";
import { type CaptureOptions, type WorktreeContext, isSystemFile } from "./capture.ts";
import { type FoldedChanges, foldChanges } from "./fold-changes.ts";
import { type Respelling, createNameKey, foldName } from "./folded-names.ts";
import { areComplete, hasTree, hasSnapshot } from "./objects.ts";
import { type RawPath, isSafePath, joinRecords, parsePath, quotePath, splitRecords } from "./paths.ts";
import { LINK_MODE, isRegular, openScratch } from "./private-index.ts";
import { type ObjectFormat, type Repository, privateGit, worktreeGit } from "./repository.ts";
import { readCaptureOptions } from "./snapshot-object.ts";
import {
  type TreeChange,
  type TreeEntry,
  buildTree,
  diffTrees,
  inScope,
  listEntries,
  parseScope,
} from "./tree-diff.ts";

interface RestoreRequest {
  readonly from: PreviewSnapshot;
  readonly to: PreviewSnapshot;
  readonly paths?: readonly string[];
}

/** Computes what a restore would do. Changes nothing. */
export async function planRestore(worktree: WorktreeContext, request: RestoreRequest): Promise<RestorePlan> {
  const { repository } = worktree;
  const { from, to } = request;
  await using scratch = await openScratch(worktree.home);
  const [isThere, all, now, atTarget] = await Promise.all([
    hasTree(repository, to),
    diffPlanes(worktree, request),
    readCaptureOptions(repository, from.snapshot),
    readCaptureOptions(repository, to.snapshot),
  ]);
  const isInScope = createScopeTest(request.paths, worktree.folds);
  // A mode that git ignores stays as it is.
  const modes = new Set(worktree.fileModes ? [] : all.filter(isModeOnly).map(({ path }) => path));
  const isAsked = (path: RawPath): boolean => isInScope(path) && !modes.has(path);
  const changes = all.filter(({ path }) => isAsked(path));
  refuseUnsafe(changes);
  if (!isThere || !(await areComplete(repository, blobsOf(changes)))) throw notWhole(to);
  for (const path of request.paths ?? []) {
    if (!(await isKnown(worktree, path, { all, trees: [from.tree, to.tree] }))) throw unknownPath(path, to.snapshot);
  }
  const rules = { worktree, changes, from, to, now, atTarget, scratch: scratch.folder };
  const { unseen: ignored, exposed } = await compareRules(rules);
  const inspector = createRestoreInspector(worktree);
  const folded = await foldRestore(worktree, { changes, from, to, isAsked }, inspector);
  const decision = decideRestore({ from, to, changes: folded.changes, ignored }, inspector);
  const left = new Set(decision.kept.map(({ path }) => path));
  const respelled = folded.respellings.filter((one) => !left.has(one.to));

  // The tree after the restore: the target, except for untouched paths and paths outside the request.
  const seen = await stillCaptured(worktree, decision.kept, now.includeIgnored ? new Set() : ignored);
  const outside = all.filter(({ path }) => !isAsked(path));
  const edits = [...outside, ...seen].map(({ path, from: entry }) => ({ path, entry }));
  return {
    root: worktree.root,
    fromTree: from.tree,
    targetTree: to.tree,
    toTree: await buildTree({ repository, base: to.tree, edits, scratch: scratch.folder }),
    paths: request.paths ?? null,
    changes: [...respelled.map(describeRespelling), ...decision.changes],
    untouched: decision.untouched,
    blocked: decision.blocked,
    exposed: exposed.map(quotePath),
    capture: now,
  };
}

/** Where names fold, a path is asked for in any spelling: both names of a renamed file are one file. */
function createScopeTest(paths: readonly string[] | undefined, folds: boolean): (path: RawPath) => boolean {
  if (paths === undefined) return () => true;
  const scope = parseScope(paths);
  if (!folds) return (path) => inScope(path, scope);
  const folded = new Set(Array.from(scope, foldName));
  return (path) => inScope(foldName(path), folded);
}

async function foldRestore(
  { repository, folds }: WorktreeContext,
  request: Pick<RestoreRequest, "from" | "to"> & {
    readonly changes: readonly TreeChange[];
    readonly isAsked: (path: RawPath) => boolean;
  },
  { keyOf }: RestoreInspector,
): Promise<FoldedChanges> {
  const { changes, from, to, isAsked } = request;
  if (!folds || changes.length === 0) return { changes, respellings: [] };
  const [now, then] = await Promise.all([listEntries(repository, from.tree), listEntries(repository, to.tree)]);
  const target = [...now.filter(({ path }) => !isAsked(path)), ...then.filter(({ path }) => isAsked(path))];
  return foldChanges(changes, target, keyOf);
}

function describeRespelling({ from, to }: Respelling): FileChange {
  return { kind: "respell", path: quotePath(to), from: quotePath(from) };
}

async function diffPlanes(worktree: WorktreeContext, { from, to }: RestoreRequest): Promise<TreeChange[]> {
  try {
    return await diffTrees(worktree.repository.objects, from.tree, to.tree);
  } catch (error) {
    for (const plane of [to, from]) {
      if (await hasSnapshot(worktree.repository, plane)) continue;
      throw notWhole(plane, error);
    }
    throw error;
  }
}

/** All blobs that the restore reads; the rest of the tree is on disk already. */
function blobsOf(changes: readonly TreeChange[]): readonly string[] {
  return [...new Set(changes.flatMap(({ to }) => (to === null || to.mode === LINK_MODE ? [] : [to.id])))];
}

function notWhole(plane: Pick<FilesPlane, "tree" | "snapshot">, cause?: unknown): HoldfastError {
  return new HoldfastError({
    code: "TREE_MISSING",
    message: `the files of snapshot ${plane.snapshot} (tree ${plane.tree}) are not whole in this repository`,
    hint: "If another machine took the snapshot, run `holdfast store fetch RUN`. Otherwise choose another checkpoint.",
    data: { snapshot: plane.snapshot },
    cause,
  });
}

function refuseUnsafe(changes: readonly TreeChange[]): void {
  const unsafe = changes.filter(({ path }) => !isSafePath(path)).map(({ path }) => quotePath(path));
  if (unsafe.length === 0) return;
  throw new HoldfastError({
    code: "RESTORE_REFUSED",
    message: `the snapshot names ${unsafe[0]}, which would leave the worktree or enter a git directory`,
    hint: "No snapshot of Holdfast contains such a name. Do not trust its source.",
    data: { unsafe },
  });
}

/**
 * Computes the effects of the target's ignore rules. `unseen`: paths that the target lacks because its rules ignored
 * them and git did not track them. Such paths are in `from` because of other rules, or because its capture included
 * ignored files. `exposed`: files that are ignored now and will not be afterwards.
 */
async function compareRules(params: {
  readonly worktree: WorktreeContext;
  readonly changes: readonly TreeChange[];
  readonly from: PreviewSnapshot;
  readonly to: PreviewSnapshot;
  readonly now: CaptureOptions;
  readonly atTarget: CaptureOptions;
  readonly scratch: string;
}): Promise<{ readonly unseen: ReadonlySet<RawPath>; readonly exposed: readonly RawPath[] }> {
  const { worktree, scratch, now, atTarget } = params;
  const { repository } = worktree;
  // Nothing can have existed below a path that is a file in the target.
  const files = new Set(params.changes.filter(({ to }) => to !== null).map(({ path }) => path));
  const gone = params.changes.filter(({ path, to }) => to === null && !inScope(path, files));
  const rules = params.changes.filter(({ path }) => path === ".gitignore" || path.endsWith("/.gitignore"));
  const possible = !atTarget.includeIgnored && (rules.length > 0 || now.includeIgnored);
  const removed = possible ? gone.map(({ path }) => path) : [];
  const hidden = rules.length > 0 && !now.includeIgnored ? await listIgnored(worktree) : [];
  if (removed.length + hidden.length === 0) return { unseen: new Set(), exposed: [] };
  const edits = rules.map(({ path, to }) => ({ path, entry: to }));
  const tree = await buildTree({ repository, base: params.from.tree, edits, scratch });
  const ignored = await findIgnoredBy({ worktree, tree, paths: [...removed, ...hidden], scratch });
  const exposed = hidden.filter((path) => !ignored.has(path) && !files.has(path));
  const covered = removed.filter((path) => ignored.has(path));
  if (covered.length === 0) return { unseen: new Set(), exposed };
  const tracked = await listTrackedThen({ repository, blob: params.to.index, scratch });
  return { unseen: new Set(covered.filter((path) => !tracked.has(path))), exposed };
}

async function listIgnored(worktree: WorktreeContext): Promise<readonly RawPath[]> {
  const git = worktreeGit(worktree);
  const args = ["ls-files", "--others", "--ignored", "--exclude-standard", "-z"];
  return splitRecords(await git.output({ args }));
}

/**
 * Of the changes that are not made, those whose file a later capture sees. An ignored file is seen only if it is
 * tracked.
 */
async function stillCaptured(
  worktree: WorktreeContext,
  kept: readonly TreeChange[],
  ignored: ReadonlySet<RawPath>,
): Promise<readonly TreeChange[]> {
  if (!kept.some(({ path }) => ignored.has(path))) return kept;
  const git = worktreeGit(worktree);
  const tracked = new Set(splitRecords(await git.output({ args: ["ls-files", "-z"] })));
  return kept.filter(({ path }) => !ignored.has(path) || tracked.has(path));
}

/** A mistyped path must not be reported as "nothing to restore". */
async function isKnown(
  worktree: WorktreeContext,
  path: string,
  where: { readonly all: readonly TreeChange[]; readonly trees: readonly string[] },
): Promise<boolean> {
  const scope = parseScope([path]);
  if (where.all.some((change) => inScope(change.path, scope))) return true;
  if (path === "." || path === "") return true;
  for (const tree of where.trees) {
    const args = ["ls-tree", "--name-only", "--full-tree", "-z", tree, "--", path.replace(/\/+$/, "")];
    if ((await worktree.repository.objects.output({ args })).length > 0) return true;
  }
  return false;
}

function unknownPath(path: string, snapshot: string): HoldfastError {
  return usageError(
    `${quotePath(path)} is neither in the worktree nor in snapshot ${snapshot.slice(0, 12)}`,
    "Give paths as `holdfast diff --name-only` prints them.",
  );
}

interface RestoreFacts {
  readonly from: Pick<FilesPlane, "skipped" | "nested">;
  readonly to: Pick<FilesPlane, "skipped" | "nested">;
  /** The differences between the two trees within the requested paths. */
  readonly changes: readonly TreeChange[];
  /** Of the paths to remove, those that the restored ignore rules cover. */
  readonly ignored: ReadonlySet<RawPath>;
}

interface RestoreInspector {
  readonly found: (path: RawPath) => PathState;
  /** True if the file on disk already equals this entry. */
  readonly holds: (path: RawPath, entry: TreeEntry) => boolean;
  /** Files below a directory on disk, and nested repositories. */
  readonly filesBelow: (path: RawPath) => readonly RawPath[];
  /** Equal for two paths that are one file on disk. */
  readonly keyOf: (path: RawPath) => string;
}

interface RestoreDecision {
  readonly changes: readonly FileChange[];
  readonly untouched: readonly Untouched[];
  readonly blocked: readonly GitPath[];
  /** Changes that are not made: the path keeps its content from `from`. */
  readonly kept: readonly TreeChange[];
}

/**
 * Decides what to write, remove and leave untouched. Nothing that is missing from `from` may be overwritten or removed.
 */
function decideRestore(facts: RestoreFacts, inspector: RestoreInspector): RestoreDecision {
  const skippedNow = pathSet(facts.from.skipped);
  const skippedThen = new Map(facts.to.skipped.map((skip) => [parsePath(skip.path) ?? "", skip]));
  const nestedNow = pathSet(facts.from.nested);
  const nestedThen = pathSet(facts.to.nested);
  const untouched: Untouched[] = [];
  const inTheWay = new Set<RawPath>();
  const kept: TreeChange[] = [];
  const wanted: TreeChange[] = [];

  const leave = (change: TreeChange, why: Omit<Untouched, "path">): void => {
    untouched.push({ path: quotePath(change.path), ...why });
    kept.push(change);
  };
  for (const change of facts.changes) {
    const { path, from, to } = change;
    const removes = to === null;
    const then = skippedThen.get(path);
    const repository = from?.mode === LINK_MODE ? path : enclosing(path, nestedNow);
    // A file of the target inside a nested repository cannot be written. The restore is refused unless the file already
    // matches.
    if (repository !== undefined && to !== null && to.mode !== LINK_MODE && !inspector.holds(path, to)) {
      inTheWay.add(repository);
      kept.push(change);
    } else if (repository !== undefined || to?.mode === LINK_MODE) leave(change, NESTED);
    // A path in the current snapshot that is absent on disk is outside the sparse checkout and is left so.
    else if (from !== null && inspector.found(path).kind === "absent") leave(change, { reason: "sparse", bytes: null });
    // A snapshot of another system may hold such a file.
    else if (from === null && isSystemFile(path)) leave(change, { reason: "ignored", bytes: null });
    else if (removes && inScope(path, nestedThen)) leave(change, NESTED);
    else if (removes && then !== undefined) leave(change, { reason: then.reason, bytes: then.bytes });
    else if (removes && facts.ignored.has(path)) leave(change, { reason: "ignored", bytes: null });
    else wanted.push(change);
  }
  const changes = wanted.flatMap((change) => planChange(change, inspector) ?? []);
  const blocked = new Set([...inTheWay, ...findObstacles({ changes, skipped: skippedNow }, inspector)]);
  for (const skip of facts.from.skipped) if (!blocked.has(parsePath(skip.path) ?? "")) untouched.push(skip);
  return { changes, untouched, blocked: [...blocked].map(quotePath), kept };
}

/**
 * Returns what blocks a new file or one of its directories and is not removed by the same changes. A nested git
 * repository blocks too, because no snapshot of this worktree sees files inside it.
 */
export function findObstacles(
  facts: { readonly changes: readonly FileChange[]; readonly skipped: ReadonlySet<RawPath> },
  inspector: Pick<RestoreInspector, "found" | "filesBelow" | "keyOf">,
): readonly RawPath[] {
  const { keyOf } = inspector;
  const removed = new Set(Array.from(pathSet(facts.changes.filter(({ kind }) => kind === "remove")), keyOf));
  const created = pathSet(facts.changes.filter(({ kind }) => kind === "create"));
  const repositories = new Map<RawPath, boolean>();
  const isRepository = (folder: RawPath): boolean => {
    const known = repositories.get(folder) ?? inspector.found(`${folder}/.git`).kind !== "absent";
    repositories.set(folder, known);
    return known;
  };
  const obstacles = [...created].flatMap((path) => {
    for (let folder = parentOf(path); folder !== ""; folder = parentOf(folder)) {
      const { kind } = inspector.found(folder);
      if (kind !== "directory" && kind !== "absent") return removed.has(keyOf(folder)) ? [] : [folder];
      if (kind === "directory" && isRepository(folder)) return [folder];
    }
    const { kind } = inspector.found(path);
    if (kind === "absent") return facts.skipped.has(path) ? [path] : [];
    if (kind !== "directory") return [path];
    return isRepository(path) ? [path] : inspector.filesBelow(path).filter((file) => !removed.has(keyOf(file)));
  });
  return [...new Set(obstacles)];
}

/** The innermost of these directories that is the path or contains it. */
function enclosing(path: RawPath, folders: ReadonlySet<RawPath>): RawPath | undefined {
  for (let at = path; at !== ""; at = parentOf(at)) if (folders.has(at)) return at;
  return undefined;
}

function planChange({ path: raw, from, to }: TreeChange, inspector: RestoreInspector): FileChange | undefined {
  const path = quotePath(raw);
  if (to === null) return { kind: "remove", path };
  if (from === null) return inspector.holds(raw, to) ? undefined : { kind: "create", path, mode: to.mode };
  return { kind: isModeOnly({ from, to }) ? "mode" : "write", path, mode: to.mode };
}

/** The same bytes in an ordinary file: only the executable bit differs. */
export function isModeOnly({ from, to }: Pick<TreeChange, "from" | "to">): boolean {
  return from !== null && to !== null && from.id === to.id && isRegular(from.mode) && isRegular(to.mode);
}

const NESTED = { reason: "nested_repository", bytes: null } as const;

function pathSet(items: readonly { readonly path: GitPath }[]): ReadonlySet<RawPath> {
  return new Set(items.flatMap(({ path }) => parsePath(path) ?? []));
}

/** Inspects the disk without following links and without entering other repositories. */
export function createRestoreInspector(worktree: WorktreeContext): RestoreInspector {
  const { root, folds } = worktree;
  const found = createPathInspector(root);
  return {
    found,
    holds: (path, entry) => found(path).kind !== "absent" && matchesEntry(worktree, path, entry),
    filesBelow: (path) => filesBelow(root, path),
    keyOf: createNameKey(root, folds),
  };
}

/** Reads the file. Use it only for the few files that a capture cannot see. */
export function matchesEntry(
  worktree: Pick<WorktreeContext, "root" | "fileModes"> & { readonly repository: Pick<Repository, "objectFormat"> },
  path: RawPath,
  entry: TreeEntry,
): boolean {
  const { root, fileModes } = worktree;
  const format = worktree.repository.objectFormat;
  const file = absolutePath(root, path);
  try {
    const stat = lstatSync(file);
    if (stat.isSymbolicLink()) {
      return entry.mode === "120000" && blobId(readlinkSync(file, { encoding: "buffer" }), format) === entry.id;
    }
    if (!stat.isFile() || !isRegular(entry.mode)) return false;
    const mode = (stat.mode & 0o100) === 0 ? "100644" : "100755";
    return (mode === entry.mode || !fileModes) && fileId(file, stat.size, format) === entry.id;
  } catch {
    return false;
  }
}

function blobId(bytes: Buffer, format: ObjectFormat): string {
  return hash(format, Buffer.concat([Buffer.from(`blob ${bytes.length}\0`), bytes]));
}

function fileId(file: Buffer, size: number, format: ObjectFormat): string {
  const sum = createHash(format).update(`blob ${size}\0`);
  const chunk = Buffer.allocUnsafe(1024 * 1024);
  const handle = openSync(file, "r");
  try {
    for (let read = readSync(handle, chunk); read > 0; read = readSync(handle, chunk))
      sum.update(chunk.subarray(0, read));
    return sum.digest("hex");
  } finally {
    closeSync(handle);
  }
}

function filesBelow(root: string, folder: RawPath): RawPath[] {
  const entries = readdirSync(absolutePath(root, folder), { withFileTypes: true, encoding: "buffer" });
  return entries.flatMap((entry) => {
    const path = `${folder}/${entry.name.toString("latin1")}`;
    const isFolder = entry.isDirectory() && entry.name.toString("latin1").toLowerCase() !== ".git";
    return isFolder ? filesBelow(root, path) : [path];
  });
}

/**
 * Returns the paths that are ignored once this tree is restored. A file that the restored rules cover may have existed,
 * ignored and unseen, when the snapshot was taken. Removing it because the snapshot lacks it would destroy it. The
 * rules are written to a scratch directory, so that the worktree need not change first.
 */
async function findIgnoredBy(params: {
  readonly worktree: WorktreeContext;
  readonly tree: string;
  readonly paths: readonly RawPath[];
  readonly scratch: string;
}): Promise<ReadonlySet<RawPath>> {
  const { worktree, tree, paths, scratch } = params;
  const { repository } = worktree;
  const layout = join(scratch, "rules");
  await mkdir(layout);
  const folders = new Set<RawPath>();
  for (const path of paths)
    for (let at = parentOf(path); at !== "" && !folders.has(at); at = parentOf(at)) folders.add(at);
  const rules = (await listEntries(repository, tree)).filter(
    ({ path }) => path === ".gitignore" || (path.endsWith("/.gitignore") && folders.has(parentOf(path))),
  );
  for (const { id, path } of rules) {
    await mkdir(absolutePath(layout, parentOf(path)), { recursive: true });
    await writeFile(absolutePath(layout, path), await repository.objects.output({ args: ["cat-file", "blob", id] }));
  }
  const general = join(scratch, "excludes");
  await writeFile(general, await readGeneralRules(worktree));
  const git = privateGit(repository, layout);
  const args = ["-c", `core.excludesFile=${general}`, "check-ignore", "--no-index", "-z", "--stdin"];
  // This command has no literal paths. A leading "./" makes a colon or an asterisk in a name harmless.
  const input = joinRecords(paths.map((path) => `./${path}`));
  const result = await git.result({ args, input, env: { GIT_LITERAL_PATHSPECS: "0" } });
  if (result.kind !== "exited" || (result.code !== 0 && result.code !== NONE_IGNORED)) throw gitError(args, result);
  return new Set(splitRecords(result.stdout).map((path) => path.slice(2)));
}

const NONE_IGNORED = 1;

/** The user's own list, then the repository's: the later one takes precedence, as in git. */
async function readGeneralRules(worktree: WorktreeContext): Promise<Buffer> {
  const git = worktreeGit(worktree);
  const named = await git.result({ args: ["config", "--type=path", "-z", "--get", "core.excludesFile"] });
  const config = process.env["XDG_CONFIG_HOME"] ?? "";
  const own = named.code === 0 ? named.stdout.toString("utf8").replace(/\0$/, "") : undefined;
  const standard = join(config === "" ? join(homedir(), ".config") : config, "git", "ignore");
  const files = [own ?? standard, join(worktree.repository.commonDir, "info", "exclude")];
  const texts = await Promise.all(files.map((file) => readFile(file).catch(() => Buffer.alloc(0))));
  return Buffer.concat(texts.flatMap((text) => [text, Buffer.from("\n")]));
}

/** The paths that were tracked when a snapshot was taken, from the user's index in it. Empty if that cannot be read. */
async function listTrackedThen(params: {
  readonly repository: Repository;
  readonly blob: string | null;
  readonly scratch: string;
}): Promise<ReadonlySet<RawPath>> {
  const { repository, blob, scratch } = params;
  if (blob === null) return new Set();
  const bytes = await repository.objects.result({ args: ["cat-file", "blob", blob] });
  if (bytes.code !== 0) return new Set();
  const indexFile = join(scratch, "user-index");
  await writeFile(indexFile, bytes.stdout);
  const git = privateGit(repository, scratch, indexFile);
  const listed = await git.result({ args: ["ls-files", "-z"] });
  return new Set(listed.code === 0 ? splitRecords(listed.stdout) : []);
}
