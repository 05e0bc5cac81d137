// Takes snapshots of a worktree: captures the files, verifies the objects, commits and pins them.

import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { FilesPlane } from "@holdfast/core/checkpoint";
import type { CurrentFiles, PreviewSnapshot, SnapshotParams } from "@holdfast/core/workspace";
import { HoldfastError } from "@holdfast/platform/error";
import { gitError } from "@holdfast/platform/git-command";
import { findOperation, readHead } from "./branch-refs.ts";
import { type CaptureOptions, type Captured, type WorktreeContext, captureTree } from "./capture.ts";
import { snapshotIdentity } from "./commits.ts";
import { findDamagedObjects, objectsNamedInError } from "./damaged-objects.ts";
import { isDamaged, syncRepository } from "./objects.ts";
import { quotePath } from "./paths.ts";
import { pinSnapshot } from "./pins.ts";
import { type UserIndex, deletePrivateIndexes, fileKey, openScratch } from "./private-index.ts";
import { type TreeChange, diffTrees } from "./tree-diff.ts";

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
  const look = await previewSnapshot(worktree, { message, at, ...(base === undefined ? {} : { base }) }, options);
  const ref = await pinSnapshot(worktree.repository, { run, sequence, commit: look.commit });
  await syncRepository(worktree.repository);
  return { ...look, ref };
}

/** Like takeSnapshot, without a ref and without a sync. Use it for planning only, because gc may remove it. */
export async function previewSnapshot(
  worktree: WorktreeContext,
  params: Pick<SnapshotParams, "message" | "at" | "base">,
  options: CaptureOptions,
): Promise<PreviewSnapshot> {
  const text = { message: params.message + captureLine(options), identity: snapshotIdentity(epochSeconds(params.at)) };
  const reading = readHead(worktree);
  const [{ head, branch }, operation, { captured, index, changes, commit }] = await Promise.all([
    reading,
    findOperation(worktree.gitDir),
    captureWhole({ worktree, options, text, head: reading.then((found) => found.head) }),
  ]);
  return {
    ...toCurrentFiles(captured),
    commit,
    worktree: worktree.root,
    head,
    branch,
    base: params.base ?? null,
    artifacts: changes.slice(0, MAX_ARTIFACTS).map(toArtifact),
    artifactCount: changes.length,
    index: index?.blob ?? null,
    operation,
  };
}

export function toCurrentFiles({ tree, skipped, nested }: Captured): CurrentFiles {
  return { tree, skipped, nested: nested.map(({ path, head }) => ({ path: quotePath(path), head })) };
}

/** The capture options of a snapshot, from its commit message. A comparison must use the same options. */
export function parseCaptureOptions(message: string): CaptureOptions | undefined {
  const match = [...message.matchAll(/^Holdfast-Capture: (\d+)( ignored)?$/gm)].at(-1);
  if (match?.[1] === undefined) return undefined;
  return { maxUntrackedBytes: Number(match[1]), includeIgnored: match[2] !== undefined };
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

function captureLine(options: CaptureOptions): string {
  return `Holdfast-Capture: ${options.maxUntrackedBytes}${options.includeIgnored ? " ignored" : ""}\n`;
}

interface WholeCapture {
  readonly captured: Captured;
  readonly index: StoredIndex | null;
  /** Compared with HEAD. */
  readonly changes: readonly TreeChange[];
  /** Not pinned yet. */
  readonly commit: string;
}

/**
 * Commits a captured tree and verifies that all its objects exist. Our index may name objects that a gc removed, and a
 * power cut can leave objects of another git empty. In that case the files are read again, once.
 */
async function captureWhole(params: {
  readonly worktree: WorktreeContext;
  readonly options: CaptureOptions;
  readonly text: { readonly message: string; readonly identity: Readonly<Record<string, string>> };
  readonly head: Promise<string | null>;
}): Promise<WholeCapture> {
  const { worktree, options, text } = params;
  for (let attempt = 1; ; attempt++) {
    let storing: Promise<StoredIndex | null> = Promise.resolve(null);
    const captured = await captureTree(worktree, options, (index) => {
      storing = storeUserIndex(worktree, index);
      // The error is handled where the promise is awaited. Until then it must not count as unhandled.
      storing.catch(() => undefined);
    });
    const [head, index] = await Promise.all([params.head, storing]);
    // Git cannot commit on top of a commit that it cannot read. The snapshot still records it as HEAD.
    const parent = head !== null && (await isDamaged(worktree.repository, head)) ? null : head;
    const argsOn = (...ids: readonly (string | null | undefined)[]): readonly string[] => {
      const parents = ids.flatMap((id) => (id === undefined || id === null ? [] : ["-p", id]));
      return ["commit-tree", captured.tree, ...parents, "-F", "-"];
    };
    const input = Buffer.from(text.message);
    const args = argsOn(parent, index?.commit);
    const [check, first] = await Promise.all([
      checkTree({
        worktree,
        head,
        tree: captured.tree,
        also: index === null ? [] : [index.blob, index.tree, index.commit],
      }),
      worktree.repository.objects.result({ args, input, env: text.identity }),
    ]);
    if (check.kind === "whole") {
      // The user's last commit may be gone: git does not sync what it writes, and a power cut may have lost it.
      const isGone = first.code !== 0 && parent !== null && !(await isThere(worktree, parent));
      const committed = isGone
        ? await worktree.repository.objects.result({ args: argsOn(index?.commit), input, env: text.identity })
        : first;
      if (committed.code !== 0) throw gitError(args, committed);
      const commit = committed.stdout.toString("utf8").trim();
      if (await isDamaged(worktree.repository, commit)) throw damaged(worktree, [commit]);
      return { captured, index, changes: check.changes, commit };
    }
    if (attempt > 1) throw damaged(worktree, check.missing);
    await deletePrivateIndexes(worktree.home);
  }
}

type TreeCheck =
  | { readonly kind: "whole"; readonly changes: readonly TreeChange[] }
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
  const diff = (from: string): Promise<readonly TreeChange[]> => diffTrees(repository.objects, from, tree);
  let changes: readonly TreeChange[];
  let ids: readonly string[];
  try {
    // Damaged trees of HEAD are not a reason to refuse. Then everything counts as changed.
    [changes, ids] = await Promise.all([
      diff(head ?? repository.emptyTree).catch(() => diff(repository.emptyTree)),
      objectsOf(worktree, tree),
    ]);
  } catch (error) {
    return { kind: "damaged", missing: [tree, ...objectsNamedInError(error)] };
  }
  const damaged = await findDamagedObjects(worktree, [...new Set([tree, ...ids, ...also])]);
  return damaged.length === 0 ? { kind: "whole", changes } : { kind: "damaged", missing: damaged };
}

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

