import { existsSync, mkdirSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { testRepositoryAt } from "../../testing/workspace/workspace-repository.ts";
import { startWorkspace } from "../../testing/workspace/workspace-start.ts";

describe("what a restore leaves alone", () => {
  test("files that the restored rules ignore: they may have been there, unseen", async () => {
    const { repo, snapshot, workspace, restore } = await startWorkspace({ a: "1" });
    repo.write(".gitignore", "data/\n*.local\n");
    repo.write("data/results", "a gigabyte of results");
    repo.write("deep/conf.local", "mine");
    repo.write(":(glob)*.local", "mine");
    const plane = await snapshot();
    repo.write(".gitignore", "");
    repo.write("new", "made by the agent");
    const from = await snapshot();
    expect(from.artifacts.map(({ path }) => path)).toContain("data/results");
    const plan = await workspace.planRestore({ from, to: plane });
    expect(plan.untouched).toEqual([
      { path: ":(glob)*.local", reason: "ignored", bytes: null },
      { path: "data/results", reason: "ignored", bytes: null },
      { path: "deep/conf.local", reason: "ignored", bytes: null },
    ]);
    expect(await restore(plane)).toMatchObject({ tree: plane.tree, removed: 1 });
    expect([repo.read("data/results"), repo.read("deep/conf.local")]).toEqual(["a gigabyte of results", "mine"]);
    expect(existsSync(repo.path("new"))).toBe(false);
  });

  test("but not below what was a file then: nothing can have been there", async () => {
    const { repo, snapshot, restore } = await startWorkspace({ ".gitignore": "/a/\n", x: "1" });
    repo.write("a", "a file");
    const plane = await snapshot();
    repo.write(".gitignore", "");
    repo.remove("a");
    repo.write("a/inner", "2");
    expect((await restore(plane)).tree).toBe(plane.tree);
    expect(repo.read("a")).toBe("a file");
  });

  test("but not what git tracked then: the snapshot would have seen it", async () => {
    const { repo, snapshot, workspace } = await startWorkspace({ a: "1", kept: "1" });
    repo.write(".gitignore", "kept\n");
    repo.remove("kept");
    const plane = await snapshot();
    repo.write(".gitignore", "");
    repo.write("kept", "back");
    const plan = await workspace.planRestore({ from: await snapshot(), to: plane });
    expect(plan.untouched).toEqual([]);
    expect((await workspace.applyRestore(plan)).tree).toBe(plane.tree);
    expect(existsSync(repo.path("kept"))).toBe(false);
  });

  test("ignored files that become visible because the rule was newer than the snapshot", async () => {
    const { repo, snapshot, workspace, restore } = await startWorkspace({ a: "1", "sub/.gitignore": "*.log\n" });
    const plane = await snapshot();
    repo.write(".gitignore", "dist/\n");
    repo.write("dist/out.js", "built");
    repo.write("sub/x.log", "ignored then too");
    const plan = await workspace.planRestore({ from: await snapshot(), to: plane });
    expect(plan.exposed).toEqual(["dist/out.js"]);
    expect((await workspace.planRestore({ from: await snapshot(), to: plane, paths: ["a"] })).exposed).toEqual([]);
    const { undo } = await restore(plane);
    expect(repo.read("dist/out.js")).toBe("built");
    expect(existsSync(repo.path(".gitignore"))).toBe(false);
    await restore(undo);
    expect(repo.read(".gitignore")).toBe("dist/\n");
    expect(repo.read("dist/out.js")).toBe("built");
  });

  test("ignored files, although the snapshot of now took them along and the target did not", async () => {
    const { repo, snapshot, workspace } = await startWorkspace({ ".gitignore": "*.log\n.env\n", a: "1" });
    repo.write(".env", "SECRET=1");
    const plane = await snapshot();
    repo.write("x.log", "ignored");
    repo.write("made", "by the agent");
    const from = await snapshot({ includeIgnored: true });
    const plan = await workspace.planRestore({ from, to: plane });
    expect(plan.changes).toEqual([{ kind: "remove", path: "made" }]);
    expect((await workspace.applyRestore(plan)).tree).toBe(plan.toTree);
    expect([repo.read(".env"), repo.read("x.log")]).toEqual(["SECRET=1", "ignored"]);

    repo.write(".env", "SECRET=2");
    const later = await snapshot({ includeIgnored: true });
    const back = await workspace.planRestore({ from: later, to: from });
    await workspace.applyRestore(back);
    expect(repo.read(".env")).toBe("SECRET=1");
    repo.remove("x.log");
    repo.write(".env", "SECRET=3");
    const plain = await workspace.planRestore({ from: await snapshot(), to: from });
    expect(plain.blocked).toEqual([".env"]);
    repo.write(".env", "SECRET=1");
    await workspace.applyRestore(await workspace.planRestore({ from: await snapshot(), to: from }));
    expect(repo.read("x.log")).toBe("ignored");
  });

  test("a submodule, at whatever commit it is", async () => {
    const { repo: library } = await startWorkspace({ lib: "1" });
    const { repo, snapshot, restore } = await startWorkspace({ a: "1" });
    repo.git("submodule", "--quiet", "add", library.root, "sub");
    const plane = await snapshot();
    const sub = testRepositoryAt(repo.path("sub"));
    sub.write("lib", "2");
    sub.git("commit", "-qam", "two");
    sub.write("lib", "dirty");
    repo.write("a", "2");
    const head = sub.git("rev-parse", "HEAD");
    const { tree } = await restore(plane);
    expect(repo.read("a")).toBe("1");
    expect([sub.read("lib"), sub.git("rev-parse", "HEAD")]).toEqual(["dirty", head]);
    expect(tree).not.toBe(plane.tree);
    expect((await snapshot()).tree).toBe(tree);
  });

  test("empty folders of the user, and folders that still hold something", async () => {
    const { repo, snapshot, restore } = await startWorkspace({ ".gitignore": "*.log\n", a: "1" });
    mkdirSync(repo.path("empty/inside"), { recursive: true });
    const plane = await snapshot();
    repo.write("made/by/agent", "1");
    repo.write("kept/by/agent", "1");
    repo.write("kept/x.log", "ignored");
    await restore(plane);
    expect(existsSync(repo.path("made"))).toBe(false);
    expect(existsSync(repo.path("empty/inside"))).toBe(true);
    expect(repo.read("kept/x.log")).toBe("ignored");
    expect(existsSync(repo.path("kept/by"))).toBe(false);
  });

  test("nested repositories and submodules, made before or after the snapshot", async () => {
    const { repo, snapshot, workspace, restore } = await startWorkspace({ a: "1", "lib/x": "1" });
    repo.write("older/file", "x");
    testRepositoryAt(repo.path("older")).git("init", "-q");
    const plane = await snapshot();
    repo.write("newer/file", "x");
    testRepositoryAt(repo.path("newer")).git("init", "-q");
    repo.git("rm", "-qr", "--cached", "lib");
    testRepositoryAt(repo.path("lib")).git("init", "-q");
    repo.write("a", "2");
    // lib/x holds what the snapshot has, so the repository around it is not in the way.
    const plan = await workspace.planRestore({ from: await snapshot(), to: plane });
    expect(plan.untouched).toContainEqual({ path: "lib/x", reason: "nested_repository", bytes: null });
    await restore(plane);
    expect(repo.read("a")).toBe("1");
    expect(repo.read("lib/x")).toBe("1");
    for (const name of ["older", "newer", "lib"]) expect(existsSync(repo.path(`${name}/.git/HEAD`))).toBe(true);
  });

  test("files of a nested repository that lost its .git since", async () => {
    const { repo, snapshot, restore } = await startWorkspace({ a: "1" });
    repo.write("vendor/file", "x");
    testRepositoryAt(repo.path("vendor")).git("init", "-q");
    const plane = await snapshot();
    repo.remove("vendor/.git");
    repo.write("a", "2");
    await restore(plane);
    expect(repo.read("vendor/file")).toBe("x");
    expect(repo.read("a")).toBe("1");
  });

  test("a file that was too large to capture then and is small now", async () => {
    const { repo, snapshot, workspace } = await startWorkspace({ a: "1" });
    repo.write("data", "x".repeat(200));
    const plane = await snapshot({ maxUntrackedBytes: 100 });
    repo.write("data", "small");
    repo.write("a", "2");
    const plan = await workspace.planRestore({ from: await snapshot({ maxUntrackedBytes: 100 }), to: plane });
    expect(plan.untouched).toEqual([{ path: "data", reason: "too_large", bytes: 200 }]);
    await workspace.applyRestore(plan);
    expect([repo.read("a"), repo.read("data")]).toEqual(["1", "small"]);
  });

  test("files that a sparse checkout keeps off the disk", async () => {
    const { repo, snapshot, workspace } = await startWorkspace({ "in/a": "1", "out/b": "1" });
    const plane = await snapshot();
    repo.write("out/b", "2");
    repo.write("in/a", "2");
    repo.git("commit", "-qam", "second");
    repo.git("sparse-checkout", "set", "in");
    const plan = await workspace.planRestore({ from: await snapshot(), to: plane });
    expect(plan.untouched).toEqual([{ path: "out/b", reason: "sparse", bytes: null }]);
    await workspace.applyRestore(plan);
    expect(repo.read("in/a")).toBe("1");
    expect(existsSync(repo.path("out"))).toBe(false);
  });

  test("the staged state, the branch, the stash: a restore is about files", async () => {
    const { repo, snapshot, restore } = await startWorkspace({ a: "1" });
    const plane = await snapshot();
    repo.write("a", "stashed");
    repo.git("stash", "-q");
    repo.git("checkout", "-qb", "other");
    repo.write("b", "staged");
    repo.git("add", "b");
    const head = repo.git("rev-parse", "HEAD");
    await restore(plane);
    expect(existsSync(repo.path("b"))).toBe(false);
    expect(repo.git("status", "--porcelain")).toBe("AD b\n");
    expect(repo.git("rev-parse", "HEAD")).toBe(head);
    expect(repo.git("symbolic-ref", "HEAD")).toBe("refs/heads/other\n");
    expect(repo.git("stash", "list")).toContain("stash@{0}");
  });
});
