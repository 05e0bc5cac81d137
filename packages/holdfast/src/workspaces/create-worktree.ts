import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { HoldfastError } from "../core/error.ts";
import { RUN_ID } from "../core/run.ts";
import type { CreateWorkspace } from "../ports/workspace.ts";
import { syncFileSystem } from "./durable.ts";
import { blankFilters } from "./blank-filters.ts";
import { createGit } from "./git-command.ts";
import { mendGitLink } from "./git-link.ts";
import { openGitWorkspace } from "./git-workspace.ts";
import type { Checkout, Repository } from "./repository.ts";
import { snapshotIdentity } from "./snapshot-identity.ts";
import {
  findWorktree,
  listWorktrees,
  MAKING_FILE,
  OWNER_FILE,
  setHalfMadeAside,
  type WorktreeRecord,
} from "./worktree-list.ts";

/**
 * Registers the worktree without files, writes down whose it is, then fills it. Killed in between, the same call goes on
 * where it stopped. It was not handed out yet, but somebody may have looked into the folder and begun to work: what lies there
 * is pinned as a snapshot before it is written over.
 */
export async function createWorktree(repository: Repository, params: CreateWorkspace): Promise<Checkout> {
  if (!RUN_ID.test(params.run)) throw new HoldfastError({ code: "USAGE", message: `${params.run} is not a run id` });
  const owned = await findMended(repository, params);
  const record = owned?.exists === true ? owned : await register(repository, params, owned);
  if (owned?.exists === true && owned.unfinished) await saveLeftovers(repository, owned);
  if (record.unfinished) await fill(repository, record);
  return { root: record.path, gitDir: record.gitDir };
}

/** A folder that only lost its link to git is there, with all that lies in it. */
async function findMended(repository: Repository, params: CreateWorkspace): Promise<WorktreeRecord | undefined> {
  const owned = await findWorktree(repository, params.run);
  if (owned === undefined || owned.exists || resolve(params.path ?? owned.path) !== owned.path) return owned;
  const mended = await mendGitLink({ root: owned.path, gitDir: owned.gitDir });
  return mended ? await findWorktree(repository, params.run) : owned;
}

