import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Workspace, Workspaces } from "@holdfast/core/workspace";
import { processIdentity } from "@holdfast/platform/identity";
import { type BranchScene, createBranchScene } from "@holdfast/test-support/git/repository";
import { openLook } from "./workspace.ts";
import { openGitWorkspaces } from "./workspaces.ts";

const AT = "2026-03-01T12:00:00Z";
const BRANCH = "refs/heads/holdfast/issue-42";

let scene: BranchScene;
let workspaces: Workspaces;
let workspace: Workspace;
beforeEach(async () => {
  scene = await createBranchScene();
  workspaces = await openGitWorkspaces(scene.user.root);
  workspace = await workspaces.open(scene.tree.root);
});
afterEach(() => scene.dispose());

test("commits are dropped, the files stay, and nothing is staged", async () => {
  const head = scene.tip();
  scene.tree.write("a.txt", "two\n");
  await scene.branch.commit({ message: "Work", at: AT, exclude: [] });
  scene.tree.write("c.txt", "staged\n");
  scene.tree.git("add", "c.txt");
  expect(await workspace.switchTo({ branch: BRANCH, head, commits: "drop" })).toBe(true);
  expect(scene.tip()).toBe(head);
  expect(scene.tree.git("status", "--porcelain")).toBe(" M a.txt\n?? c.txt\n");
});

test("what was staged is staged again, unless HEAD has moved or an object is gone", async () => {
  const save = (sequence: number) => workspace.snapshot({ run: "issue-42", sequence, message: "saved", at: AT });
  scene.tree.write("a.txt", "staged\n");
  scene.tree.write("c.txt", "staged\n");
  scene.tree.git("add", ".");
  scene.tree.write("a.txt", "later\n");
  const files = await save(1);
  const before = scene.tree.git("status", "--porcelain");
  expect(before).toBe("MM a.txt\nA  c.txt\n");
  scene.tree.git("reset", "-q");
  expect(await workspace.stage(files)).toBe(true);
  expect(scene.tree.git("status", "--porcelain")).toBe(before);
  expect(scene.tree.git("show", ":a.txt")).toBe("staged\n");

  scene.tree.git("reset", "-q");
  const plain = scene.tree.git("status", "--porcelain");
  expect(await workspace.stage({ ...files, head: "1".repeat(40) })).toBe(false);
  expect(await workspace.stage({ ...files, index: "1".repeat(40) })).toBe(false);
  expect(await workspace.stage({ ...files, index: null })).toBe(false);
  scene.tree.git("update-index", "--add", "--cacheinfo", `100644,${"2".repeat(40)},gone.txt`);
  const gone = scene.tree.git("hash-object", "-w", scene.tree.git("rev-parse", "--git-path", "index").trim()).trim();
  scene.tree.git("reset", "-q");
  expect(await workspace.stage({ ...files, index: gone })).toBe(false);
  expect(scene.tree.git("status", "--porcelain")).toBe(plain);
});

test("locks that a killed git or Holdfast left do not block", async () => {
  const head = scene.tip();
  scene.tree.write("a.txt", "two\n");
  await scene.branch.commit({ message: "Work", at: AT, exclude: [] });
  const [work, gitDir] = [scene.tip(), scene.tree.git("rev-parse", "--absolute-git-dir").trim()];
  scene.tree.git("checkout", "-q", "--detach");
  leave(join(gitDir, "HEAD.lock"), "");
  leave(join(gitDir, "index.lock"), JSON.stringify({ holdfast: { ...processIdentity(), started: "0" } }));
  leave(join(workspaces.commonDir, `${BRANCH}.lock`), "");
  expect(await workspace.switchTo({ branch: BRANCH, head, commits: "drop" })).toBe(true);
  expect(scene.tree.git("symbolic-ref", "HEAD").trim()).toBe(BRANCH);
  expect(scene.tip()).toBe(head);

  scene.tree.git("checkout", "-q", "--detach");
  scene.tree.git("branch", "-q", "-D", "holdfast/issue-42");
  leave(join(workspaces.commonDir, `${BRANCH}.lock`), "");
  await workspaces.createBranch({ branch: BRANCH, commit: head });
  const kept = await workspaces.keep({ run: "issue-42", commit: head });
  scene.tree.git("update-ref", "-d", kept);
  leave(join(workspaces.commonDir, `${kept}.lock`), "");
  expect(await workspaces.keep({ run: "issue-42", commit: head })).toBe(`${kept}0`);
  await workspaces.keep({ run: "issue-42", commit: work });
});

test("a look at changed files writes nothing to the repository, and finds what a save finds", async () => {
  const files = (): readonly string[] =>
    readdirSync(workspaces.commonDir, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => `${join(parentPath, name)} ${statSync(join(parentPath, name)).ino}`)
      .toSorted();
  const before = files();
  scene.tree.write("a.txt", "looked at\n");
  scene.tree.write("untracked.txt", "new\n");
  const look = await openLook(scene.user.root);
  const { tree } = await look.currentFiles(scene.tree.root);
  const change = { from: scene.tip(), to: tree } as const;
  const diff = await look.diff({ ...change, paths: ["a.txt"], format: "patch" });
  expect(diff.text).toContain("+looked at\n");
  expect((await look.diff({ ...change, format: "names" })).files.map(({ path }) => path)).toContain("untracked.txt");
  scene.tree.write("a.txt", "again\n");
  const again = await look.currentFiles(scene.tree.root);
  expect((await look.diff({ from: tree, to: again.tree, format: "patch" })).text).toContain("+again\n");
  expect(files()).toEqual(before);
  // What the look has cached is not believed by a save.
  const saved = await workspace.currentFiles();
  expect(saved.tree).toBe(again.tree);
  expect(await scene.tree.git("cat-file", "-p", `${saved.tree}:a.txt`)).toBe("again\n");
  await look[Symbol.asyncDispose]();
  const own = readdirSync(tmpdir()).filter((name) => name.startsWith(`holdfast-look-${process.pid}-`));
  expect(own).toEqual([]);
});

test("the look of a killed process is removed by the next", async () => {
  const { pid = 0 } = spawnSync(process.execPath, ["-e", ""]);
  const left = mkdtempSync(join(tmpdir(), `holdfast-look-${pid}-`));
  await using _look = await openLook(scene.user.root);
  expect(existsSync(left)).toBe(false);
});

/** Leaves a file that is two minutes old. */
function leave(lock: string, text: string): void {
  mkdirSync(dirname(lock), { recursive: true });
  writeFileSync(lock, text);
  const then = Date.now() / 1000 - 120;
  utimesSync(lock, then, then);
}
