import { mkdirSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Workspace, Workspaces } from "@holdfast/core/workspace";
import { processIdentity } from "@holdfast/platform/identity";
import { type BranchScene, createBranchScene } from "@holdfast/test-support/git/repository";
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

/** Leaves a file that is two minutes old. */
function leave(lock: string, text: string): void {
  mkdirSync(dirname(lock), { recursive: true });
  writeFileSync(lock, text);
  const then = Date.now() / 1000 - 120;
  utimesSync(lock, then, then);
}
