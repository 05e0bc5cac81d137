import { mkdir, readdir, realpath, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { asideKey } from "../../core/position/aside.ts";
import { HoldfastError } from "../../core/error.ts";
import type { AsideName } from "../../ports/aside.ts";
import type { Look, Workspace } from "../../ports/workspace.ts";
import { replaceIndex } from "../branch/replace-index.ts";
import { syncFileSystem, syncRepository } from "../objects/durable.ts";
import { clearEntryLocks, clearPlace, leavingNothing } from "../git/git-leftovers.ts";
import { capturePlaceOf, openGitWorkspace } from "../git-workspace.ts";
import { LINK_MODE } from "../indexes/index-memo.ts";
import { readOptions } from "../restore/prepare-restore.ts";
import { pathBytes, splitRecords } from "../raw-path.ts";
import type { Checkout, Repository } from "../repository.ts";
import { isSafePath } from "../safe-path.ts";
import { MAKING_FILE, OWNER_FILE } from "../worktree/worktree-entry.ts";
import { findWorktree, listWorktrees, type WorktreeRecord } from "../worktree/worktree-list.ts";
import { ownerOf } from "./aside-entry.ts";
import { asideRoot } from "./aside-root.ts";
import { comesFrom } from "./comes-from.ts";
import { findMended } from "./find-mended.ts";
import { removeAside } from "./remove-aside.ts";
import { treeOfCommit } from "./tree-of-commit.ts";

/**
 * Registered without files, its owner written down, then filled, as a run's own worktree is; but with our own way of placing files, so that it holds
 * the very bytes of the snapshot.
 */
export async function placeAside(
  repository: Repository,
  params: AsideName & { readonly commit: string; readonly base: string },
): Promise<Workspace> {
  const target = await findTarget(repository, params);
  const there = await findAside(repository, params);
  if (there !== undefined) {
    if (await standsAt(repository, there, target)) return there;
    await removeAside(repository, { run: params.run, key: asideKey(params.name) });
  }
  return openGitWorkspace(repository, await make(repository, params, target));
}

/** One that is not finished was never handed out. */
export async function findAside(
  repository: Repository,
  name: Pick<AsideName, "run" | "name">,
): Promise<Workspace | undefined> {
  const owner = ownerOf({ run: name.run, key: asideKey(name.name) });
  const record = await findMended(repository, owner);
  if (record === undefined || !record.exists || record.unfinished) return undefined;
  return openGitWorkspace(repository, { root: record.path, gitDir: record.gitDir });
}

interface Target {
  readonly commit: string;
  readonly tree: string;
  readonly head: string;
}

/** The first parent of a snapshot is the head that it was seen on. One that does not come from the base is of no use to stand on. */
async function findTarget(
  repository: Repository,
  { commit, base }: { readonly commit: string; readonly base: string },
): Promise<Target> {
  const tree = await treeOfCommit(repository, commit);
  if (commit === base) return { commit, tree, head: base };
  const parent = await repository.objects.result({ args: ["rev-parse", "--verify", "--quiet", `${commit}^1`] });
  const head = parent.code === 0 ? parent.stdout.toString("utf8").trim() : base;
  const comes = await comesFrom(repository, { ancestor: base, of: head });
  return { commit, tree, head: comes ? head : base };
}

async function standsAt(repository: Repository, aside: Workspace, target: Target): Promise<boolean> {
  const options = await readOptions(repository, target.commit);
  const { tree, head, operation } = await aside.look({ at: EPOCH, ...options });
  return tree === target.tree && head === target.head && operation === null;
}

const EPOCH = new Date(0).toISOString();

async function make(repository: Repository, params: AsideName, target: Target): Promise<Checkout> {
  const owner = ownerOf({ run: params.run, key: asideKey(params.name) });
  const path = await realPlace(asideRoot(repository, params));
  const work = { kind: "making", run: owner, path, branch: "", detached: target.head } as const;
  return leavingNothing(repository, work, async (env) => {
    await clearPlace(repository, work, { starts: [`${target.head}\n`], wasAtIt: false });
    const owned = await findWorktree(repository, owner);
    const record = owned?.exists === true ? owned : await register(repository, { owner, path, target, owned, env });
    await clearEntryLocks(record.gitDir);
    await fill(repository, record, target);
    return { root: record.path, gitDir: record.gitDir };
  });
}

async function register(
  repository: Repository,
  params: {
    readonly owner: string;
    readonly path: string;
    readonly target: Target;
    readonly owned: WorktreeRecord | undefined;
    readonly env: Readonly<Record<string, string>>;
  },
): Promise<WorktreeRecord> {
  const { owner, path, target, owned, env } = params;
  await requireFree(path);
  await mkdir(dirname(path), { recursive: true });
  // --force: only to take over the entry of a folder that is gone.
  const forced = owned === undefined ? [] : ["--force"];
  const args = ["worktree", "add", "--no-checkout", "--quiet", "--detach", ...forced, path, target.head];
  await repository.git.output({ args, env });
  const made = (await listWorktrees(repository)).find((record) => record.path === path);
  if (made === undefined)
    throw new HoldfastError({ code: "GIT_FAILED", message: `git did not register the worktree ${path}` });
  await writeFile(join(made.gitDir, MAKING_FILE), "");
  await writeFile(join(made.gitDir, OWNER_FILE), `${owner}\n`);
  if (owned !== undefined && owned.gitDir !== made.gitDir) await rm(join(owned.gitDir, OWNER_FILE), { force: true });
  await syncRepository(repository);
  return made;
}

async function fill(repository: Repository, record: WorktreeRecord, target: Target): Promise<void> {
  const checkout = { root: record.path, gitDir: record.gitDir };
  const place = await capturePlaceOf(repository, checkout);
  const workspace = await openGitWorkspace(repository, checkout);
  const from = await workspace.look({ at: EPOCH, ...(await readOptions(repository, target.commit)) });
  const to: Look = { ...from, tree: target.tree, commit: target.commit, skipped: [], nested: [], index: null };
  await workspace.applyRestore(await workspace.planRestore({ from, to }));
  await makeLinkFolders(repository, record.path, target.tree);
  await replaceIndex(place, target.head);
  await syncFileSystem(record.path);
  await rm(join(record.gitDir, MAKING_FILE));
}

/** Empty ones for submodules and nested repositories, as git makes them: without its folder one would look removed. */
async function makeLinkFolders(repository: Repository, root: string, tree: string): Promise<void> {
  const args = ["ls-tree", "-r", "-z", "--full-tree", tree];
  for (const line of splitRecords(await repository.objects.output({ args }))) {
    const path = line.slice(line.indexOf("\t") + 1);
    if (!line.startsWith(LINK_MODE) || !isSafePath(path)) continue;
    await mkdir(Buffer.concat([Buffer.from(`${root}/`), pathBytes(path)]), { recursive: true });
  }
}

/** As git will write it down, although the last folders of it may not be there yet. */
async function realPlace(path: string): Promise<string> {
  const real = await realpath(path).catch(() => undefined);
  if (real !== undefined || dirname(path) === path) return real ?? path;
  return join(await realPlace(dirname(path)), basename(path));
}

async function requireFree(path: string): Promise<void> {
  const names = await readdir(path).catch(() => []);
  if (names.length === 0) return;
  throw new HoldfastError({
    code: "USAGE",
    message: `${path} exists and is not empty`,
    hint: "Move it away: an aside of a run is to be made there; nothing was touched.",
    data: { path },
  });
}
