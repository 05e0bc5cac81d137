import { spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  openWorkspaceSession,
  readWorktree,
  startWorkspace,
  testRepositoryAt,
} from "@holdfast/test-support/git/repository";
import { openGitWorkspaces } from "./workspaces.ts";

describe("restore", () => {
  describe("restored content", () => {
    test("content, modes, links, deletions, and folders that became files and back", async () => {
      const { repo, snapshot, restore } = await startWorkspace({
        a: "1",
        "run.sh": "#!",
        "dir/x": "x",
        "dir/y": "y",
        flip: "file",
      });
      chmodSync(repo.path("run.sh"), 0o755);
      symlinkSync("a", repo.path("link"));
      const recorded = readWorktree(repo.root);
      const plane = await snapshot();

      repo.write("a", "2");
      chmodSync(repo.path("run.sh"), 0o644);
      rmSync(repo.path("link"));
      repo.write("link", "now a file");
      repo.remove("dir");
      repo.write("dir", "now a file");
      repo.remove("flip");
      repo.write("flip/deep/er", "now a folder");
      repo.write("extra/one/two", "new");
      const edited = readWorktree(repo.root);

      const done = await restore(plane);
      expect(readWorktree(repo.root)).toEqual(recorded);
      expect(done).toMatchObject({ tree: plane.tree, written: 6, removed: 3 });
      expect(existsSync(repo.path("extra"))).toBe(false);
      await restore(done.undo);
      expect(readWorktree(repo.root)).toEqual(edited);
    });

    test("with core.fileMode=false modes are those of git's index: on the disk they neither count nor change", async () => {
      const { repo, snapshot: takeOld } = await startWorkspace({ a: "1" });
      for (const name of ["run.sh", "gone.sh", "plain"]) repo.write(name, "#!");
      for (const name of ["run.sh", "gone.sh"]) chmodSync(repo.path(name), 0o755);
      repo.git("add", "-A");
      repo.git("commit", "-qm", "scripts");
      // Taken while the bits of the disk counted.
      chmodSync(repo.path("plain"), 0o755);
      const old = await takeOld();
      repo.git("config", "core.fileMode", "false");
      const session = { repository: repo, open: (path: string) => openGitWorkspaces(path), run: "modeless" };
      const { workspace, snapshot, restore } = await openWorkspaceSession(session);
      for (const name of ["run.sh", "gone.sh"]) chmodSync(repo.path(name), 0o644);
      repo.write("new.sh", "#!");
      chmodSync(repo.path("new.sh"), 0o755);
      const modes = (tree: string): readonly string[] =>
        repo
          .git("ls-tree", "-r", tree)
          .trim()
          .split("\n")
          .map((line) => line.replace(/^100(\d+) .*\t/, "$1 "));
      const plane = await snapshot();
      expect(modes(plane.tree)).toEqual(["644 a", "755 gone.sh", "644 new.sh", "644 plain", "755 run.sh"]);

      repo.write("run.sh", "#! edited");
      repo.remove("gone.sh");
      const edited = await snapshot();
      expect(modes(edited.tree)).toEqual(["644 a", "644 new.sh", "644 plain", "755 run.sh"]);
      repo.write("gone.sh", "#! back");
      expect(modes((await snapshot()).tree)).toEqual(modes(plane.tree));
      repo.git("update-index", "--chmod=-x", "run.sh");
      const changed = await snapshot();
      expect(modes(changed.tree)).toEqual(["644 a", "755 gone.sh", "644 new.sh", "644 plain", "644 run.sh"]);
      repo.git("update-index", "--chmod=+x", "run.sh");

      // The target differs in its content and in modes; those alone are no change.
      const now = await snapshot();
      const plan = await workspace.planRestore({ from: now, to: changed });
      expect(plan).toMatchObject({ changes: [], blocked: [] });
      expect(await workspace.applyRestore(plan)).toMatchObject({ tree: now.tree, written: 0 });
      expect((await restore(plane)).tree).toBe(plane.tree);
      expect(readFileSync(repo.path("run.sh"), "utf8")).toBe("#!");
      chmodSync(repo.path("plain"), 0o644);
      const { changes } = await workspace.planRestore({ from: await snapshot(), to: old });
      expect(changes).toEqual([{ kind: "remove", path: "new.sh" }]);
      await restore(old);
      expect(statSync(repo.path("plain")).mode & 0o111).toBe(0);
      expect(repo.git("status", "--porcelain", "a", "gone.sh", "plain")).toBe("");
    });

    test("a file of the snapshot that is missing on disk afterwards is an error, whatever the plan promised", async () => {
      const { repo, workspace, snapshot } = await startWorkspace({ a: "1", b: "1" });
      const plane = await snapshot();
      repo.remove("b");
      const plan = await workspace.planRestore({ from: await snapshot(), to: plane });
      expect(plan.changes).toMatchObject([{ path: "b" }]);
      const wrong = { ...plan, toTree: plan.fromTree, changes: [] };
      await expect(workspace.applyRestore(wrong)).rejects.toMatchObject({
        code: "WORKSPACE_BUSY",
        data: { paths: ["b"] },
      });
      await workspace.applyRestore(plan);
      expect(repo.read("b")).toBe("1");
    });

    test("a file at whose path a link to itself, or to a folder with such a file, is now", async () => {
      const { repo, snapshot, restore } = await startWorkspace({ "x/file": "1", "y/file": "1", "z/file": "1" });
      const plane = await snapshot();
      for (const [name, target] of [
        ["x", "x"],
        ["y", "z"],
      ] as const) {
        repo.remove(name);
        symlinkSync(target, repo.path(name));
      }
      await restore(plane);
      expect(["x/file", "y/file", "z/file"].map(repo.read)).toEqual(["1", "1", "1"]);
      expect(lstatSync(repo.path("y")).isDirectory()).toBe(true);
    });

    test("an empty plan is not an error", async () => {
      const { snapshot, restore } = await startWorkspace({ a: "1" });
      expect(await restore(await snapshot())).toMatchObject({ written: 0, removed: 0 });
    });

    test("one file or one folder only", async () => {
      const { repo, snapshot, restore } = await startWorkspace({
        a: "1",
        "dir/b": "1",
        "dir/sub/c": "1",
        "director/d": "1",
      });
      const plane = await snapshot();
      for (const name of ["a", "dir/b", "dir/sub/c", "director/d"]) repo.write(name, "2");
      repo.write("dir/new", "2");
      await restore(plane, ["./dir/"]);
      expect(["a", "dir/b", "dir/sub/c", "director/d"].map(repo.read)).toEqual(["2", "1", "1", "2"]);
      expect(existsSync(repo.path("dir/new"))).toBe(false);
      await restore(plane, ["a"]);
      expect(repo.read("a")).toBe("1");
      expect(repo.read("director/d")).toBe("2");
      const { workspace } = await openWorkspaceSession({ repository: repo, open: openGitWorkspaces, run: "x" });
      const now = await snapshot();
      for (const path of ["../a", "/etc/passwd", ".git/config", "dir/../../a", '"bad']) {
        await expect(workspace.planRestore({ from: now, to: plane, paths: [path] })).rejects.toMatchObject({
          code: "USAGE",
        });
      }
    });

    test("a private file stays private", async () => {
      const { repo, snapshot, restore } = await startWorkspace({ secret: "1" });
      chmodSync(repo.path("secret"), 0o600);
      const plane = await snapshot();
      repo.write("secret", "2");
      await restore(plane);
      expect(statSync(repo.path("secret")).mode & 0o777).toBe(0o600);
    });

    test("files of any size are restored unchanged", async () => {
      const { repo, snapshot, restore } = await startWorkspace({ a: "1" });
      const big = Buffer.alloc(9_000_000, "0123456789abcdef\n");
      repo.write("big", big);
      repo.write("empty", "");
      repo.write("newline", "\n");
      const plane = await snapshot();
      for (const name of ["big", "empty", "newline"]) repo.write(name, "x");
      await restore(plane);
      expect(readFileSync(repo.path("big")).equals(big)).toBe(true);
      expect(repo.read("empty")).toBe("");
      expect(repo.read("newline")).toBe("\n");
    });

    test("many files at once", async () => {
      const { repo, snapshot, restore } = await startWorkspace({ a: "1" });
      for (let number = 0; number < 300; number++) repo.write(`many/${number % 7}/${number}`, String(number));
      const recorded = readWorktree(repo.root);
      const plane = await snapshot();
      repo.remove("many");
      expect(await restore(plane)).toMatchObject({ written: 300, removed: 0 });
      expect(readWorktree(repo.root)).toEqual(recorded);
    });
  });

  test("a folder that became a link is a folder again, and the target of the link was not touched or read", async () => {
    const { repo, snapshot, restore } = await startWorkspace({
      "folder/canary": "in",
      "folder/deep/er": "1",
      other: "1",
    });
    const recorded = readWorktree(repo.root);
    const plane = await snapshot();
    const outside = testRepositoryAt(join(repo.root, "..", "outside"));
    outside.write("canary", "out");
    outside.write("deep/er", "out");
    chmodSync(outside.path("canary"), 0o600);
    repo.remove("folder");
    symlinkSync("../outside", repo.path("folder"));
    const { undo } = await restore(plane);
    expect(readWorktree(repo.root)).toEqual(recorded);
    await restore(undo);
    expect(readlinkSync(repo.path("folder"))).toBe("../outside");
    await restore(plane, ["folder/canary", "folder"]);
    expect(readWorktree(repo.root)).toEqual(recorded);
    expect(readWorktree(outside.root)).toMatchObject({ canary: expect.stringMatching(/^600 /) });
    expect([outside.read("canary"), outside.read("deep/er")]).toEqual(["out", "out"]);
  });

  test("after a restore git itself finds nothing changed", async () => {
    const { repo, snapshot, restore } = await startWorkspace({ a: "1\n", b: "2\n" });
    const plane = await snapshot();
    repo.write("a", "x");
    repo.remove("b");
    await restore(plane);
    expect(repo.git("status", "--porcelain")).toBe("");
  });

  test("a missing worktree is reported as missing", async () => {
    const { repo, workspace, snapshot } = await startWorkspace({ a: "1" });
    await snapshot();
    renameSync(repo.root, `${repo.root}-moved`);
    await expect(workspace.currentFiles()).rejects.toMatchObject({
      code: "WORKSPACE_MISSING",
    });
  });

  test("a file system mounted inside the worktree", async (context) => {
    const { repo, snapshot, restore } = await startWorkspace({ a: "1", "mnt/placeholder": "" });
    if (spawnSync("mount", ["-t", "tmpfs", "tmpfs", repo.path("mnt")]).status !== 0)
      context.skip("mount is not allowed here");
    try {
      repo.write("mnt/file", "1");
      symlinkSync("file", repo.path("mnt/link"));
      const recorded = readWorktree(repo.root);
      const plane = await snapshot();
      repo.write("mnt/file", "2");
      rmSync(repo.path("mnt/link"));
      await restore(plane);
      expect(readWorktree(repo.root)).toEqual(recorded);
    } finally {
      spawnSync("umount", [repo.path("mnt")]);
    }
  });

  test("an interrupted restore is completed by repeating it", async () => {
    const { repo, snapshot, restore } = await startWorkspace({ a: "1", b: "1", "c/d": "1" });
    const recorded = readWorktree(repo.root);
    const plane = await snapshot();
    for (const name of ["a", "b", "c/d"]) repo.write(name, "2");
    repo.write("new/file", "2");
    // The state after a kill: one file done, one removed and not yet written, one untouched.
    repo.write("a", "1");
    repo.remove("c");
    await restore(plane);
    expect(readWorktree(repo.root)).toEqual(recorded);
  });
});

describe("restore untouched", () => {
  describe("a restore does not change", () => {
    test("files that the restored rules ignore: they may have existed, unseen", async () => {
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

    test("but not below a path that was a file: nothing can have existed there", async () => {
      const { repo, snapshot, restore } = await startWorkspace({ ".gitignore": "/a/\n", x: "1" });
      repo.write("a", "a file");
      const plane = await snapshot();
      repo.write(".gitignore", "");
      repo.remove("a");
      repo.write("a/inner", "2");
      expect((await restore(plane)).tree).toBe(plane.tree);
      expect(repo.read("a")).toBe("a file");
    });

    test("but not files that git tracked: the snapshot would have captured them", async () => {
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

    test("ignored files, although the current snapshot has them and the target does not", async () => {
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

    test("a submodule, at any commit", async () => {
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
      // lib/x matches the snapshot, so the repository around it does not block the restore.
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
});
