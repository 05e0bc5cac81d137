// The branch operations that workflows use, implemented with the git binary.

import { StringDecoder } from "node:string_decoder";
import type { Asking, Branch, Branches, ChangedFile } from "@holdfast/core/branch";
import { HoldfastError, wrapMethodErrors, wrapSystemErrors } from "@holdfast/platform/error";
import { createGit, gitError } from "@holdfast/platform/git-command";
import {
  type BranchContext,
  type RepositoryContext,
  isAncestor,
  mergeBase,
  readHead,
  requireTip,
  requireTree,
} from "./branch-refs.ts";
import { commitFiles, writeCurrentTree } from "./commit-files.ts";
import { createFacts } from "./facts.ts";
import { quotePath, splitRecords } from "./paths.ts";
import { inspectPush, pushBranch, undoPush } from "./push.ts";
import { commitResolved, rebase, writeConflict } from "./rebase.ts";
import {
  type FetchedBranches,
  fetchRemote,
  findDefaultBranch,
  findRemote,
  lookUpRemote,
  readRemoteBranch,
  remoteRole,
} from "./remote.ts";
import { findRepository } from "./repository.ts";
import { DIFF_TREE, type TreeChange, diffObjects, inScope, parseFiles, parseScope } from "./tree-diff.ts";
import { openWorktreeContext } from "./workspace.ts";

/** Branch operations on the git binary. `remote` overrides the default choice of remote (upstream, then origin). */
export function createGitBranches(options: { readonly remote?: string } = {}): Branches {
  return {
    of: (worktree) =>
      wrapSystemErrors(worktree, async () => {
        const at = await openBranchContext(worktree);
        return wrapMethodErrors(branchOf(at, options.remote ?? null), at.worktree.root);
      }),
    asking: (folder) =>
      wrapSystemErrors(folder, async () => {
        const at = await openFolder(await findRepository(folder));
        return wrapMethodErrors(askingOf(at, options.remote ?? null, null), at.worktree.root);
      }),
  };
}

