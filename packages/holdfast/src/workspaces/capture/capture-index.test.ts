import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { testRepositoryAt } from "../../testing/workspace/workspace-repository.ts";
import { openWorkspaceSession } from "../../testing/workspace/workspace-session.ts";
import { startCommitted, startRepository, startSession } from "../../testing/workspace/workspace-start.ts";
import { contentOf, listTree } from "../../testing/workspace/workspace-tree.ts";
import { openGitWorkspaces } from "../git-workspaces.ts";

describe("index states", () => {
  test("assume-unchanged and skip-worktree do not hide an edit", async () => {
    const repo = startCommitted({ a: "1", b: "1", c: "1" });
    repo.git("update-index", "--assume-unchanged", "a");
    repo.git("update-index", "--skip-worktree", "b");
    const { snapshot } = await startSession(repo);
    await snapshot();
    repo.write("a", "2");
    repo.write("b", "2");
    const plane = await snapshot();
    expect([contentOf(repo, plane, "a"), contentOf(repo, plane, "b"), contentOf(repo, plane, "c")]).toEqual([
      "2",
      "2",
      "1",
    ]);
  });

  test.each([["--no-sparse-index"], ["--sparse-index"]])(
    "files that a sparse checkout leaves out are not deletions (%s)",
    async (kind) => {
      const repo = startCommitted({ "in/a": "1", "out/b": "1", "out/c": "1", top: "1" });
      const { snapshot } = await startSession(repo);
      const full = await snapshot();
      repo.git("sparse-checkout", "set", "--cone", kind, "in");
      const sparse = await snapshot();
      expect(sparse.tree).toBe(full.tree);
      repo.write("out/b", "present again and edited");
      repo.remove("in/a");
      const edited = await snapshot();
      expect(contentOf(repo, edited, "out/b")).toBe("present again and edited");
      expect(listTree(repo, edited)).toEqual(["100644 out/b", "100644 out/c", "100644 top"]);
      repo.remove("out");
      repo.write("in/a", "1");
      expect((await snapshot()).tree).toBe(full.tree);
      repo.git("sparse-checkout", "disable");
      expect((await snapshot()).tree).toBe(full.tree);
      repo.remove("out/c");
      expect(listTree(repo, await snapshot())).toEqual(["100644 in/a", "100644 out/b", "100644 top"]);
    },
  );

  test("intent to add, and a merge with conflicts, are what lies on disk", async () => {
    const repo = startCommitted({ a: "base\n" });
    repo.git("checkout", "-qb", "other");
    repo.write("a", "other\n");
    repo.git("commit", "-qam", "other");
    repo.git("checkout", "-q", "main");
    repo.write("a", "main\n");
    repo.git("commit", "-qam", "main");
    expect(() => repo.git("merge", "other")).toThrow();
    repo.write("planned", "content");
    repo.git("add", "-N", "planned");
    const { snapshot } = await startSession(repo);
    const plane = await snapshot();
    expect(plane.operation).toBe("merge");
    expect(contentOf(repo, plane, "a")).toContain("<<<<<<<");
    expect(contentOf(repo, plane, "planned")).toBe("content");
    repo.remove("a");
    expect(listTree(repo, await snapshot())).toEqual(["100644 planned"]);
  });

  test("no commits yet, no index yet, nothing at all", async () => {
    const repo = startRepository();
    const { snapshot } = await startSession(repo);
    const empty = await snapshot();
    expect(empty).toMatchObject({ head: null, branch: "refs/heads/main", index: null, artifactCount: 0 });
    repo.write("a", "1");
    const plane = await snapshot();
    expect(listTree(repo, plane)).toEqual(["100644 a"]);
    repo.git("add", "a");
    expect((await snapshot()).tree).toBe(plane.tree);
  });

  test("a detached HEAD, SHA-256 objects, an index lock of somebody else, a split index", async () => {
    const repo = startRepository(["--object-format=sha256"]);
    repo.write("a", "1");
    repo.git("add", "a");
    repo.git("commit", "-qm", "first");
    repo.git("checkout", "-q", "--detach");
    repo.git("update-index", "--split-index");
    repo.write(".git/index.lock", "");
    repo.write("b", "2");
    const { snapshot, workspaces } = await startSession(repo);
    const plane = await snapshot();
    expect(plane.branch).toBeNull();
    expect(plane.tree).toHaveLength(64);
    expect(listTree(repo, plane)).toEqual(["100644 a", "100644 b"]);
    repo.remove("b");
    expect(listTree(repo, await snapshot())).toEqual(["100644 a"]);
    expect(await workspaces.has(plane)).toBe(true);
  });

  test("a repository, a branch and a submodule under names that are not ASCII", async () => {
    const repo = startCommitted();
    const root = join(repo.root, "..", "dépôt 日本");
    repo.git("clone", "-q", repo.root, root);
    const clone = testRepositoryAt(root);
    clone.git("checkout", "-qb", "zweig/ü");
    clone.write("é/file", "1");
    clone.git("init", "-q", "ñ");
    const { snapshot } = await startSession(clone);
    const plane = await snapshot();
    expect(plane).toMatchObject({ branch: "refs/heads/zweig/ü", worktree: root, nested: [{ path: "ñ", head: null }] });
    expect(plane.head).toBe(repo.git("rev-parse", "HEAD").trim());
    clone.git("pack-refs", "--all");
    expect((await snapshot()).head).toBe(plane.head);
  });

  test("a linked worktree of a bare repository", async () => {
    const repo = startCommitted();
    const bare = join(repo.root, "..", "bare.git");
    repo.git("clone", "-q", "--bare", repo.root, bare);
    testRepositoryAt(bare).git("worktree", "add", "-q", join(repo.root, "..", "tree"), "main");
    const tree = testRepositoryAt(join(repo.root, "..", "tree"));
    tree.write("new", "1");
    const { snapshot } = await openWorkspaceSession({ repository: tree, open: openGitWorkspaces, gitDir: bare });
    const plane = await snapshot();
    expect(listTree(tree, plane)).toEqual(["100644 a.txt", "100644 dir/b.txt", "100644 new"]);
    expect(plane.worktree).toBe(tree.root);
    const workspaces = await openGitWorkspaces(bare);
    expect(workspaces.bare).toBe(true);
    await expect(workspaces.open(bare)).rejects.toMatchObject({ code: "WORKSPACE_MISSING" });
  });
});

test("the staged state can be found again: the index is kept byte for byte and survives gc", async () => {
  const repo = startCommitted();
  repo.write("a.txt", "staged\n");
  repo.git("add", "a.txt");
  const { snapshot } = await startSession(repo);
  const plane = await snapshot();
  repo.git("reset", "-q", "--hard");
  repo.git("gc", "-q", "--prune=now");
  const bytes = execFileSync("git", ["cat-file", "blob", plane.index ?? ""], { cwd: repo.root });
  const index = join(repo.root, "..", "index-copy");
  writeFileSync(index, bytes);
  const diff = execFileSync("git", ["diff", "--cached", "--name-only"], {
    cwd: repo.root,
    env: { ...process.env, GIT_INDEX_FILE: index },
  });
  expect(diff.toString()).toBe("a.txt\n");
});
