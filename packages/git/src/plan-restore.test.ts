import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { readWorktree, startWorkspace } from "@holdfast/test-support/git/repository";

describe("a restore refuses, with nothing changed,", () => {
  test("a worktree that changed after the plan, at a touched or at another path", async () => {
    const { repo, snapshot, workspace, guard } = await startWorkspace({ a: "1", b: "1" });
    const plane = await snapshot();
    repo.write("a", "2");
    const now = await snapshot();
    const plan = await workspace.planRestore({ from: now, to: plane });
    for (const name of ["a", "b", "untracked"]) {
      repo.write(name, "edited by a user meanwhile");
      const before = readWorktree(repo.root);
      await expect(guard(() => workspace.applyRestore(plan))).rejects.toMatchObject({
        code: "RESTORE_REFUSED",
        data: { changed: [name] },
      });
      expect(readWorktree(repo.root)).toEqual(before);
      if (name === "untracked") repo.remove(name);
      else repo.write(name, name === "a" ? "2" : "1");
    }
    await workspace.applyRestore(plan);
    expect(repo.read("a")).toBe("1");
  });

  test("an ignored file in the way, unless it equals the file to be written", async () => {
    const { repo, snapshot, workspace, restore } = await startWorkspace({ ".gitignore": "", a: "1" });
    repo.write("out", "then");
    repo.write("folder/file", "then");
    const plane = await snapshot();
    repo.write(".gitignore", "out\nfolder\n");
    repo.write("out", "precious");
    repo.remove("folder");
    repo.write("folder", "precious too");
    const from = await snapshot();
    const plan = await workspace.planRestore({ from, to: plane });
    expect(plan.blocked.toSorted()).toEqual(["folder", "out"]);
    await expect(workspace.applyRestore(plan)).rejects.toMatchObject({ code: "RESTORE_REFUSED" });
    expect([repo.read("out"), repo.read("folder")]).toEqual(["precious", "precious too"]);

    repo.write("out", "then");
    repo.remove("folder");
    chmodSync(repo.path("out"), 0o755);
    expect((await workspace.planRestore({ from: await snapshot(), to: plane })).blocked).toEqual(["out"]);
    chmodSync(repo.path("out"), 0o644);
    await restore(plane);
    expect([repo.read("out"), repo.read("folder/file")]).toEqual(["then", "then"]);
  });

  test("an ignored file that appeared in the way after the plan", async () => {
    const { repo, snapshot, workspace } = await startWorkspace({ ".gitignore": "*.gen\n", a: "1" });
    repo.write("x.gen", "then");
    repo.write("dir/y.gen", "then");
    repo.git("add", "-f", "x.gen", "dir/y.gen");
    const plane = await snapshot();
    repo.git("rm", "-qrf", "x.gen", "dir");
    const plan = await workspace.planRestore({ from: await snapshot(), to: plane });
    expect(plan.blocked).toEqual([]);
    for (const name of ["x.gen", "x.gen/inner.gen", "dir.gen"]) {
      const target = name === "dir.gen" ? "dir/y.gen" : name;
      repo.write(target, "precious");
      await expect(workspace.applyRestore(plan)).rejects.toMatchObject({
        code: "RESTORE_REFUSED",
        data: { blocked: [target] },
      });
      expect(repo.read(target)).toBe("precious");
      rmSync(repo.path(target.split("/")[0] ?? ""), { recursive: true });
    }
    await workspace.applyRestore(plan);
    expect([repo.read("x.gen"), repo.read("dir/y.gen")]).toEqual(["then", "then"]);
  });

  test("a folder with ignored files where a file must go", async () => {
    const { repo, snapshot, workspace } = await startWorkspace({ ".gitignore": "*.keep\n", target: "file" });
    const plane = await snapshot();
    repo.remove("target");
    repo.write("target/captured", "1");
    repo.write("target/deep/x.keep", "precious");
    const plan = await workspace.planRestore({ from: await snapshot(), to: plane });
    expect(plan.blocked).toEqual(["target/deep/x.keep"]);
    await expect(workspace.applyRestore(plan)).rejects.toMatchObject({ code: "RESTORE_REFUSED" });
    expect(repo.read("target/deep/x.keep")).toBe("precious");
  });

  test("a file over the size limit in the way", async () => {
    const { repo, snapshot, workspace } = await startWorkspace({ a: "1" });
    repo.write("data", "small");
    const plane = await snapshot({ maxUntrackedBytes: 100 });
    repo.write("data", "x".repeat(101));
    const from = await snapshot({ maxUntrackedBytes: 100 });
    const plan = await workspace.planRestore({ from, to: plane });
    expect(plan.blocked).toEqual(["data"]);
    await expect(workspace.applyRestore(plan)).rejects.toMatchObject({ code: "RESTORE_REFUSED" });
  });

  test("another git operation under way, or the index locked", async () => {
    const { repo, snapshot, workspace } = await startWorkspace({ a: "1" });
    const plane = await snapshot();
    repo.write("a", "2");
    const plan = await workspace.planRestore({ from: await snapshot(), to: plane });
    repo.write(".git/MERGE_HEAD", repo.git("rev-parse", "HEAD"));
    await expect(workspace.applyRestore(plan)).rejects.toMatchObject({
      code: "RESTORE_REFUSED",
      data: { operation: "merge" },
    });
    repo.remove(".git/MERGE_HEAD");
    repo.write(".git/index.lock", "");
    await expect(workspace.applyRestore(plan)).rejects.toMatchObject({ code: "RESTORE_REFUSED" });
    repo.remove(".git/index.lock");
    await workspace.applyRestore(plan);
  });

  test("trees with names that leave the worktree or enter a git directory", async () => {
    const { repo, snapshot, workspace } = await startWorkspace({ a: "1" });
    const now = await snapshot();
    const blob = repo.git("hash-object", "-w", "a").trim();
    const entry = (name: string, mode = "100644", id = blob): Buffer =>
      Buffer.concat([Buffer.from(`${mode} ${name}\0`), Buffer.from(id, "hex")]);
    const writeTree = (content: Buffer): string => {
      const file = join(repo.root, "..", "tree");
      writeFileSync(file, content);
      return repo.git("hash-object", "-w", "-t", "tree", "--literally", file).trim();
    };
    const inner = writeTree(entry("evil"));
    for (const name of ["..", ".git", ".GIT", ".git ", ".git.", "git~1", ".g\u200cit", ".", "/abs", "x/../y"]) {
      for (const tree of [writeTree(entry(name)), writeTree(entry(name, "40000", inner))]) {
        const plan = workspace.planRestore({ from: now, to: { ...now, tree } });
        await expect(plan, name).rejects.toMatchObject({ code: "RESTORE_REFUSED" });
      }
    }
    expect(existsSync(join(repo.root, "..", "evil"))).toBe(false);
  });

  test("a link that replaced a folder after the plan", async () => {
    const { repo, snapshot, workspace } = await startWorkspace({ ".gitignore": "sneaky\n", "dir/file": "1" });
    const outside = join(repo.root, "..", "outside");
    mkdirSync(outside);
    const plane = await snapshot();
    repo.remove("dir");
    const from = await snapshot();
    const plan = await workspace.planRestore({ from, to: plane });
    symlinkSync(outside, repo.path("dir"));
    await expect(workspace.applyRestore(plan)).rejects.toMatchObject({ code: "RESTORE_REFUSED" });
    expect(existsSync(join(outside, "file"))).toBe(false);
    const second = await workspace.planRestore({ from: await snapshot(), to: plane });
    await workspace.applyRestore(second);
    expect(lstatSync(repo.path("dir")).isDirectory()).toBe(true);
    expect(existsSync(join(outside, "file"))).toBe(false);
  });

  test("an ignored link at the path of a folder", async () => {
    const { repo, snapshot, workspace } = await startWorkspace({ ".gitignore": "/dir\n", a: "1" });
    const outside = join(repo.root, "..", "outside");
    mkdirSync(outside);
    repo.write("dir/file", "1");
    repo.git("add", "-f", "dir/file");
    const plane = await snapshot();
    repo.git("rm", "-qrf", "--cached", "dir");
    repo.remove("dir");
    symlinkSync(outside, repo.path("dir"));
    const plan = await workspace.planRestore({ from: await snapshot(), to: plane });
    expect(plan.blocked).toEqual(["dir"]);
    await expect(workspace.applyRestore(plan)).rejects.toMatchObject({ code: "RESTORE_REFUSED" });
    expect(readlinkSync(repo.path("dir"))).toBe(outside);
  });

  test("a git repository at the path of a file of the snapshot", async () => {
    const { repo, snapshot, workspace } = await startWorkspace({ ".gitignore": "", a: "1", file: "1" });
    repo.write("lib/deep/x", "p");
    const plane = await snapshot();
    repo.write("a", "2");
    const remove = (name: string): void => rmSync(repo.path(name), { recursive: true, force: true });
    const cases: readonly { readonly nested: string; readonly prepare: () => void; readonly blocked: string }[] = [
      { nested: "lib", prepare: () => remove("lib"), blocked: "lib" },
      { nested: "lib/deep", prepare: () => remove("lib"), blocked: "lib/deep" },
      { nested: "lib", prepare: () => repo.write("lib/deep/x", "edited"), blocked: "lib" },
      { nested: "file", prepare: () => remove("file"), blocked: "file" },
      {
        nested: "lib",
        prepare: () => {
          remove("lib");
          repo.write(".gitignore", "lib/\n");
        },
        blocked: "lib",
      },
    ];
    for (const { nested, prepare, blocked } of cases) {
      prepare();
      repo.git("init", "-q", nested);
      const before = readWorktree(repo.root);
      const plan = await workspace.planRestore({ from: await snapshot(), to: plane });
      expect(plan.blocked).toEqual([blocked]);
      await expect(workspace.applyRestore(plan)).rejects.toMatchObject({
        code: "RESTORE_REFUSED",
        data: { blocked: [blocked] },
      });
      expect(readWorktree(repo.root)).toEqual(before);
      // Paths around the repository can still be restored.
      const around = await workspace.planRestore({ from: await snapshot(), to: plane, paths: ["a"] });
      expect(around.blocked).toEqual([]);
      remove(nested);
      repo.write("file", "1");
      repo.write(".gitignore", "");
    }
    const plan = await workspace.planRestore({ from: await snapshot(), to: plane });
    expect(plan.blocked).toEqual([]);
    repo.git("init", "-q", "lib/deep");
    await expect(workspace.applyRestore(plan)).rejects.toMatchObject({ data: { blocked: ["lib/deep"] } });
    expect(repo.read("a")).toBe("2");
    repo.remove("lib");
    const again = await workspace.planRestore({ from: await snapshot(), to: plane });
    expect((await workspace.applyRestore(again)).tree).toBe(plane.tree);
    expect([repo.read("lib/deep/x"), repo.read("a")]).toEqual(["p", "1"]);
  });

  test("a snapshot whose objects are missing", async () => {
    const { repo, snapshot, workspace } = await startWorkspace({ a: "1" });
    const now = await snapshot();
    const missing = { ...now, tree: "1".repeat(40) };
    await expect(workspace.planRestore({ from: now, to: missing })).rejects.toMatchObject({ code: "TREE_MISSING" });
    repo.write("a", "only in the snapshot");
    const plane = await snapshot();
    repo.write("a", "1");
    const plan = await workspace.planRestore({ from: await snapshot(), to: plane });
    const blob = repo.git("rev-parse", `${plane.tree}:a`).trim();
    rmSync(repo.path(`.git/objects/${blob.slice(0, 2)}/${blob.slice(2)}`));
    await expect(workspace.applyRestore(plan)).rejects.toMatchObject({ code: "TREE_MISSING" });
    expect(repo.read("a")).toBe("1");
  });

  test("already in the plan: a target whose commit, or whose content to be read, is missing or torn", async () => {
    const { repo, snapshot, workspace } = await startWorkspace({ a: "1", same: "untouched by all this" });
    repo.write("a", "only in the snapshot ".repeat(100));
    const plane = await snapshot();
    repo.write("a", "1");
    const from = await snapshot();
    const blobOf = (name: string): string => repo.git("rev-parse", `${plane.tree}:${name}`).trim();
    const missing = { code: "TREE_MISSING", data: { snapshot: plane.snapshot } };
    for (const id of [blobOf("a"), plane.snapshot, plane.tree]) {
      const path = repo.path(`.git/objects/${id.slice(0, 2)}/${id.slice(2)}`);
      const bytes = readFileSync(path);
      for (const left of [undefined, 0, bytes.length - 5]) {
        rmSync(path);
        if (left !== undefined) writeFileSync(path, bytes.subarray(0, left));
        await expect(workspace.planRestore({ from, to: plane })).rejects.toMatchObject(missing);
        writeFileSync(path, bytes);
      }
    }
    // Files that are on disk already need not be read from the target.
    const unread = blobOf("same");
    rmSync(repo.path(`.git/objects/${unread.slice(0, 2)}/${unread.slice(2)}`));
    await expect(workspace.planRestore({ from, to: plane })).resolves.toMatchObject({ changes: [{ path: "a" }] });
  });
});

test("on macOS, untracked files of the Finder are in no snapshot, and a snapshot that has one does not touch it", async () => {
  const { repo, snapshot, workspace } = await startWorkspace({ a: "1" });
  repo.write("dir/.DS_Store", "view");
  repo.write("._a", "attributes");
  const fromLinux = await snapshot();
  repo.write("a", "2");
  const platform = process.platform;
  onTestFinished(() => void Object.defineProperty(process, "platform", { value: platform }));
  Object.defineProperty(process, "platform", { value: "darwin" });
  const from = await workspace.look({ at: "2026-01-02T03:04:05Z" });
  expect(repo.git("ls-tree", "-r", "--name-only", from.tree)).toBe("a\n");
  const plan = await workspace.planRestore({ from, to: fromLinux });
  expect(plan).toMatchObject({ changes: [{ kind: "write", path: "a" }], blocked: [] });
  expect(plan.untouched.map(({ path }) => path)).toEqual(["._a", "dir/.DS_Store"]);
});