async function register(
  repository: Repository,
  params: CreateWorkspace,
  lost: WorktreeRecord | undefined,
): Promise<WorktreeRecord> {
  const path = resolve(params.path ?? lost?.path ?? defaultPath(repository, params.run));
  const branch = params.branch ?? (lost?.branch ?? `refs/heads/holdfast/${params.run}`).replace(/^refs\/heads\//, "");
  await requireBranchName(repository, branch);
  await setHalfMadeAside(repository, path);
  const all = await listWorktrees(repository);
  const half = all.find((record) => record.path === path && record.exists && record.run === null);
  const unborn = await unbornStart(repository, params);
  // Registered by us and killed before the owner was written: it holds nothing but its link to git.
  const begun = half?.branch === `refs/heads/${branch}` || (half?.branch === null && half.head === unborn);
  const adopt = begun && (await readdir(path)).join() === ".git";
  if (!adopt) {
    await requireFree(path);
    const holder = all.find((record) => record.branch === `refs/heads/${branch}` && record.exists);
    if (holder !== undefined) throw branchInUse(branch, holder);
    await mkdir(dirname(path), { recursive: true });
    const known = await resolveCommit(repository, `refs/heads/${branch}`);
    const start =
      known !== undefined
        ? [path, branch]
        : unborn !== null
          ? ["--detach", path, unborn]
          : ["--no-track", "-b", branch, path, await startingPoint(repository, params)];
    // --force: only to take over the entry of a folder that is gone.
    // Branches there are made for runs alone, so a lock on one is what a killed git left of an earlier try.
    if (params.branch === undefined) await rm(join(repository.commonDir, `refs/heads/${branch}.lock`), { force: true });
    const args = ["worktree", "add", "--no-checkout", "--quiet", ...(lost === undefined ? [] : ["--force"])];
    await repository.git.output({ args: [...args, ...start] });
  }
  const made = (await listWorktrees(repository)).find((record) => record.path === path);
  if (made === undefined)
    throw new HoldfastError({ code: "GIT_FAILED", message: `git did not register the worktree ${path}` });
  if (unborn !== null && made.head === unborn) await standOnUnborn(made, branch);
  await writeFile(join(made.gitDir, MAKING_FILE), "");
  await writeFile(join(made.gitDir, OWNER_FILE), `${params.run}\n`);
  if (lost !== undefined && lost.gitDir !== made.gitDir) await rm(join(lost.gitDir, OWNER_FILE), { force: true });
  // Before the first file: after a power cut, files without the record that they are ours would stand in our own way.
  await syncFileSystem(repository.commonDir);
  return { ...made, run: params.run, unfinished: true };
}

async function fill(repository: Repository, record: WorktreeRecord): Promise<void> {
  const git = createGit({ cwd: record.path, gitDir: record.gitDir, workTree: record.path });
  // Nobody was handed this worktree yet, so a lock is what a killed git left of an earlier try.
  await rm(join(record.gitDir, "index.lock"), { force: true });
  const args = ["reset", "--hard", "--quiet", "--no-recurse-submodules"];
  await git.output({ args, env: await blankFilters(repository) });
  await syncFileSystem(record.path);
  await rm(join(record.gitDir, MAKING_FILE));
  await syncFileSystem(repository.commonDir);
}

async function saveLeftovers(repository: Repository, record: WorktreeRecord): Promise<void> {
  if ((await readdir(record.path)).length < 2) return;
  const workspace = await openGitWorkspace(repository, { root: record.path, gitDir: record.gitDir });
  await workspace.snapshot({
    run: record.run ?? "",
    sequence: 0,
    message: "What lay in a worktree that was not finished",
    at: new Date(0).toISOString(),
    maxUntrackedBytes: Number.MAX_SAFE_INTEGER,
  });
}

function defaultPath(repository: Repository, run: string): string {
  const main = repository.mainRoot;
  if (main === null) return join(repository.commonDir, "trees", run);
  return join(dirname(main), `${basename(main)}-worktrees`, run);
}

async function startingPoint(repository: Repository, params: CreateWorkspace): Promise<string> {
  const commit = await resolveCommit(repository, params.base ?? "HEAD");
  if (commit !== undefined) return commit;
  throw new HoldfastError({
    code: "USAGE",
    message: `${params.base ?? "HEAD"} is not a commit`,
    hint: "Name a branch, a tag or a commit id.",
  });
}

/**
 * Where nothing was committed yet, a new worktree starts as its repository did: on a branch without commits. git registers none
 * without a commit, so it gets an empty one that no ref holds, only to stand on until its HEAD is set. Else null.
 */
async function unbornStart(repository: Repository, params: CreateWorkspace): Promise<string | null> {
  if (params.base !== undefined || (await resolveCommit(repository, "HEAD")) !== undefined) return null;
  const args = ["commit-tree", repository.emptyTree, "-m", "A worktree before its first commit"];
  return repository.objects.line({ args, env: snapshotIdentity(0) });
}

async function standOnUnborn(record: WorktreeRecord, branch: string): Promise<void> {
  const git = createGit({ cwd: record.path, gitDir: record.gitDir, workTree: record.path });
  await git.output({ args: ["symbolic-ref", "HEAD", `refs/heads/${branch}`] });
}

async function resolveCommit(repository: Repository, name: string): Promise<string | undefined> {
  const git = createGit({ cwd: repository.commonDir, gitDir: repository.gitDir });
  const args = ["rev-parse", "--verify", "--quiet", "--end-of-options", `${name}^{commit}`];
  const found = await git.result({ args });
  return found.code === 0 ? found.stdout.toString("utf8").trim() : undefined;
}

async function requireBranchName(repository: Repository, branch: string): Promise<void> {
  const valid = await repository.git.result({ args: ["check-ref-format", `refs/heads/${branch}`] });
  if (valid.code === 0 && !branch.startsWith("-")) return;
  throw new HoldfastError({ code: "USAGE", message: `${branch} is not a branch name` });
}

async function requireFree(path: string): Promise<void> {
  const names = await readdir(path).catch((error: unknown) => {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return [];
    throw error;
  });
  if (names.length === 0) return;
  throw new HoldfastError({
    code: "USAGE",
    message: `${path} exists and is not empty`,
    hint: "Choose another path for the worktree; nothing there was touched.",
    data: { path },
  });
}

function branchInUse(branch: string, holder: WorktreeRecord): HoldfastError {
  return new HoldfastError({
    code: "CONFLICT",
    message: `branch ${branch} is checked out in ${holder.path}`,
    hint: "Give the run another branch, or remove that worktree.",
    data: { path: holder.path, run: holder.run },
  });
}
