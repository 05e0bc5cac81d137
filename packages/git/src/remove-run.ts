// Removes what a run has in a repository: its worktrees, its branch and its refs. Each part is inspected again right before it is removed.

import { existsSync } from "node:fs";
import { rm, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { RUN_ID } from "@holdfast/core/run";
import type { RunLosses, RunRemains } from "@holdfast/core/workspace";
import { HoldfastError } from "@holdfast/platform/error";
import { readBranchTip } from "./branch-refs.ts";
import { syncRepository } from "./objects.ts";
import { deleteRefs, listRunRefs } from "./pins.ts";
import { type WorktreeLosses, deleteWorktree, findLosses } from "./remove-worktree.ts";
import type { Repository } from "./repository.ts";
import { parseSideWorktreeOwner } from "./worktree-entry.ts";
import { type WorktreeRecord, defaultWorktreePath, findWorktree, listWorktrees } from "./worktrees.ts";

/** Finds what the run has here, and which of it exists nowhere else. Changes nothing. */
export async function inspectRun(
  repository: Repository,
  params: { readonly run: string; readonly branch: string | null; readonly head: string | null },
): Promise<RunRemains> {
  const { run } = params;
  requireRunId(run);
  const worktrees = await listWorktrees(repository);
  const record = await findWorktree(repository, run);
  const sides = sidesOf(worktrees, run);
  const refs = await listRunRefs(repository, run);
  const name = `refs/heads/holdfast/${run}`;
  // Without a worktree of its own, a run saves a checkout of the user, on a branch of the user.
  const isOwn = record !== undefined || params.branch === name;
  const tip = isOwn ? await readBranchTip(repository, name) : null;
  const user = worktrees.find((worktree) => worktree.branch === name && worktree.run !== run);
  const removed = user === undefined ? tip : null;
  const others = othersThan(user === undefined ? name : null);
  const branch = removed === null ? [] : await findUnreached(repository, [removed], others);
  const kept = removed === null ? others : [...others, removed];
  const detached = record?.exists === true && record.branch === null ? record.head : null;
  const pins = await findPinned(repository, params, refs);
  const other = record === undefined || params.branch === name ? null : params.branch;
  return {
    worktree: record?.exists === true ? record.path : null,
    unlinked: record?.exists === false && existsSync(record.path) ? record.path : null,
    sideWorktrees: sides.map(({ path }) => path),
    branch: tip === null ? null : { name, tip, checkedOutAt: user?.path ?? null },
    otherBranch: other === null || (await readBranchTip(repository, other)) === null ? null : other,
    ...(await findCopies(repository, { name: isOwn && user === undefined ? name : null, tip, others })),
    refs,
    losses: {
      ...(await findFiles(repository, record, sides)),
      branch,
      detached: detached === null ? [] : await findUnreached(repository, [detached], kept),
      pinned: await findUnreached(repository, pins, detached === null ? kept : [...kept, detached]),
    },
    locked: record?.locked === true,
  };
}

/**
 * Removes what `expected` names, losses included. Each part is removed on its own, and a missing part is not an error, so the
 * same call completes what a kill interrupted. CONFLICT, and this part and those after it stay, if a worktree has a loss that
 * `expected` does not name, or the branch or a copy of it moved.
 */
export async function removeRun(
  repository: Repository,
  { run, expected }: { readonly run: string; readonly expected: RunRemains },
): Promise<void> {
  requireRunId(run);
  const record = await findWorktree(repository, run);
  const sides = sidesOf(await listWorktrees(repository), run);
  const found = await findFiles(repository, record, sides);
  refuseNewLosses(run, expected.losses, found);
  const detached = record?.exists === true && record.branch === null ? record.head : null;
  if (detached !== null) {
    const { branch, losses } = expected;
    const known = [...othersThan(branch?.name ?? null), ...(branch === null ? [] : [branch.tip]), ...losses.detached];
    const commits = await findUnreached(repository, [detached], known);
    refuseNewLosses(run, expected.losses, { detached: commits });
  }
  for (const side of sides) await deleteWorktree(repository, side);
  if (record !== undefined) await deleteWorktree(repository, record);
  await removeBranch(repository, expected);
  await deleteRefs(repository, await listRunRefs(repository, run));
  await syncRepository(repository);
  // Holdfast created the default directory. A configured one is the user's, and so is any directory with files.
  const parent = dirname(defaultWorktreePath(repository, run));
  if (record !== undefined && dirname(record.path) === parent) await rmdir(parent).catch(() => undefined);
}

/** Throws CONFLICT if `found` has a loss that `expected` does not name. */
function refuseNewLosses(run: string, expected: RunLosses, found: Partial<RunLosses>): void {
  const unexpected = (["files", "ignored", "detached"] as const).flatMap((kind) =>
    (found[kind] ?? []).filter((one) => !expected[kind].includes(one)),
  );
  const operation = found.operation ?? null;
  if (unexpected.length === 0 && (operation === null || operation === expected.operation)) return;
  throw new HoldfastError({
    code: "CONFLICT",
    message: `The worktree of ${run} changed while the run was removed: ${unexpected.slice(0, 3).join(", ") || operation}`,
    hint: "Check what changed there, then run the command again.",
    data: { run, found: unexpected.slice(0, MAX_NAMED), operation },
  });
}

async function removeBranch(repository: Repository, { branch, copies }: RunRemains): Promise<void> {
  const deleted = branch === null || branch.checkedOutAt !== null ? [] : [{ ref: branch.name, tip: branch.tip }];
  const expected: { readonly ref: string; readonly tip: string }[] = [];
  for (const one of [...deleted, ...copies]) {
    const now = await readBranchTip(repository, one.ref);
    if (now !== null && now !== one.tip) throw moved(one.ref, one.tip, now);
    if (now !== null) expected.push(one);
    const users = (await listWorktrees(repository)).find((worktree) => worktree.branch === one.ref);
    if (users !== undefined)
      throw new HoldfastError({
        code: "CONFLICT",
        message: `${one.ref} was checked out in ${users.path} while the run was removed`,
        hint: "Run the command again. It keeps the branch.",
        data: { branch: one.ref, path: users.path },
      });
  }
  await deleteRefs(
    repository,
    expected.map(({ ref }) => ref),
    new Map(expected.map(({ ref, tip }) => [ref, tip])),
  );
  for (const { ref } of [...deleted, ...copies]) await rm(join(repository.commonDir, "logs", ref), { force: true });
}

function moved(branch: string, expected: string, tip: string): HoldfastError {
  return new HoldfastError({
    code: "CONFLICT",
    message: `${branch} moved to ${tip} while the run was removed`,
    hint: "Check its new commits, then run the command again.",
    data: { branch, tip, expected },
  });
}

function sidesOf(worktrees: readonly WorktreeRecord[], run: string): readonly WorktreeRecord[] {
  return worktrees.filter((record) => parseSideWorktreeOwner(record.run)?.run === run);
}

async function findFiles(
  repository: Repository,
  record: WorktreeRecord | undefined,
  sides: readonly WorktreeRecord[],
): Promise<Pick<RunLosses, "files" | "ignored" | "operation">> {
  const own = record?.exists === true ? await findLosses(repository, record) : null;
  const files = own === null ? [] : uncommittedIn(own);
  for (const side of sides)
    files.push(...uncommittedIn(await findLosses(repository, side)).map((path) => join(side.path, path)));
  return { files, ignored: own?.ignored ?? [], operation: own?.operation ?? null };
}

function uncommittedIn({ changed, untracked, nested }: WorktreeLosses): string[] {
  return [...new Set([...changed, ...untracked, ...nested])];
}

const MAX_NAMED = 100;

/** Arguments for all branches, here and on remotes, except this one and its copies on remotes. */
function othersThan(branch: string | null): readonly string[] {
  if (branch === null) return ["--branches", "--remotes"];
  const short = branch.replace(/^refs\/heads\//, "");
  return [`--exclude=${short}`, "--branches", `--exclude=*/${short}`, "--remotes"];
}

async function findUnreached(
  repository: Repository,
  commits: readonly string[],
  from: readonly string[],
): Promise<readonly string[]> {
  if (commits.length === 0) return [];
  const args = ["rev-list", `--max-count=${MAX_NAMED}`, ...commits, "--not", ...from];
  return (await repository.git.line({ args })).split("\n").filter((line) => line !== "");
}

/**
 * The remote-tracking copies of the branch. One with commits that are neither in the branch nor in another branch stays: they are
 * of another author. The others would only show the run's commits in `git log --all`.
 */
async function findCopies(
  repository: Repository,
  params: { readonly name: string | null; readonly tip: string | null; readonly others: readonly string[] },
): Promise<Pick<RunRemains, "copies" | "keptCopies">> {
  const { name, tip } = params;
  if (name === null) return { copies: [], keptCopies: [] };
  const short = name.replace(/^refs\/heads\//, "");
  const args = ["for-each-ref", "--format=%(objectname) %(refname)", `refs/remotes/*/${short}`];
  const copies: { ref: string; tip: string }[] = [];
  const keptCopies: string[] = [];
  for (const line of (await repository.git.line({ args })).split("\n")) {
    const [commit = "", ref = ""] = line.split(" ");
    if (ref === "") continue;
    const known = tip === null ? params.others : [...params.others, tip];
    const isCopy = (await findUnreached(repository, [commit], known)).length === 0;
    if (isCopy) copies.push({ ref, tip: commit });
    else keptCopies.push(ref);
  }
  return { copies, keptCopies };
}

/** The commit of the newest checkpoint and those that a resume kept, as far as a ref of the run still protects them. */
async function findPinned(
  repository: Repository,
  { run, head }: { readonly run: string; readonly head: string | null },
  refs: readonly string[],
): Promise<readonly string[]> {
  const below = `refs/holdfast/${run}`;
  const kept = await repository.git.line({
    args: ["for-each-ref", "--format=%(objecttype) %(objectname)", `${below}/kept/`],
  });
  const commits = kept.split("\n").flatMap((line) => (line.startsWith("commit ") ? line.slice("commit ".length) : []));
  if (head === null || !refs.some((ref) => ref.startsWith(`${below}/head/`))) return commits;
  const args = ["for-each-ref", "--contains", head, "--format=%(refname)", `${below}/head/`];
  const holding = await repository.git.result({ args });
  return holding.code === 0 && holding.stdout.length > 0 ? [...commits, head] : commits;
}

function requireRunId(run: string): void {
  if (!RUN_ID.test(run)) throw new HoldfastError({ code: "USAGE", message: `${run} is not a run id` });
}
