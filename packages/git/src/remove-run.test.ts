import { spawnSync } from "node:child_process";
import { existsSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { RunLosses, Workspaces } from "@holdfast/core/workspace";
import { processIdentity } from "@holdfast/platform/identity";
import { type BranchScene, createBranchScene } from "@holdfast/test-support/git/repository";
import { openGitWorkspaces } from "./workspaces.ts";

const RUN = "issue-42";
const TRAILER = `Holdfast-Run: ${RUN}`;

let scene: BranchScene;
let workspaces: Workspaces;
let first: string;
beforeEach(async () => {
  scene = await createBranchScene();
  workspaces = await openGitWorkspaces(scene.user.root);
  first = scene.tip();
});
afterEach(() => scene.dispose());

/** Commits in the run's worktree what a file has, and saves a checkpoint there. Returns the commit. */
async function commit(sequence: number, text: string, message = "w"): Promise<string> {
  scene.tree.write("a.txt", text);
  scene.tree.git("add", "-A");
  scene.tree.git("commit", "-q", "--allow-empty", "-m", message);
  await save(sequence);
  return scene.tip();
}

async function save(sequence: number): Promise<void> {
  const workspace = await workspaces.find(RUN);
  await workspace?.snapshot({ run: RUN, sequence, message: "m", at: "2026-03-01T12:00:00Z" });
}

async function losses(made: readonly string[] = [], head: string | null = scene.tip()): Promise<RunLosses> {
  const branch = `refs/heads/holdfast/${RUN}`;
  return (await workspaces.inspectRun({ run: RUN, branch, head, made: new Set(made) })).losses;
}

test("a commit that the branch no longer has is lost, unless the branch has the same change", async () => {
  const dropped = await commit(1, "two\n");
  scene.tree.git("reset", "-q", "--hard", first);
  await save(2);
  expect((await losses()).pinned).toEqual([dropped]);
  await commit(3, "two\n", "the same change, after a rebase");
  expect((await losses()).pinned).toEqual([]);
  // Another change of the same line is not the same change.
  scene.tree.git("reset", "-q", "--hard", first);
  await commit(4, "three\n");
  expect((await losses()).pinned).toEqual(expect.arrayContaining([dropped]));
});

test("a run whose newest commit is in another clone is not inspected; the hint fetches its files", async () => {
  await commit(1, "two\n");
  await expect(losses([], "1".repeat(40))).rejects.toMatchObject({
    code: "TREE_MISSING",
    hint: expect.stringContaining(`holdfast store fetch ${RUN}`) as string,
  });
});

test("a commit that the run made and replaced is not lost: a step names it, and it has the run's trailer", async () => {
  const own = await commit(1, "two\n", `w\n\n${TRAILER}`);
  const other = await commit(2, "three\n", `w\n\n${TRAILER}0`);
  const plain = await commit(3, "four\n");
  scene.tree.git("reset", "-q", "--hard", first);
  await save(4);
  expect(new Set((await losses()).pinned)).toEqual(new Set([own, other, plain]));
  expect(new Set((await losses([own, other, plain])).pinned)).toEqual(new Set([other, plain]));
  expect(new Set((await losses([other, plain])).pinned)).toEqual(new Set([own, other, plain]));
  // The newest checkpoint is what the user would continue with.
  expect((await losses([own], own)).pinned).toContain(own);
});

test("a merge and an empty commit have no change to compare: they are lost with the checkpoint", async () => {
  const empty = await commit(1, "one\n", "empty");
  scene.tree.git("checkout", "-q", "-b", "side", first);
  scene.tree.write("b.txt", "side\n");
  scene.tree.git("commit", "-qam", "side");
  scene.tree.git("checkout", "-q", `holdfast/${RUN}`);
  scene.tree.git("merge", "-q", "--no-ff", "-m", "merge", "side");
  await save(2);
  const merge = scene.tip();
  scene.tree.git("reset", "-q", "--hard", first);
  await save(3);
  expect(new Set((await losses()).pinned)).toEqual(new Set([empty, merge]));
});

test("commits that another branch has in another form count as merged: rebased one by one, or squashed into one", async () => {
  const { user, tree } = scene;
  await commit(1, "two\n");
  tree.write("new.txt", "new\n");
  const tip = await commit(2, "three\n");
  const inUser = (...args: readonly string[]) => user.git("-c", "user.name=A", "-c", "user.email=a@localhost", ...args);
  const base = scene.moveBase({ "b.txt": "moved\n" });
  expect((await losses()).branch).toHaveLength(2);
  inUser("merge", "-q", "--squash", tip);
  inUser("commit", "-qm", "squashed");
  expect((await losses()).branch).toEqual([]);
  // Half of the changes is not all of them.
  inUser("reset", "-q", "--hard", base);
  inUser("cherry-pick", `${tip}~1`);
  expect((await losses()).branch).toHaveLength(2);
  inUser("cherry-pick", tip);
  expect((await losses()).branch).toEqual([]);
  // A commit after the squash is not in it.
  const more = await commit(3, "four\n");
  expect((await losses()).branch).toContain(more);
});

test("a branch outside holdfast/ is removed if the run created it; one that it found stays and is named", async () => {
  const branch = "refs/heads/feature/x";
  const { root } = await workspaces.create({ run: "other", branch: "feature/x" });
  const inspect = async (created: string | null) =>
    await workspaces.inspectRun({ run: "other", branch, head: first, created });
  expect(await inspect(null)).toMatchObject({ branch: null, otherBranch: branch, losses: { branch: [] } });
  scene.user.git("-C", root, "commit", "-q", "--allow-empty", "-m", "w");
  const remains = await inspect(branch);
  expect(remains).toMatchObject({
    branch: { name: branch },
    otherBranch: null,
    losses: { branch: [remains.branch?.tip] },
  });
  // As a process that was killed while it deleted the branch leaves it.
  const dead = { ...processIdentity(), pid: spawnSync("true").pid };
  writeFileSync(join(scene.user.root, ".git", `${branch}.lock`), JSON.stringify({ holdfast: dead }));
  await workspaces.removeRun({ run: "other", expected: remains });
  expect(scene.user.git("for-each-ref", "refs/heads/feature")).toBe("");
  expect(existsSync(root)).toBe(false);
});

test("the repository of a submodule is a loss, also after its checkout was removed; one that was never cloned is not", async () => {
  const { user, tree } = scene;
  user.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", scene.bare.root, "lib/sub");
  user.git("commit", "-qm", "a submodule");
  tree.git("merge", "-q", "main");
  const nested = async () => [(await losses()).files, (await workspaces.inspectWorktree(RUN))?.nested];
  expect(await nested()).toEqual([[], []]);
  tree.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init");
  expect(await nested()).toEqual([["lib/sub/"], ["lib/sub/"]]);
  tree.git("submodule", "--quiet", "deinit", "--force", "lib/sub");
  expect(await nested()).toEqual([["lib/sub/"], ["lib/sub/"]]);
  rmSync(tree.git("rev-parse", "--path-format=absolute", "--git-path", "modules").trim(), { recursive: true });
  expect(await nested()).toEqual([[], []]);
  tree.write("lib/sub/mine.txt", "no git here lists it\n");
  expect(await nested()).toEqual([["lib/sub/"], ["lib/sub/"]]);
});
