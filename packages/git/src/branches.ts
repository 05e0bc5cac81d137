// The branch operations that workflows use, implemented with the git binary.

import { StringDecoder } from "node:string_decoder";
import type { Asking, Branch, Branches, ChangedFile } from "@holdfast/core/workspace";
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
import { quotePath, splitRecords } from "./paths.ts";
import { removeStaleOperations } from "./private-index.ts";
import { inspectPush, pushBranch } from "./push.ts";
import { commitResolved, rebase, writeConflict } from "./rebase.ts";
import {
  type RemoteBranches,
  fetchRemote,
  findDefaultBranch,
  findRemote,
  lookUpRemote,
  readRemoteBranch,
  remoteRole,
} from "./remote.ts";
import { ensurePrivateDirectory, ensurePrivateGitDir, findRepository } from "./repository.ts";

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
  const home = await ensurePrivateDirectory(gitDir);
  await removeStaleOperations(home);
  const privateGitDir = await ensurePrivateGitDir({ home, objectFormat: repository.objectFormat });
  return {
    worktree: { repository, home, privateGitDir, root, gitDir },
    git: createGit({ cwd: root, gitDir, ...(checkout === undefined ? {} : { workTree: root }) }),
  };
}

function branchOf(at: BranchContext, remote: string | null): Branch {
  const { onPush, ...asking } = askingOf(at, remote, at.name);
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
    changedSince: (params) => changedSince(at, params),
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
  let present: RemoteBranches | null = null;
  return {
    onPush: (branch) => void present?.push.add(branch),
    remote: () => findRemote(at, remote, "base"),
    pushRemote: () => findRemote(at, remote, "push"),
    async fetch() {
      const fetched = await fetchRemote(at, remote);
      if (fetched.kind === "failed") return fetched;
      present = fetched.branches;
      return { kind: "fetched" };
    },
    async remoteBranch(branch) {
      const isGone = present?.[remoteRole(branch, own)].has(branch) === false;
      return isGone ? null : readRemoteBranch(at, remote, { branch, own });
    },
    lookUpRemote: (branch) => lookUpRemote(at, remote, { branch, own }),
    defaultBranch: () => findDefaultBranch(at, remote),
    isAncestor: (params) => isAncestor(at, params),
    mergeBase: (params) => mergeBase(at, params),
  };
}

async function changedSince(
  at: BranchContext,
  params: Parameters<Branch["changedSince"]>[0],
): Promise<readonly ChangedFile[]> {
  const trees = await treesOf(at, params);
  const args = [...DIFF, "--raw", "-z", "--no-abbrev", "--end-of-options", ...trees];
  return parseChanged(await at.worktree.repository.objects.output({ args }));
}

/** The changes as a patch of at most `maxBytes` bytes, cut at a line end. */
async function diffSince(
  at: BranchContext,
  params: Parameters<Branch["diffSince"]>[0],
): Promise<{ readonly text: string; readonly cut: boolean }> {
  const trees = await treesOf(at, params);
  const args = [...DIFF, "--patch", "--no-color", "--end-of-options", ...trees];
  const running = at.worktree.repository.objects.start({ args });
  running.stdin.end();
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of running.stdout) {
    if (!Buffer.isBuffer(chunk)) continue;
    chunks.push(chunk);
    size += chunk.length;
    if (size > params.maxBytes) break;
  }
  const cut = size > params.maxBytes;
  if (cut) running.kill();
  const exit = await running.exit;
  if (!cut && exit.code !== 0) throw gitError(args, exit);
  return { text: cutText(Buffer.concat(chunks), params.maxBytes), cut };
}

const DIFF = ["-c", "core.quotePath=false", "diff-tree", "-r", "--find-renames", "--no-ext-diff", "--no-textconv"];

/** Excluded paths have the content of `from` in both trees. */
async function treesOf(
  at: BranchContext,
  params: { readonly from: string; readonly exclude: readonly string[] },
): Promise<readonly [from: string, to: string]> {
  const from = await requireTree(at, params.from);
  return [from, await writeCurrentTree(at.worktree, { base: from, exclude: params.exclude })];
}

function cutText(bytes: Buffer, maxBytes: number): string {
  if (bytes.length <= maxBytes) return bytes.toString("utf8");
  const line = bytes.lastIndexOf(0x0a, Math.max(0, maxBytes - 1));
  const whole = bytes.subarray(0, line === -1 ? maxBytes : line + 1);
  // The decoder drops an incomplete character at the end.
  return new StringDecoder("utf8").write(whole);
}

function parseChanged(raw: Buffer): readonly ChangedFile[] {
  const records = splitRecords(raw);
  const files: ChangedFile[] = [];
  for (let at = 0; at < records.length;) {
    const letter = records[at]?.split(" ")[4]?.[0] ?? "M";
    const names = letter === "R" ? 2 : 1;
    files.push({ path: quotePath(records[at + names] ?? ""), status: STATUS.get(letter) ?? "modified" });
    at += names + 1;
  }
  return files;
}

const STATUS = new Map<string, ChangedFile["status"]>([
  ["A", "added"],
  ["M", "modified"],
  ["D", "deleted"],
  ["R", "renamed"],
  ["T", "type_changed"],
]);
