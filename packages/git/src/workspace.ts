// One worktree as a workspace: takes snapshots (captures the files, verifies the objects and pins them), restores, and switches to a branch.

import { hash } from "node:crypto";
import { mkdir, mkdtemp, readFile, readdir, rename, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { FilesPlane } from "@holdfast/core/checkpoint";
import type {
  BranchTarget,
  CurrentFiles,
  Diff,
  DiffParams,
  PreviewSnapshot,
  SnapshotParams,
  Workspace,
} from "@holdfast/core/workspace";
import { HoldfastError, describeList, wrapMethodErrors } from "@holdfast/platform/error";
import { type Git, createGit, gitError } from "@holdfast/platform/git-command";
import { isAlive } from "@holdfast/platform/identity";
import { applyRestore } from "./apply-restore.ts";
import { createBranch, findOperation, moveBranch, readBranchTip, readHead, retryWhileLocked } from "./branch-refs.ts";
import {
  type CaptureOptions,
  type Captured,
  DEFAULT_CAPTURE,
  type WorktreeContext,
  captureTree,
  findNotIgnored,
  keepOut,
} from "./capture.ts";
import { parseEpochSeconds } from "./commits.ts";
import { checkObjects, objectsNamedInError, withObjectRepair } from "./damaged-objects.ts";
import { createFacts, fileKey } from "./facts.ts";
import { foldsNames, probeWorktreeNames } from "./folded-names.ts";
import { isDamaged, peelLoose, syncNames, syncRepository, writeLooseObject } from "./objects.ts";
import { quotePath } from "./paths.ts";
import { pinSnapshot } from "./pins.ts";
import { planRestore } from "./plan-restore.ts";
import {
  type UserIndex,
  deletePrivateIndexes,
  openScratch,
  removeQuietly,
  removeStaleOperations,
} from "./private-index.ts";
import { replaceIndex, stageIndex } from "./replace-index.ts";
import {
  type Checkout,
  type Repository,
  ensurePrivateDirectory,
  ensurePrivateGitDir,
  findCheckout,
  findRepository,
  worktreeGit,
} from "./repository.ts";
import { readFileModes } from "./settings.ts";
import { writeSnapshotObject } from "./snapshot-object.ts";
import { type TreeChange, diffObjects, diffSnapshots } from "./tree-diff.ts";
import { repairGitLink } from "./worktree-entry.ts";

export async function openGitWorkspace(repository: Repository, checkout: Checkout): Promise<Workspace> {
  const worktree = await openWorktreeContext(repository, checkout);
  const workspace: Workspace = {
    root: checkout.root,
    privateDirectory: worktree.home,
    notIgnored: (paths) => findNotIgnored(checkout, paths),
    keepOut: async (paths) => keepOut(worktree, paths),
    snapshot: (params) => withObjectRepair(worktree, () => takeSnapshot(worktree, params, optionsOf(params))),
    look: (params) =>
      withObjectRepair(worktree, () =>
        previewSnapshot(worktree, { ...params, message: "look\n\n" }, optionsOf(params)),
      ),
    currentFiles: (params) =>
      withObjectRepair(worktree, async () => toCurrentFiles(await captureTree(worktree, optionsOf(params)))),
    planRestore: (params) => withObjectRepair(worktree, () => planRestore(worktree, params)),
    applyRestore: (plan) => applyRestore(worktree, plan),
    switchTo: (params) => switchTo(worktree, params),
    stage: async ({ index, head }) =>
      index !== null && (await readHead(worktree)).head === head && (await stageIndex(worktree, index)),
  };
  return wrapMethodErrors(workspace, checkout.root);
}

export async function openWorktreeContext(repository: Repository, checkout: Checkout): Promise<WorktreeContext> {
  const home = await ensurePrivateDirectory(checkout.gitDir);
  await removeStaleOperations(home);
  const { objectFormat } = repository;
  const isMain = checkout.gitDir === repository.commonDir;
  const names = isMain ? repository.names : await probeWorktreeNames(checkout.root, home);
  const privateGitDir = await ensurePrivateGitDir({ home, objectFormat, names });
  const fileModes = await readFileModes(repository, checkout.gitDir);
  const { root, gitDir } = checkout;
  return { repository, home, privateGitDir, folds: foldsNames(names), fileModes, root, gitDir };
}

/** Compares files and trees, and writes nothing to the repository. */
export interface Look extends AsyncDisposable {
  /** The files of a worktree now. Their tree is known to this look alone. */
  currentFiles(root: string): Promise<CurrentFiles>;
  diff(params: DiffParams): Promise<Diff>;
}

/**
 * New objects and indexes go to a temporary folder, which reads the objects of the repository and is removed at the end. The indexes of the
 * repository must not be used: they may only name objects that the repository has.
 */
export async function openLook(path: string): Promise<Look> {
  await removeStaleLooks();
  const { repository } = await findRepository(path, { readOnly: true });
  const folder = await mkdtemp(join(tmpdir(), `${LOOK}${process.pid}-`));
  try {
    const objectDirectory = join(folder, "objects");
    await mkdir(join(objectDirectory, "info"), { recursive: true });
    await writeFile(join(objectDirectory, "info/alternates"), `${repository.objectDirectory}\n`);
    const { objectFormat, names } = repository;
    const privateGitDir = await ensurePrivateGitDir({ home: folder, objectFormat, names });
    const objects = createGit({ cwd: folder, gitDir: privateGitDir, objectDirectory });
    const own: Repository = { ...repository, home: folder, objectDirectory, privateGitDir, objects };
    return {
      async currentFiles(root) {
        const checkout = await findCheckout(root);
        if (checkout === undefined) throw missingWorktree(root);
        const worktree = await openWorktreeContext(repository, checkout);
        const indexes = join(folder, hash("sha256", checkout.gitDir));
        await mkdir(indexes, { recursive: true });
        return toCurrentFiles(
          await captureTree({ ...worktree, repository: own, privateGitDir, indexes }, DEFAULT_CAPTURE),
        );
      },
      diff: (params) => diffSnapshots(own, params),
      [Symbol.asyncDispose]: () => removeQuietly(folder),
    };
  } catch (error) {
    await removeQuietly(folder);
    throw error;
  }
}

const LOOK = "holdfast-look-";

/** Removes the folders of processes that were killed. */
async function removeStaleLooks(): Promise<void> {
  for (const name of await readdir(tmpdir()).catch(() => [])) {
    const pid = name.startsWith(LOOK) ? Number.parseInt(name.slice(LOOK.length), 10) : Number.NaN;
    if (pid > 0 && !isAlive(pid)) await removeQuietly(join(tmpdir(), name));
  }
}

function missingWorktree(root: string): HoldfastError {
  return new HoldfastError({
    code: "WORKSPACE_MISSING",
    message: `${root} is not a worktree any more`,
    hint: "Compare with a checkpoint, or resume the run: it creates its worktree again.",
  });
}

function optionsOf(
  params: { readonly maxUntrackedBytes?: number; readonly includeIgnored?: boolean } = {},
): CaptureOptions {
  return {
    maxUntrackedBytes: params.maxUntrackedBytes ?? DEFAULT_CAPTURE.maxUntrackedBytes,
    includeIgnored: params.includeIgnored ?? DEFAULT_CAPTURE.includeIgnored,
  };
}

/** Changes refs and index only, so that no file is lost. After a kill, the same call completes it. */
async function switchTo(worktree: WorktreeContext, { branch, head, commits }: BranchTarget): Promise<boolean> {
  const { repository, root, gitDir } = worktree;
  const git = worktreeGit({ root, gitDir });
  const linked = await repairGitLink(worktree);
  const underWay = (await findOperation(gitDir)) !== null;
  const [now, tip] = await Promise.all([readHead(worktree), readBranchTip(repository, branch)]);
  const moved = tip !== null && tip !== head && commits === "drop";
  const isOnBranch = now.branch === branch && tip !== null && !moved;
  if (isOnBranch && !underWay) return linked;
  if (tip === null) await createBranch(repository, { branch, commit: head });
  if (moved) await moveBranch({ worktree, name: branch, ref: branch }, { from: tip, to: head });
  if (!isOnBranch) {
    const args = ["symbolic-ref", "HEAD", branch];
    const done = await retryWhileLocked(join(gitDir, "HEAD.lock"), () => git.result({ args }));
    if (done.code !== 0) throw gitError(args, done);
  }
  // Otherwise staged changes of the dropped commits would return with the next manual commit, and a conflict would
  // remain one.
  if (commits === "drop" || underWay) await replaceIndex(worktree, tip === null || moved ? head : tip);
  // This is the last step, because after a kill the operation shows that the rest is still to be done.
  if (underWay) await quitOperations(git, gitDir);
  return true;
}

/**
 * Ends abandoned git operations: their state is removed, files and commits remain. One operation may be nested in
 * another.
 */
async function quitOperations(git: Git, gitDir: string): Promise<void> {
  for (let last: string | null = null; ;) {
    const operation = await findOperation(gitDir);
    if (operation === null || operation === last) return;
    // "HEAD" is the current commit of the bisect, so that nothing is checked out.
    await git.result({ args: operation === "bisect" ? ["bisect", "reset", "HEAD"] : [operation, "--quit"] });
    last = operation;
  }
}

/** Captures the worktree, pins the snapshot, and returns when it survives a power cut. */
async function takeSnapshot(
  worktree: WorktreeContext,
  params: SnapshotParams,
  options: CaptureOptions,
): Promise<FilesPlane> {
  const { run, sequence, at, base } = params;
  // A commit message cannot contain a NUL byte, and no save should fail because of its name.
  const title = params.message.replaceAll("\0", "\uFFFD");
  const message = `${title}\n\nHoldfast-Run: ${run}\nHoldfast-Sequence: ${sequence}\n`;
  const asked = { message, at, ...(base === undefined ? {} : { base }) };
  const { preview, isUnchanged } = await makeSnapshot(worktree, asked, options);
  const { ref, changed } = await pinSnapshot(worktree.repository, { ...preview, run, sequence });
  await syncSnapshot(worktree.repository, { ...preview, run, refs: changed }, isUnchanged);
  return { ...preview, ref };
}

/**
 * Most snapshots have the files, the index and the HEAD of the one before. If this process synced those and their
 * objects are still the same files, only the tag and the changed refs are new.
 */
async function syncSnapshot(
  repository: Repository,
  made: PreviewSnapshot & { readonly run: string; readonly refs: readonly string[] },
  isUnchanged: boolean,
): Promise<void> {
  const { run, tree, index, head, snapshot, refs } = made;
  const parts = [repository.objectDirectory, run, tree, index, head].join(" ");
  // Removed first: after a failed sync, only a whole one is believed.
  if (isUnchanged && synced.delete(parts) && (await syncNames(repository, { object: snapshot, refs }))) {
    synced.add(parts);
    return;
  }
  await syncRepository(repository);
  synced.add(parts);
}

/** What this process synced with a snapshot: the run with its files, index and HEAD. */
const synced = new Set<string>();

/** Like takeSnapshot, without a ref and without a sync. Use it for planning only, because gc may remove it. */
async function previewSnapshot(
  worktree: WorktreeContext,
  params: Pick<SnapshotParams, "message" | "at" | "base">,
  options: CaptureOptions,
): Promise<PreviewSnapshot> {
  return (await makeSnapshot(worktree, params, options)).preview;
}

async function makeSnapshot(
  worktree: WorktreeContext,
  params: Pick<SnapshotParams, "message" | "at" | "base">,
  options: CaptureOptions,
): Promise<{ readonly preview: PreviewSnapshot; readonly isUnchanged: boolean }> {
  const text = { message: params.message, epochSeconds: parseEpochSeconds(params.at) };
  const reading = readHead(worktree);
  const [{ head, branch }, operation, { captured, index, changes, snapshot, isUnchanged }] = await Promise.all([
    reading,
    findOperation(worktree.gitDir),
    captureWhole({ worktree, options, text, head: reading.then((found) => found.head) }),
  ]);
  const preview = {
    ...toCurrentFiles(captured),
    snapshot,
    worktree: worktree.root,
    head,
    branch,
    base: params.base ?? null,
    artifacts: changes.slice(0, MAX_ARTIFACTS).map(toArtifact),
    artifactCount: changes.length,
    index,
    operation,
  };
  return { preview, isUnchanged };
}

function toCurrentFiles({ tree, skipped, nested }: Captured): CurrentFiles {
  return { tree, skipped, nested: nested.map(({ path, head }) => ({ path: quotePath(path), head })) };
}

const MAX_ARTIFACTS = 1000;

function toArtifact({ path, from, to }: TreeChange): FilesPlane["artifacts"][number] {
  const status = from === null ? "created" : to === null ? "deleted" : "modified";
  return { path: quotePath(path), digest: to?.id ?? null, status };
}

interface WholeCapture {
  readonly captured: Captured;
  readonly index: string | null;
  /** Compared with HEAD. */
  readonly changes: readonly TreeChange[];
  /** Not pinned yet. */
  readonly snapshot: string;
  /** True if all its objects are the same files as at the last check. */
  readonly isUnchanged: boolean;
}

/**
 * Captures a tree and verifies that all its objects exist. Our index may name objects that a gc removed, and a
 * power cut can leave objects of another git empty. In that case the files are read again, once.
 */
async function captureWhole(params: {
  readonly worktree: WorktreeContext;
  readonly options: CaptureOptions;
  readonly text: { readonly message: string; readonly epochSeconds: number };
  readonly head: Promise<string | null>;
}): Promise<WholeCapture> {
  const { worktree, options, text } = params;
  for (let attempt = 1; ; attempt++) {
    let storing: Promise<string | null> = Promise.resolve(null);
    const captured = await captureTree(worktree, options, (index) => {
      storing = storeUserIndex(worktree, index);
      // The error is handled where the promise is awaited. Until then it must not count as unhandled.
      storing.catch(() => undefined);
    });
    const [head, index] = await Promise.all([params.head, storing]);
    const { tree } = captured;
    const [check, snapshot] = await Promise.all([
      checkTree({ worktree, head, tree, also: index === null ? [] : [index] }),
      writeSnapshotObject(worktree.repository, { tree, head, index, capture: options }, text),
    ]);
    if (check.kind === "whole") {
      if (await isDamaged(worktree.repository, snapshot)) throw damaged(worktree, [snapshot]);
      return { captured, index, changes: check.changes, snapshot, isUnchanged: check.isUnchanged };
    }
    if (attempt > 1) throw damaged(worktree, check.missing);
    await deletePrivateIndexes(worktree.home);
  }
}

type TreeCheck =
  | { readonly kind: "whole"; readonly changes: readonly TreeChange[]; readonly isUnchanged: boolean }
  | { readonly kind: "damaged"; readonly missing: readonly string[] };

/**
 * Checks every object of the snapshot, including those shared with HEAD, because git does not sync the user's commits.
 */
async function checkTree(params: {
  readonly worktree: WorktreeContext;
  readonly head: string | null;
  readonly tree: string;
  readonly also: readonly string[];
}): Promise<TreeCheck> {
  const { worktree, head, tree, also } = params;
  const { repository } = worktree;
  const diff = (from: string): Promise<readonly TreeChange[]> => diffObjects(repository, from, tree);
  let changes: readonly TreeChange[];
  let ids: readonly string[];
  try {
    const before = head === null ? repository.emptyTree : (peelLoose(repository, head)?.tree ?? head);
    // Damaged trees of HEAD are not a reason to refuse. Then everything counts as changed.
    [changes, ids] = await Promise.all([
      diff(before).catch(() => diff(repository.emptyTree)),
      recallObjects(`${repository.objectDirectory} ${tree}`, () => objectsOf(worktree, tree)),
    ]);
  } catch (error) {
    return { kind: "damaged", missing: [tree, ...objectsNamedInError(error)] };
  }
  const { damaged, isUnchanged } = await checkObjects(worktree, [...new Set([tree, ...ids, ...also])]);
  return damaged.length === 0 ? { kind: "whole", changes, isUnchanged } : { kind: "damaged", missing: damaged };
}

// Most snapshots have the files of the one before. The objects themselves are checked for each.
const recallObjects = createFacts<readonly string[]>(2);

async function objectsOf({ repository }: WorktreeContext, tree: string): Promise<readonly string[]> {
  const args = ["ls-tree", "-r", "-t", "-z", "--full-tree", tree];
  const records = (await repository.objects.output({ args })).toString("latin1").split("\0");
  return records.flatMap((record) => (/^\d+ (?:blob|tree) ([0-9a-f]+)\t/.exec(record) ?? []).slice(1));
}

function damaged(worktree: WorktreeContext, missing: readonly string[]): HoldfastError {
  return new HoldfastError({
    code: "GIT_FAILED",
    message: `objects of the snapshot of ${worktree.root} are damaged in the repository: ${describeList(missing, 3)}`,
    hint: "Run `git fsck`. An empty object file left by a power cut can be removed: the content is still in the worktree.",
    data: { missing },
  });
}

/**
 * Stores the user's index as a blob, so that staged changes can be recovered. It is stored again only when its content
 * changes: git rewrites the file at every `status`, and megabytes per snapshot are too much. The caller checks that the
 * objects still exist; `deletePrivateIndexes` also deletes this cache.
 */
async function storeUserIndex(worktree: WorktreeContext, index: UserIndex): Promise<string | null> {
  if (index.key === null) return null;
  const memory = join(worktree.home, "index-of-user");
  const [, content, known] = MEMORY.exec(await readFile(memory, "utf8").catch(() => "")) ?? [];
  if (known !== undefined && content === index.content) return known;
  const path = join(worktree.gitDir, "index");
  const input = await readFile(path);
  const blob = await storeBlob(worktree, input);
  // Cached only if the file did not change since it was listed.
  if ((await fileKey(path)) === index.key) await remember(worktree, memory, `${index.content} ${blob}\n`);
  return blob;
}

/** A large one is left to git, because compressing it here would block this process. */
function storeBlob({ repository }: WorktreeContext, content: Buffer): Promise<string> {
  if (content.length <= SMALL_BYTES) return writeLooseObject(repository, "blob", content);
  const args = ["hash-object", "-w", "-t", "blob", "--no-filters", "--stdin"];
  return repository.objects.line({ args, input: content });
}

const SMALL_BYTES = 256 * 1024;

async function remember(worktree: WorktreeContext, memory: string, text: string): Promise<void> {
  await using scratch = await openScratch(worktree.home);
  const draft = join(scratch.folder, "user-index");
  await writeFile(draft, text, { mode: 0o600 });
  await rename(draft, memory);
}

const MEMORY = /^([0-9a-f]{40}) ([0-9a-f]{40,64})\n$/;
