// Removes what a run has in a repository: its worktrees, its branch and its refs. Each part is inspected again right before it is removed.

import { existsSync } from "node:fs";
import { rm, rmdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { RUN_ID } from "@holdfast/core/run";
import type { InspectRun, RunLosses, RunRemains, SavedFiles, WorktreeCheck } from "@holdfast/core/workspace";
import { HoldfastError, describeList } from "@holdfast/platform/error";
import { readBranchTip } from "./branch-refs.ts";
import { snapshotIdentity } from "./commits.ts";
import { findMissingObjects, syncRepository } from "./objects.ts";
import { quotePath } from "./paths.ts";
import { deleteRefs, listRunRefs } from "./pins.ts";
import { LINK_MODE } from "./private-index.ts";
import { type WorktreeLosses, deleteWorktree, describeContent, findLosses } from "./remove-worktree.ts";
import { type Repository, worktreesFolder } from "./repository.ts";
import { diffTrees } from "./tree-diff.ts";
import { openGitWorkspace } from "./workspace.ts";
import { parseSideWorktreeOwner } from "./worktree-entry.ts";
import { type WorktreeRecord, findWorktree, listWorktrees } from "./worktrees.ts";

/** Finds what the run has here, and which of it exists nowhere else. Changes nothing. */
export async function inspectRun(repository: Repository, params: InspectRun): Promise<RunRemains> {
  const { run } = params;
  requireRunId(run);
  const worktrees = await listWorktrees(repository);
  const record = await findWorktree(repository, run);
  const sides = sidesOf(worktrees, run);
  const refs = await listRunRefs(repository, run);
  const created = params.created ?? null;
  const name = created ?? `refs/heads/holdfast/${run}`;
  // Without a worktree of its own, a run saves a checkout of the user, on a branch of the user.
  const isOwn = created !== null || record !== undefined || params.branch === name;
  const tip = isOwn ? await readBranchTip(repository, name) : null;
  const user = worktrees.find((worktree) => worktree.branch === name && worktree.run !== run);
  const removed = user === undefined ? tip : null;
  const others = othersThan(user === undefined ? name : null);
  const unmerged = removed === null ? [] : await findUnreached(repository, [removed], others);
  const branch =
    removed !== null && (await isMergedElsewhere(repository, { name, tip: removed, unmerged })) ? [] : unmerged;
  const kept = removed === null ? others : [...others, removed];
  const detached = record?.branch === null ? record.head : null;
  const current = params.branch ?? record?.branch ?? null;
  const other = record === undefined || current === name ? null : current;
  const reached = detached === null ? kept : [...kept, detached];
  const files = await findFiles(repository, record, sides);
  return {
    worktree: record?.exists === true ? record.path : null,
    unlinked: record?.exists === false && existsSync(record.path) ? record.path : null,
    sideWorktrees: sides.map(({ path }) => path),
    branch: tip === null ? null : { name, tip, checkedOutAt: user?.path ?? null },
    otherBranch: other === null || (await readBranchTip(repository, other)) === null ? null : other,
    ...(await findCopies(repository, { name: isOwn && user === undefined ? name : null, tip, others })),
    refs,
    losses: {
      ...files,
      branch,
      detached: detached === null ? [] : await findUnreached(repository, [detached], kept),
      pinned: await findPinned(repository, { ...params, reached, tip: removed ?? params.head }),
      saved: (await findSaved(repository, refs.length === 0 ? [] : (params.saved ?? []), kept)).filter(
        (one) => !isAmong(files.files, one),
      ),
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
  params: { readonly run: string; readonly expected: RunRemains; readonly check?: WorktreeCheck },
): Promise<void> {
  const { run, expected } = params;
  requireRunId(run);
  const record = await findWorktree(repository, run);
  const sides = sidesOf(await listWorktrees(repository), run);
  const found = await findFiles(repository, record, sides);
  refuseNewLosses(run, expected.losses, found);
  const detached = record?.branch === null ? record.head : null;
  if (detached !== null) {
    const { branch, losses } = expected;
    const known = [...othersThan(branch?.name ?? null), ...(branch === null ? [] : [branch.tip]), ...losses.detached];
    const commits = await findUnreached(repository, [detached], known);
    refuseNewLosses(run, expected.losses, { detached: commits });
  }
  // What was written since is found in the moved worktree, and puts it back.
  for (const side of sides)
    await deleteWorktree(repository, side, async (moved) => {
      const paths = uncommittedIn(await findLosses(repository, moved)).map((path) => join(side.path, path));
      refuseNewLosses(run, expected.losses, { files: paths });
    });
  if (record !== undefined)
    await deleteWorktree(repository, record, async (moved) => {
      const losses = await findLosses(repository, moved);
      const { ignored, operation } = losses;
      refuseNewLosses(run, expected.losses, { files: uncommittedIn(losses), ignored, operation });
      const checkout = { root: moved.path, gitDir: moved.gitDir };
      await params.check?.(await openGitWorkspace(repository, checkout), describeContent(moved, losses));
    });
  await removeBranch(repository, expected);
  await deleteRefs(repository, await listRunRefs(repository, run));
  await syncRepository(repository);
  // Holdfast created the default directory. A configured one is the user's, and so is any directory with files.
  const parent = worktreesFolder(repository);
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
    message: `The worktree of ${run} changed while the run was removed: ${describeList(unexpected, 3) || operation}`,
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
  max: number = MAX_NAMED,
): Promise<readonly string[]> {
  if (commits.length === 0) return [];
  const args = ["rev-list", `--max-count=${max}`, ...commits, "--not", ...from];
  return (await repository.git.line({ args })).split("\n").filter((line) => line !== "");
}

/**
 * True if one of the branches that are most likely the target has the changes of all these commits: each in a commit of its own, as after
 * a rebase, or all in one, as after a squash. Changes are compared as `git cherry` does, without white space. No forge is asked.
 */
async function isMergedElsewhere(
  repository: Repository,
  { name, tip, unmerged }: { readonly name: string; readonly tip: string; readonly unmerged: readonly string[] },
): Promise<boolean> {
  if (unmerged.length === 0 || unmerged.length === MAX_NAMED) return false;
  for (const target of await findTargets(repository, name, tip)) {
    const copied = await findCopied(repository, [tip], target);
    if (unmerged.every((commit) => copied.has(commit))) return true;
    const squashed = await squash(repository, tip, target);
    if (squashed !== null && (await findCopied(repository, [squashed], target)).has(squashed)) return true;
  }
  return false;
}

/** The checked-out commit, the default branches of remotes, and the branches that changed last; no branch of a run or copy of it. */
async function findTargets(repository: Repository, name: string, tip: string): Promise<readonly string[]> {
  const format = ["--sort=-committerdate", "--format=%(objectname) %(refname)"];
  const listed = await repository.git.line({ args: ["for-each-ref", ...format, "refs/heads", "refs/remotes"] });
  const others = listed.split("\n").flatMap((line) => {
    const [commit = "", ref = ""] = line.split(" ");
    const branch = ref.replace(/^refs\/remotes\/[^/]+\//, "refs/heads/");
    return branch === name || branch.startsWith("refs/heads/holdfast/") ? [] : [{ commit, ref }];
  });
  const head = await repository.git.result({ args: ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"] });
  const defaults = others.filter(({ ref }) => ref.startsWith("refs/remotes/") && ref.endsWith("/HEAD"));
  const commits = [head.stdout.toString("latin1").trim(), ...[...defaults, ...others].map(({ commit }) => commit)];
  return [...new Set(commits)].filter((commit) => commit !== "" && commit !== tip).slice(0, MAX_TARGETS);
}

const MAX_TARGETS = 8;

/** One commit with all changes of `tip` since it left `target`. No ref names it; null: it cannot be made. */
async function squash(repository: Repository, tip: string, target: string): Promise<string | null> {
  const base = await repository.git.result({ args: ["merge-base", tip, target] });
  if (base.code !== 0) return null;
  const args = ["commit-tree", `${tip}^{tree}`, "-p", base.stdout.toString("latin1").trim(), "-m", "squash"];
  const made = await repository.objects.result({ args, env: snapshotIdentity(0) });
  return made.code === 0 ? made.stdout.toString("latin1").trim() : null;
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

/**
 * The commits that only refs of checkpoints protect. Those of the newest checkpoint and those that a resume kept count always. Of older
 * checkpoints, the commits that the run made itself do not: it amended or rebased them. Nor do those whose change is on the branch.
 */
async function findPinned(
  repository: Repository,
  params: InspectRun & { readonly reached: readonly string[]; readonly tip: string | null },
): Promise<readonly string[]> {
  const { run, head, tip, reached, made = new Set<string>() } = params;
  const [kept, heads] = await Promise.all([
    listCommits(repository, `${run}/kept/`),
    listCommits(repository, `${run}/head/`),
  ]);
  if (head !== null && heads.length > 0 && (await findMissingObjects(repository, [head])).length > 0)
    throw notHere(run, head);
  const isPinned = head !== null && heads.length > 0 && (await findUnreached(repository, [head], heads)).length === 0;
  const newest = await findUnreached(repository, isPinned ? [...kept, head] : kept, reached);
  const older = (await findUnreached(repository, heads, reached, MAX_WALKED)).filter((one) => !newest.includes(one));
  const own = await findTrailers(
    repository,
    run,
    older.filter((one) => made.has(one)),
  );
  const lost = older.filter((one) => !own.has(one));
  const unreached = lost.length === 0 ? [] : heads.filter((one) => older.includes(one));
  const copied = tip === null ? new Set() : await findCopied(repository, unreached, tip);
  return [...newest, ...lost.filter((one) => !copied.has(one))].slice(0, MAX_NAMED);
}

const MAX_WALKED = 100_000;

/** Another clone continued the run. What its removal would lose cannot be found here. */
function notHere(run: string, head: string): HoldfastError {
  return new HoldfastError({
    code: "TREE_MISSING",
    message: `The newest commit of ${run} (${head.slice(0, 12)}) is not in this repository`,
    hint: `If another machine continued the run, run \`holdfast store fetch ${run}\`, or remove it there.`,
    data: { run, head },
  });
}

/** Those of the commits whose message names the run. Commits that Holdfast makes do. */
async function findTrailers(
  repository: Repository,
  run: string,
  commits: readonly string[],
): Promise<ReadonlySet<string>> {
  if (commits.length === 0) return new Set();
  const args = ["rev-list", "--no-walk", `--grep=^Holdfast-Run: ${run}$`, "--stdin"];
  const input = Buffer.from(commits.map((commit) => `${commit}\n`).join(""));
  return new Set((await repository.git.output({ args, input })).toString("latin1").split("\n"));
}

async function listCommits(repository: Repository, below: string): Promise<readonly string[]> {
  const args = ["for-each-ref", "--format=%(objecttype) %(objectname)", `refs/holdfast/${below}`];
  const lines = (await repository.git.line({ args })).split("\n");
  return lines.flatMap((line) => (line.startsWith("commit ") ? line.slice("commit ".length) : []));
}

/** The commits below `heads` whose change a commit of `tip` has as well, for example after a rebase. */
async function findCopied(repository: Repository, heads: readonly string[], tip: string): Promise<ReadonlySet<string>> {
  const copied = new Set<string>();
  for (const head of heads) {
    const compared = await repository.git.result({ args: ["cherry", tip, head] });
    const lines = compared.code === 0 ? compared.stdout.toString("latin1").split("\n") : [];
    for (const line of lines) if (line.startsWith("- ")) copied.add(line.slice(2));
  }
  return copied;
}

/** The uncommitted files of these checkpoints whose content no remaining commit has, each at its newest checkpoint. */
async function findSaved(
  repository: Repository,
  saved: readonly SavedFiles[],
  reached: readonly string[],
): Promise<readonly string[]> {
  const found = new Map<string, string>();
  // After an interrupted removal, some of them may be gone already.
  const gone = new Set(
    await findMissingObjects(
      repository,
      Array.from(saved, ({ tree }) => tree),
    ),
  );
  for (const { id, tree, head } of saved) {
    if (gone.has(tree)) continue;
    const base = head !== null && (await findMissingObjects(repository, [head])).length === 0 ? head : null;
    const changes = await diffTrees(repository.objects, base ?? repository.emptyTree, tree);
    const files = changes.flatMap(({ path, from, to }) =>
      to === null || to.mode === LINK_MODE || to.id === from?.id ? [] : [{ path, id: to.id }],
    );
    if (files.length === 0) continue;
    const since = ["rev-list", "--objects", "--no-object-names", ...reached, ...(base === null ? [] : ["--not", base])];
    const listed = await repository.git.output({ args: since, maxOutputBytes: MAX_LISTED_BYTES });
    const committed = new Set(listed.toString("latin1").split("\n"));
    for (const { path, id: blob } of files) {
      const key = `${blob} ${path}`;
      if (!committed.has(blob) && !found.has(key)) found.set(key, `${id}:${quotePath(path)}`);
    }
  }
  return [...found.values()];
}

const MAX_LISTED_BYTES = 1024 * 1024 * 1024;

/** Whether the worktree still has this file uncommitted, so that it is named already. */
function isAmong(files: readonly string[], saved: string): boolean {
  return files.includes(saved.slice(saved.indexOf(":") + 1));
}

function requireRunId(run: string): void {
  if (!RUN_ID.test(run)) throw new HoldfastError({ code: "USAGE", message: `${run} is not a run id` });
}
