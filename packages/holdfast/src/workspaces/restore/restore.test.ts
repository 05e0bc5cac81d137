import { spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  lstatSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readWorktree, testRepositoryAt } from "../../testing/workspace/workspace-repository.ts";
import { openWorkspaceSession } from "../../testing/workspace/workspace-session.ts";
import { openGitWorkspaces } from "../git-workspaces.ts";
import { startWorkspace } from "../../testing/workspace/workspace-start.ts";

describe("what a restore brings back", () => {
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

  test("a file where a link to itself, or to a folder with such a file, stands now", async () => {
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

  test("nothing to do is no error", async () => {
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

  test("files of any size come through unchanged", async () => {
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

test("a folder that has become a link is a folder again, and where the link led nothing was touched or looked at", async () => {
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

test("a worktree that is gone is said to be gone", async () => {
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

test("a restore that was cut short is completed by doing it again", async () => {
  const { repo, snapshot, restore } = await startWorkspace({ a: "1", b: "1", "c/d": "1" });
  const recorded = readWorktree(repo.root);
  const plane = await snapshot();
  for (const name of ["a", "b", "c/d"]) repo.write(name, "2");
  repo.write("new/file", "2");
  // As a kill would leave it: one file done, one removed and not yet written, one untouched.
  repo.write("a", "1");
  repo.remove("c");
  await restore(plane);
  expect(readWorktree(repo.root)).toEqual(recorded);
});
