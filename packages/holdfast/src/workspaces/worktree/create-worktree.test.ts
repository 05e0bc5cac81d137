import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  createTestRepository,
  testRepositoryAt,
  userState,
  type TestRepository,
} from "../../testing/workspace/workspace-repository.ts";
import { openGitWorkspaces } from "../git-workspaces.ts";

const AT = "2026-01-02T03:04:05Z";

describe("in a repository without any commit", () => {
  let repo: TestRepository;
  beforeEach(() => {
    repo = createTestRepository();
    repo.write("a.txt", "one\n");
    repo.git("add", "a.txt");
  });
  afterEach(() => repo.dispose());

  test("a new worktree is empty, on a branch of its own that has no commit either", async () => {
    const before = userState(repo.path(".git"));
    const workspaces = await openGitWorkspaces(repo.root);
    const { root } = await workspaces.create({ run: "r" });
    expect((await workspaces.create({ run: "r" })).root).toBe(root);
    expect(await workspaces.list()).toMatchObject([
      { run: null, head: null },
      { path: root, run: "r", branch: "refs/heads/holdfast/r", head: null, exists: true },
    ]);
    const made = testRepositoryAt(root);
    expect(made.git("status", "--porcelain")).toBe("");
    expect(userState(repo.path(".git"))).toEqual(before);

    made.write("b.txt", "two\n");
    made.git("add", "b.txt");
    made.git("commit", "-qm", "the first of all");
    expect(made.git("rev-list", "--count", "HEAD")).toBe("1\n");
    expect(repo.git("status", "--porcelain")).toBe("A  a.txt\n");
  });

  test("a snapshot from elsewhere can be put into it, and it goes away again", async () => {
    const workspaces = await openGitWorkspaces(repo.root);
    const here = await workspaces.open(repo.root);
    const plane = await here.snapshot({ run: "r", sequence: 1, message: "m", at: AT });
    const other = await workspaces.create({ run: "other" });
    await other.applyRestore(await other.planRestore({ from: await other.look({ at: AT }), to: plane }));
    expect(testRepositoryAt(other.root).read("a.txt")).toBe("one\n");
    await expect(workspaces.remove({ run: "other" })).rejects.toMatchObject({ code: "RESTORE_REFUSED" });
    await workspaces.remove({ run: "other", force: true });
    expect(await workspaces.list()).toHaveLength(1);
  });

  test("one that was killed before its branch or its owner was written is gone on with", async () => {
    const path = join(repo.root, "..", "made");
    const workspaces = await openGitWorkspaces(repo.root);
    await workspaces.create({ run: "r", path });
    const gitDir = repo.path(".git/worktrees/made");
    const made = testRepositoryAt(path);
    const first = repo.git("fsck", "--no-reflogs", "--unreachable").match(/commit ([0-9a-f]+)/)?.[1] ?? "";
    for (const half of [["checkout", "-q", "--detach", first], ["status"]]) {
      rmSync(join(gitDir, "holdfast-run"));
      made.git(...half);
      expect((await workspaces.create({ run: "r", path })).root).toBe(path);
      expect(made.git("symbolic-ref", "HEAD")).toBe("refs/heads/holdfast/r\n");
    }
  });
});
