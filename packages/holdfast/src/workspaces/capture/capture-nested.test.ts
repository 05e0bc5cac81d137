import { describe, expect, test } from "vitest";
import { testRepositoryAt } from "../../testing/workspace/workspace-repository.ts";
import { startCommitted, startSession } from "../../testing/workspace/workspace-start.ts";
import { listTree } from "../../testing/workspace/workspace-tree.ts";

describe("repositories inside", () => {
  test("nested repositories, with and without commits, are named and not entered", async () => {
    const repo = startCommitted();
    const inner = testRepositoryAt(repo.path("inner"));
    repo.write("inner/file", "x");
    inner.git("init", "-q");
    repo.write("fresh/file", "x");
    testRepositoryAt(repo.path("fresh")).git("init", "-q");
    inner.git("add", "-A");
    inner.git("commit", "-qm", "inner");
    const { snapshot } = await startSession(repo);
    const plane = await snapshot();
    expect(listTree(repo, plane)).toEqual(["100644 a.txt", "100644 dir/b.txt"]);
    expect(plane.nested).toEqual([
      { path: "fresh", head: null },
      { path: "inner", head: inner.git("rev-parse", "HEAD").trim() },
    ]);
  });

  test("files that were captured before somebody made a repository around them leave the snapshot", async () => {
    const repo = startCommitted();
    repo.write("lib/file", "x");
    const { snapshot } = await startSession(repo);
    expect(listTree(repo, await snapshot())).toContain("100644 lib/file");
    testRepositoryAt(repo.path("lib")).git("init", "-q");
    const plane = await snapshot();
    expect(listTree(repo, plane)).not.toContain("100644 lib/file");
    expect(plane.nested).toEqual([{ path: "lib", head: null }]);
  });

  test("submodules stay links, at the commit that is checked out in them", async () => {
    const library = startCommitted({ "lib.txt": "1" });
    const repo = startCommitted();
    repo.git("submodule", "add", "-q", library.root, "sub");
    repo.git("commit", "-qm", "submodule");
    const { snapshot } = await startSession(repo);
    const plane = await snapshot();
    const head = library.git("rev-parse", "HEAD").trim();
    expect(listTree(repo, plane)).toContain("160000 sub");
    expect(plane.nested).toEqual([{ path: "sub", head }]);
    const sub = testRepositoryAt(repo.path("sub"));
    sub.write("lib.txt", "2");
    expect((await snapshot()).tree).toBe(plane.tree);
    sub.git("commit", "-qam", "two");
    const moved = await snapshot();
    expect(moved.nested).toEqual([{ path: "sub", head: sub.git("rev-parse", "HEAD").trim() }]);
    expect(moved.tree).not.toBe(plane.tree);
    sub.git("checkout", "-q", head);
    expect((await snapshot()).tree).toBe(plane.tree);
    repo.git("submodule", "--quiet", "deinit", "-f", "sub");
    expect((await snapshot()).tree).toBe(plane.tree);
    repo.remove("sub");
    expect(listTree(repo, await snapshot())).not.toContain("160000 sub");
  });
});