async function isThere(worktree: WorktreeContext, id: string): Promise<boolean> {
  return (await worktree.repository.objects.result({ args: ["cat-file", "-e", id] })).code === 0;
}

interface StoredIndex {
  readonly blob: string;
  readonly tree: string;
  /** A second parent of the snapshot that keeps the blob reachable. The next gc would remove an unreferenced blob. */
  readonly commit: string;
}

/**
 * Stores the user's index as a blob, so that staged changes can be recovered. It is stored again only when its content
 * changes: git rewrites the file at every `status`, and megabytes per snapshot are too much. The caller checks that the
 * objects still exist; `deletePrivateIndexes` also deletes this cache.
 */
async function storeUserIndex(worktree: WorktreeContext, index: UserIndex): Promise<StoredIndex | null> {
  if (index.key === null) return null;
  const memory = join(worktree.home, "index-of-user");
  const known = parseMemory(await readFile(memory, "utf8").catch(() => ""));
  if (known?.content === index.content) return known;
  const path = join(worktree.gitDir, "index");
  const input = await readFile(path);
  const { objects } = worktree.repository;
  const blob = await objects.line({ args: ["hash-object", "-w", "-t", "blob", "--no-filters", "--stdin"], input });
  // Not mktree, which syncs nothing whatever core.fsync is set to.
  const entry = Buffer.concat([Buffer.from("100644 index\0"), Buffer.from(blob, "hex")]);
  const tree = await objects.line({ args: ["hash-object", "-w", "-t", "tree", "--stdin"], input: entry });
  const commit = await objects.line({
    args: ["commit-tree", tree, "-F", "-"],
    input: Buffer.from("The user's index at a snapshot\n"),
    env: snapshotIdentity(0),
  });
  // Cached only if the file did not change since it was listed.
  if ((await fileKey(path)) === index.key)
    await remember(worktree, memory, `${index.content} ${blob} ${tree} ${commit}\n`);
  return { blob, tree, commit };
}

async function remember(worktree: WorktreeContext, memory: string, text: string): Promise<void> {
  const scratch = await openScratch(worktree.home);
  try {
    const draft = join(scratch.folder, "user-index");
    await writeFile(draft, text, { mode: 0o600 });
    await rename(draft, memory);
  } finally {
    await scratch.release();
  }
}

const MEMORY = /^[0-9a-f]{40}(?: [0-9a-f]{40,64}){3}\n$/;

function parseMemory(text: string): (StoredIndex & { readonly content: string }) | undefined {
  if (!MEMORY.test(text)) return undefined;
  const [content = "", blob = "", tree = "", commit = ""] = text.trimEnd().split(" ");
  return { content, blob, tree, commit };
}
