import {
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Workspaces } from "@holdfast/core/workspace";
import {
  type TestRepository,
  countGit,
  createTestRepository,
  testRepositoryAt,
  userState,
} from "@holdfast/test-support/git/repository";
import { openGitWorkspaces } from "./workspaces.ts";

describe("worktrees", () => {
  let repo: TestRepository;
  let workspaces: Workspaces;
  beforeEach(async () => {
    repo = createTestRepository();
    repo.write("a.txt", "one\n");
    repo.write(".gitignore", "*.log\n");
    repo.git("add", "-A");
    repo.git("commit", "-qm", "first");
    workspaces = await openGitWorkspaces(repo.root);
  });
  afterEach(() => repo.dispose());

  describe("create and find", () => {
    test("a worktree and branch next to the repository; the same call returns the same one; the user's own state is untouched", async () => {
      const before = userState(repo.path(".git"));
      const made = await workspaces.create({ run: "issue-4" });
      expect(made.root).toBe(join(repo.root, "..", "repo-worktrees", "issue-4"));
      expect(readFileSync(join(made.root, "a.txt"), "utf8")).toBe("one\n");
      const branch = repo.git("rev-parse", "holdfast/issue-4").trim();
      expect(branch).toBe(repo.git("rev-parse", "HEAD").trim());
      writeFileSync(join(made.root, "work"), "mine");
      const again = await workspaces.create({ run: "issue-4" });
      expect(again.root).toBe(made.root);
      expect(readFileSync(join(again.root, "work"), "utf8")).toBe("mine");
      expect(testRepositoryAt(made.root).git("status", "--porcelain")).toBe("?? work\n");
      const { "refs/heads/holdfast/issue-4": own, ...rest } = userState(repo.path(".git"));
      expect(own).toBeDefined();
      expect(rest).toEqual(before);
    });

    test("issue-4 is never mistaken for issue-42, nor a worktree of the user for one of ours", async () => {
      await workspaces.create({ run: "issue-42" });
      repo.git("worktree", "add", "-q", join(repo.root, "..", "issue-4"));
      expect(await workspaces.find("issue-4")).toBeUndefined();
      expect((await workspaces.find("issue-42"))?.root).toMatch(/issue-42$/);
      const listed = await workspaces.list();
      expect(listed.map(({ run, branch, exists }) => [run, branch, exists])).toEqual([
        [null, "refs/heads/main", true],
        [null, "refs/heads/issue-4", true],
        ["issue-42", "refs/heads/holdfast/issue-42", true],
      ]);
      expect(listed.map(({ head }) => head)).toEqual(Array(3).fill(repo.git("rev-parse", "HEAD").trim()));
    });

    test("worktrees are listed as git lists them: on a packed branch, detached, locked, gone", async () => {
      await workspaces.create({ run: "issue-9" });
      await workspaces.create({ run: "issue-1" });
      const [detached, gone] = [join(repo.root, "..", "detached"), join(repo.root, "..", "a-gone")];
      repo.git("worktree", "add", "-q", "--detach", detached);
      repo.git("worktree", "lock", detached);
      repo.git("worktree", "add", "-q", gone);
      rmSync(gone, { recursive: true });
      repo.git("pack-refs", "--all");
      const expected = repo
        .git("worktree", "list", "--porcelain")
        .trimEnd()
        .split("\n\n")
        .map((record) => [/^worktree (.*)$/m, /^HEAD (.*)$/m, /^branch (.*)$/m].map((line) => line.exec(record)?.[1]));
      const { calls } = countGit();
      const listed = await workspaces.list();
      expect(listed.map(({ path, head, branch }) => [path, head, branch ?? undefined])).toEqual(expected);
      expect(listed.filter(({ exists }) => !exists).map(({ path }) => path)).toEqual([gone]);
      expect(calls()).toEqual([]);
    });

    test("path, branch and base as given; from a linked worktree the current HEAD is its own", async () => {
      repo.write("a.txt", "two\n");
      repo.git("commit", "-qam", "second");
      const path = join(repo.root, "..", "else where", "tree");
      const made = await workspaces.create({ run: "r", path, branch: "topic/x", base: "HEAD~1" });
      expect(made.root).toBe(path);
      expect(testRepositoryAt(path).read("a.txt")).toBe("one\n");
      expect(testRepositoryAt(path).git("symbolic-ref", "HEAD")).toBe("refs/heads/topic/x\n");
      const linked = await openGitWorkspaces(path);
      expect(linked.commonDir).toBe(workspaces.commonDir);
      const child = await linked.create({ run: "child" });
      expect(testRepositoryAt(child.root).read("a.txt")).toBe("one\n");
    });

    test("a path through a link is resolved as git stores it", async () => {
      mkdirSync(join(repo.root, "..", "real"));
      symlinkSync("real", join(repo.root, "..", "link"));
      const made = await workspaces.create({ run: "r", path: join(repo.root, "..", "link", "new", "r") });
      expect(made.root).toBe(join(repo.root, "..", "real", "new", "r"));
      expect((await workspaces.find("r"))?.root).toBe(made.root);
    });

    test("a bare repository has its worktrees inside", async () => {
      const bare = join(repo.root, "..", "bare.git");
      repo.git("clone", "-q", "--bare", repo.root, bare);
      const all = await openGitWorkspaces(bare);
      expect(all.bare).toBe(true);
      const made = await all.create({ run: "r" });
      expect(made.root).toBe(join(bare, "trees", "r"));
      const plane = await made.snapshot({ run: "r", sequence: 1, message: "m", at: "2026-01-01T00:00:00Z" });
      expect(await all.has(plane)).toBe(true);
      expect((await all.list()).map(({ run }) => run)).toEqual(["r"]);
      const linked = await openGitWorkspaces(made.root);
      expect(linked.bare).toBe(true);
      expect((await linked.create({ run: "s" })).root).toBe(join(bare, "trees", "s"));
      await linked.remove({ run: "s" });
      await all.remove({ run: "r" });
      expect(await all.find("r")).toBeUndefined();
    });

    test("a deleted folder is created again on its branch, with its commits", async () => {
      const made = await workspaces.create({ run: "r" });
      const tree = testRepositoryAt(made.root);
      tree.write("b.txt", "committed\n");
      tree.git("add", "b.txt");
      tree.git("commit", "-qm", "work");
      rmSync(made.root, { recursive: true });
      expect(await workspaces.find("r")).toBeUndefined();
      expect((await workspaces.list()).find(({ run }) => run === "r")).toMatchObject({ exists: false });
      const again = await workspaces.create({ run: "r" });
      expect(again.root).toBe(made.root);
      expect(tree.read("b.txt")).toBe("committed\n");
      expect((await workspaces.list()).filter(({ run }) => run === "r")).toHaveLength(1);
    });

    test("a worktree whose folder is missing can be created again at another path", async () => {
      const made = await workspaces.create({ run: "r" });
      rmSync(made.root, { recursive: true });
      const path = join(repo.root, "..", "other place");
      expect((await workspaces.create({ run: "r", path })).root).toBe(path);
      expect((await workspaces.find("r"))?.root).toBe(path);
      expect((await workspaces.create({ run: "r" })).root).toBe(path);
    });

    test("an existing folder of a user at that path is not touched", async () => {
      const path = join(repo.root, "..", "repo-worktrees", "r");
      mkdirSync(path, { recursive: true });
      writeFileSync(join(path, "theirs"), "x");
      await expect(workspaces.create({ run: "r" })).rejects.toMatchObject({
        code: "USAGE",
        hint: expect.stringContaining("Move it away"),
      });
      expect(readdirSync(path)).toEqual(["theirs"]);
      expect(() => repo.git("rev-parse", "--verify", "-q", "holdfast/r")).toThrow();
    });

    test("a worktree whose creator was killed is completed, and not found before", async () => {
      const made = await workspaces.create({ run: "r" });
      const gitDir = testRepositoryAt(made.root).git("rev-parse", "--absolute-git-dir").trim();
      writeFileSync(join(gitDir, "holdfast-making"), "");
      rmSync(join(made.root, ".gitignore"));
      writeFileSync(join(made.root, "a.txt"), "half writ");
      expect(await workspaces.find("r")).toBeUndefined();
      await workspaces.create({ run: "r" });
      expect(testRepositoryAt(made.root).git("status", "--porcelain")).toBe("");
      expect(repo.git("show", "refs/holdfast/r/0:a.txt")).toBe("half writ");
      rmSync(join(gitDir, "holdfast-run"));
      for (const name of ["a.txt", ".gitignore"]) rmSync(join(made.root, name));
      const adopted = await workspaces.create({ run: "r" });
      expect(adopted.root).toBe(made.root);
      expect(testRepositoryAt(made.root).read("a.txt")).toBe("one\n");
    });

    test("a branch that is checked out elsewhere, bad names, bad bases", async () => {
      await expect(workspaces.create({ run: "r", branch: "main" })).rejects.toMatchObject({ code: "CONFLICT" });
      for (const branch of ["a..b", "-x", "a b", "x.lock"]) {
        await expect(workspaces.create({ run: "r", branch })).rejects.toMatchObject({ code: "USAGE" });
      }
      for (const base of ["nope", "--output=/tmp/x", "HEAD:a.txt"]) {
        await expect(workspaces.create({ run: "r", base })).rejects.toMatchObject({ code: "USAGE" });
      }
      await expect(workspaces.create({ run: "../x" })).rejects.toMatchObject({ code: "USAGE" });
    });
  });

  describe("remove", () => {
    test("a clean worktree is removed, its branch stays; a missing one is not an error", async () => {
      const made = await workspaces.create({ run: "r" });
      await workspaces.remove({ run: "r" });
      expect(existsSync(made.root)).toBe(false);
      expect(repo.git("rev-parse", "holdfast/r")).toBe(repo.git("rev-parse", "HEAD"));
      await workspaces.remove({ run: "r" });
      await workspaces.create({ run: "r" });
      rmSync(made.root, { recursive: true });
      await workspaces.remove({ run: "r" });
      expect((await workspaces.list()).map(({ run }) => run)).toEqual([null]);
    });

    test.each([
      ["an edit", "changed", (tree: TestRepository) => tree.write("a.txt", "edited\n")],
      ["a staged edit", "changed", (tree: TestRepository) => (tree.write("a.txt", "x\n"), tree.git("add", "a.txt"))],
      ["an untracked file", "untracked", (tree: TestRepository) => tree.write("new", "1")],
      ["an ignored file", "ignored", (tree: TestRepository) => tree.write("x.log", "1")],
      [
        "a commit that no other branch has",
        "commits",
        (tree: TestRepository) => tree.git("commit", "-q", "--allow-empty", "-m", "w"),
      ],
      [
        "a commit on a detached HEAD",
        "commits",
        (tree: TestRepository) => (
          tree.git("checkout", "-q", "--detach"),
          tree.git("commit", "-q", "--allow-empty", "-m", "w")
        ),
      ],
      ["a nested repository", "nested", (tree: TestRepository) => tree.git("init", "-q", "inner")],
      [
        "an edit under assume-unchanged",
        "changed",
        (tree: TestRepository) => (
          tree.git("update-index", "--assume-unchanged", "a.txt"),
          tree.write("a.txt", "hidden\n")
        ),
      ],
      [
        "an edit under skip-worktree",
        "changed",
        (tree: TestRepository) => (
          tree.git("update-index", "--skip-worktree", "a.txt"),
          tree.write("a.txt", "hidden\n")
        ),
      ],
    ] as const)("refuses to lose %s", async (_, kind, act) => {
      const made = await workspaces.create({ run: "r" });
      act(testRepositoryAt(made.root));
      const attempt = workspaces.remove({ run: "r" });
      await expect(attempt).rejects.toMatchObject({ code: "RESTORE_REFUSED", data: { [kind]: [expect.any(String)] } });
      expect(existsSync(join(made.root, "a.txt"))).toBe(true);
      await workspaces.remove({ run: "r", force: true });
      expect(existsSync(made.root)).toBe(false);
    });

    test("commits that another branch or a remote has are not lost", async () => {
      const made = await workspaces.create({ run: "r" });
      testRepositoryAt(made.root).git("commit", "-q", "--allow-empty", "-m", "work");
      repo.git("update-ref", "refs/remotes/origin/holdfast/r", "holdfast/r");
      await workspaces.remove({ run: "r" });
      expect(existsSync(made.root)).toBe(false);
    });

    test("a locked worktree stays, even by force", async () => {
      const made = await workspaces.create({ run: "r" });
      repo.git("worktree", "lock", made.root);
      await expect(workspaces.remove({ run: "r", force: true })).rejects.toMatchObject({ code: "RESTORE_REFUSED" });
      rmSync(made.root, { recursive: true });
      await expect(workspaces.remove({ run: "r" })).rejects.toMatchObject({ code: "RESTORE_REFUSED" });
    });

    test("a folder that was moved is neither found nor removed", async () => {
      const made = await workspaces.create({ run: "r" });
      const elsewhere = `${made.root}-moved`;
      renameSync(made.root, elsewhere);
      writeFileSync(join(elsewhere, "work"), "mine");
      expect(await workspaces.find("r")).toBeUndefined();
      await workspaces.remove({ run: "r" });
      expect(readFileSync(join(elsewhere, "work"), "utf8")).toBe("mine");
    });

    test("worktrees of the user, also those on an absent disk, are never pruned by ours", async () => {
      const theirs = join(repo.root, "..", "theirs");
      repo.git("worktree", "add", "-q", theirs);
      rmSync(theirs, { recursive: true });
      const made = await workspaces.create({ run: "r" });
      rmSync(made.root, { recursive: true });
      await workspaces.create({ run: "r" });
      await workspaces.remove({ run: "r" });
      expect((await workspaces.list()).map(({ path, exists }) => [path, exists])).toEqual([
        [repo.root, true],
        [theirs, false],
      ]);
    });
  });

  describe("refs that a resume restores or keeps", () => {
    test("a branch is created again at its commit, and never moved", async () => {
      const commit = repo.git("rev-parse", "HEAD").trim();
      const branch = "refs/heads/holdfast/r";
      expect(await workspaces.branchTip(branch)).toBeNull();
      await workspaces.createBranch({ branch, commit });
      await workspaces.createBranch({ branch, commit });
      expect(await workspaces.branchTip(branch)).toBe(commit);
      repo.git("commit", "-q", "--allow-empty", "-m", "second");
      const second = repo.git("rev-parse", "HEAD").trim();
      await expect(workspaces.createBranch({ branch, commit: second })).rejects.toMatchObject({ code: "CONFLICT" });
      expect(await workspaces.branchTip(branch)).toBe(commit);
      await expect(workspaces.createBranch({ branch: "refs/tags/r", commit })).rejects.toMatchObject({ code: "USAGE" });
    });

    test("a kept commit survives git's gc, is not a snapshot for ours, and must exist", async () => {
      repo.git("checkout", "-q", "--detach");
      repo.git("commit", "-q", "--allow-empty", "-m", "lonely");
      const lonely = repo.git("rev-parse", "HEAD").trim();
      repo.git("checkout", "-q", "main");
      const ref = await workspaces.keep({ run: "r", commit: lonely });
      expect(await workspaces.keep({ run: "r", commit: lonely })).toBe(ref);
      repo.git("reflog", "expire", "--expire=now", "--all");
      repo.git("gc", "-q", "--prune=now");
      expect(repo.git("rev-parse", ref).trim()).toBe(lonely);
      expect(await workspaces.refs()).toEqual([]);
      const absent = "f".repeat(40);
      await expect(workspaces.keep({ run: "r", commit: absent })).rejects.toMatchObject({ code: "TREE_MISSING" });
    });
  });
});

describe("create worktree", () => {
  const AT = "2026-01-02T03:04:05Z";

  describe("in a repository without any commit", () => {
    let repo: TestRepository;
    beforeEach(() => {
      repo = createTestRepository();
      repo.write("a.txt", "one\n");
      repo.git("add", "a.txt");
    });
    afterEach(() => repo.dispose());

    test("a new worktree is empty, on its own branch that has no commit either", async () => {
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

    test("a snapshot from elsewhere can be restored into it, and it can be removed", async () => {
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

    test("one that was killed before its branch or its owner was written is completed", async () => {
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
});