async function openBranchContext(worktree: string): Promise<BranchContext> {
  const found = await findRepository(worktree);
  const { checkout } = found;
  if (checkout === undefined) {
    throw new HoldfastError({
      code: "WORKSPACE_MISSING",
      message: `${worktree} is not in a worktree`,
      hint: "Name the folder of a run's worktree.",
    });
  }
  const { root } = checkout;
  const { branch } = await readHead(checkout);
  if (branch === null) {
    throw new HoldfastError({
      code: "WORKSPACE_BUSY",
      message: `${root} is on no branch`,
      hint: "Run `git switch <branch>` there; if a rebase is under way, finish or abort it first.",
    });
  }
  return { ...(await openFolder(found)), name: branch.replace(/^refs\/heads\//, ""), ref: branch };
}

async function openFolder({
  repository,
  checkout,
}: Awaited<ReturnType<typeof findRepository>>): Promise<RepositoryContext> {
  const { root, gitDir } = checkout ?? { root: repository.commonDir, gitDir: repository.commonDir };
  return {
    worktree: await openWorktreeContext(repository, { root, gitDir }),
    git: createGit({ cwd: root, gitDir, ...(checkout === undefined ? {} : { workTree: root }) }),
  };
}

function branchOf(at: BranchContext, remote: string | null): Branch {
  const { onPush, undoPush: _forAsking, ...asking } = askingOf(at, remote, at.name);
  return {
    name: at.name,
    root: at.worktree.root,
    head: () => requireTip(at),
    treeOf: (commit) => requireTree(at, commit),
    commit: (params) => commitFiles(at, params),
    ...asking,
    inspectPush: ({ issue }) => inspectPush(at, { configured: remote, issue }),
    push({ expected }) {
      onPush(at.name);
      return pushBranch(at, { expected, configured: remote });
    },
    rebase: (params) => rebase(at, params),
    placeConflict: (params) => writeConflict(at, params),
    commitResolved: (params) => commitResolved(at, params),
    subjects: (params) => readSubjects(at, params),
    textsAt: (params) => readTextsAt(at, params),
    changedSince: (params) => changedSince(at, params),
    changedBetween: (params) => changedBetween(at, params),
    diffSince: (params) => diffSince(at, params),
  };
}

/** `own` is the run's branch; null if it is unknown. */
function askingOf(
  at: RepositoryContext,
  remote: string | null,
  own: string | null,
): Asking & {
  /** Records that the branch now exists on the remote, if the branches of the remote were listed before. */
  readonly onPush: (branch: string) => void;
} {
  let present: FetchedBranches | null = null;
  return {
    onPush: (branch) => void present?.push.names.add(branch),
    remote: () => findRemote(at, remote, "base"),
    pushRemote: () => findRemote(at, remote, "push"),
    async fetch() {
      const fetched = await fetchRemote(at, remote);
      if (fetched.kind === "failed") return fetched;
      present = fetched.branches;
      return { kind: "fetched" };
    },
    async remoteBranch(branch) {
      const isGone = present?.[remoteRole(branch, own)].names.has(branch) === false;
      return isGone ? null : readRemoteBranch(at, remote, { branch, own });
    },
    lookUpRemote: (branch) => lookUpRemote(at, remote, { branch, own }),
    undoPush: (params) => undoPush(at, remote, params),
    defaultBranch: () => findDefaultBranch(at, remote, present),
    isAncestor: (params) => isAncestor(at, params),
    mergeBase: (params) => mergeBase(at, params),
  };
}

/** A history with huge subjects is read only as far as this many bytes. */
const SUBJECT_BYTES = 256 * 1024;

async function readSubjects(
  { git }: BranchContext,
  { from, most }: Parameters<Branch["subjects"]>[0],
): Promise<readonly string[]> {
  const form = ["--no-merges", "--no-show-signature", "--no-color", "--encoding=UTF-8", "--format=%s", "-z"];
  const args = ["log", ...form, `--max-count=${most}`, "--end-of-options", from, "--"];
  const done = await git.result({ args, maxOutputBytes: SUBJECT_BYTES });
  if (done.kind !== "overflowed" && done.code !== 0) throw gitError(args, done);
  const subjects = done.stdout.toString("utf8").replace(/\0$/, "").split("\0");
  return subjects.filter((subject) => subject !== "");
}

async function readTextsAt(at: BranchContext, params: Parameters<Branch["textsAt"]>[0]): ReturnType<Branch["textsAt"]> {
  const { objects } = at.worktree.repository;
  const tree = await requireTree(at, params.commit);
  const list = async (...paths: readonly string[]): Promise<readonly string[]> =>
    splitRecords(await objects.output({ args: ["ls-tree", "-z", "--full-tree", tree, ...paths] }));
  const root = await list();
  const tops = new Set(root.map((record) => /^\d+ tree [0-9a-f]+\t([^]*)$/.exec(record)?.[1]));
  const below = params.folders.filter((folder) => tops.has(folder.split("/")[0])).map((folder) => `${folder}/`);
  const records = [
    ...(params.folders.includes(".") ? root : []),
    ...(below.length === 0 ? [] : await list("--", ...below)),
  ];
  const found: { readonly path: string; readonly text: string }[] = [];
  for (const record of records) {
    const [, mode, id = "", raw = ""] = /^(\d+) blob ([0-9a-f]+)\t([^]*)$/.exec(record) ?? [];
    const path = quotePath(raw);
    if ((mode !== "100644" && mode !== "100755") || !params.wanted(path)) continue;
    const args = ["cat-file", "blob", id];
    const blob = await objects.result({ args, maxOutputBytes: params.maxBytes });
    const cut = blob.kind === "overflowed";
    if (!cut && blob.code !== 0) throw gitError(args, blob);
    found.push({ path, text: cut ? cutAtLine(blob.stdout) : blob.stdout.toString("utf8") });
  }
  return found;
}

async function changedSince(
  at: BranchContext,
  params: Parameters<Branch["changedSince"]>[0],
): Promise<readonly ChangedFile[]> {
  const trees = await treesOf(at, params);
  const { objects, objectDirectory } = at.worktree.repository;
  const files = await recallFiles([objectDirectory, ...trees].join(" "), async () => {
    const args = [...DIFF_TREE, "--raw", "-z", "--no-abbrev", "--end-of-options", ...trees];
    return parseFiles(await objects.output({ args }));
  });
  return files.map(({ path, status, digest }) => ({ path, status, digest }));
}

const recallFiles = createFacts<ReturnType<typeof parseFiles>>(2);

async function changedBetween(
  at: BranchContext,
  params: Parameters<Branch["changedBetween"]>[0],
): Promise<readonly ChangedFile[]> {
  const excluded = parseScope(params.exclude);
  const [from, to] = await Promise.all([requireTree(at, params.from), requireTree(at, params.to)]);
  const changes = await diffObjects(at.worktree.repository, from, to);
  return changes.filter(({ path }) => !inScope(path, excluded)).map(toChangedFile);
}

function toChangedFile({ path, from, to }: TreeChange): ChangedFile {
  // The first three digits of a mode are the type: file, symbolic link or submodule.
  const isSameType = from?.mode.slice(0, 3) === to?.mode.slice(0, 3);
  const status = from === null ? "added" : to === null ? "deleted" : isSameType ? "modified" : "type_changed";
  return { path: quotePath(path), status, digest: to?.id ?? null };
}

/** The changes as a patch of at most `maxBytes` bytes, cut at a line end. */
async function diffSince(
  at: BranchContext,
  params: Parameters<Branch["diffSince"]>[0],
): Promise<{ readonly text: string; readonly cut: boolean }> {
  const trees = await treesOf(at, params);
  const args = [...DIFF_TREE, "--patch", "--no-color", "--end-of-options", ...trees];
  const done = await at.worktree.repository.objects.result({ args, maxOutputBytes: params.maxBytes });
  const cut = done.kind === "overflowed";
  if (!cut && done.code !== 0) throw gitError(args, done);
  return { text: cut ? cutAtLine(done.stdout) : done.stdout.toString("utf8"), cut };
}

/** Excluded paths have the content of `from` in both trees. */
async function treesOf(
  at: BranchContext,
  params: { readonly from: string; readonly exclude: readonly string[] },
): Promise<readonly [from: string, to: string]> {
  const from = await requireTree(at, params.from);
  const { head } = await readHead(at.worktree);
  // A damaged HEAD only costs the shortcut.
  const committed = head === null ? null : await requireTree(at, head).catch(() => null);
  return [from, await writeCurrentTree(at.worktree, { base: from, exclude: params.exclude, committed })];
}

function cutAtLine(bytes: Buffer): string {
  const whole = bytes.subarray(0, bytes.lastIndexOf(0x0a) + 1 || bytes.length);
  // The decoder drops an incomplete character at the end.
  return new StringDecoder("utf8").write(whole);
}
