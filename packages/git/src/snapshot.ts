// Takes snapshots of a worktree: captures the files, verifies the objects and pins them.

import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { FilesPlane } from "@holdfast/core/checkpoint";
import type { CurrentFiles, PreviewSnapshot, SnapshotParams } from "@holdfast/core/workspace";
import { HoldfastError } from "@holdfast/platform/error";
import { findOperation, readHead } from "./branch-refs.ts";
import { type CaptureOptions, type Captured, type WorktreeContext, captureTree } from "./capture.ts";
import { checkObjects, objectsNamedInError } from "./damaged-objects.ts";
import { createFacts, fileKey } from "./facts.ts";
import { isDamaged, peelLoose, syncNames, syncRepository, writeLooseObject } from "./objects.ts";
import { quotePath } from "./paths.ts";
import { pinSnapshot } from "./pins.ts";
import { type UserIndex, deletePrivateIndexes, openScratch } from "./private-index.ts";
import type { Repository } from "./repository.ts";
import { writeSnapshotObject } from "./snapshot-object.ts";
import { type TreeChange, diffObjects } from "./tree-diff.ts";

/** Captures the worktree, pins the snapshot, and returns when it survives a power cut. */
export async function takeSnapshot(
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
export async function previewSnapshot(
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
  const text = { message: params.message, epochSeconds: epochSeconds(params.at) };
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

export function toCurrentFiles({ tree, skipped, nested }: Captured): CurrentFiles {
  return { tree, skipped, nested: nested.map(({ path, head }) => ({ path: quotePath(path), head })) };
}

const MAX_ARTIFACTS = 1000;

function toArtifact({ path, from, to }: TreeChange): FilesPlane["artifacts"][number] {
  const status = from === null ? "created" : to === null ? "deleted" : "modified";
  return { path: quotePath(path), digest: to?.id ?? null, status };
}

function epochSeconds(at: string): number {
  const time = Date.parse(at);
  if (!Number.isNaN(time)) return Math.floor(time / 1000);
  throw new HoldfastError({ code: "USAGE", message: `${at} is not an ISO 8601 time` });
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
    message: `objects of the snapshot of ${worktree.root} are damaged in the repository: ${missing.slice(0, 3).join(", ")}`,
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
