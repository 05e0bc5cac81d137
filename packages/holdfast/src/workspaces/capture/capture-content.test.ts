import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { FilesPlane } from "../../core/checkpoint/checkpoint.ts";
import type { TestRepository } from "../../testing/workspace/workspace-repository.ts";
import { startCommitted, startSession } from "../../testing/workspace/workspace-start.ts";
import { contentOf, listTree } from "../../testing/workspace/workspace-tree.ts";

/** Root may read everything, so this is asked of another user, in another process. */
function snapshotAsNobody(repo: TestRepository): FilesPlane {
  const nobody = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};
  if ("uid" in nobody) execFileSync("chown", ["-R", `${nobody.uid}:${nobody.gid}`, join(repo.root, "..")]);
  const script = `
    import { openGitWorkspaces } from ${JSON.stringify(new URL("../git-workspaces.ts", import.meta.url).href)};
    const workspace = await (await openGitWorkspaces(process.argv[1])).open(process.argv[1]);
    const plane = await workspace.snapshot({ run: "r", sequence: 1, message: "m", at: "2026-01-01T00:00:00Z" });
    process.stdout.write(JSON.stringify(plane));`;
  const args = ["--input-type=module", "-e", script, repo.root];
  const output = execFileSync(process.execPath, args, {
    ...nobody,
    env: { PATH: process.env["PATH"] },
    encoding: "utf8",
  });
  if ("uid" in nobody) execFileSync("chown", ["-R", "0:0", join(repo.root, "..")]);
  return JSON.parse(output);
}

describe("what is captured", () => {
  test("tracked edits, staged edits, deletions, untracked files, modes and links, but nothing ignored", async () => {
    const repo = startCommitted({ "a.txt": "one\n", "gone.txt": "x", "run.sh": "#!", ".gitignore": "*.log\nbuild/\n" });
    const { snapshot } = await startSession(repo);
    repo.write("a.txt", "edited\n");
    repo.write("staged.txt", "staged");
    repo.git("add", "staged.txt");
    repo.write("staged.txt", "edited after staging");
    repo.remove("gone.txt");
    chmodSync(repo.path("run.sh"), 0o755);
    symlinkSync("nowhere/at/all", repo.path("dangling"));
    repo.write("deep/er/new.txt", "");
    repo.write("x.log", "ignored");
    repo.write("build/out", "ignored");
    const plane = await snapshot();
    expect(listTree(repo, plane)).toEqual([
      "100644 .gitignore",
      "100644 a.txt",
      "120000 dangling",
      "100644 deep/er/new.txt",
      "100755 run.sh",
      "100644 staged.txt",
    ]);
    expect(contentOf(repo, plane, "staged.txt")).toBe("edited after staging");
    expect(contentOf(repo, plane, "dangling")).toBe("nowhere/at/all");
    expect(plane.artifacts.map(({ path, status }) => `${status} ${path}`)).toEqual([
      "modified a.txt",
      "created dangling",
      "created deep/er/new.txt",
      "deleted gone.txt",
      "modified run.sh",
      "created staged.txt",
    ]);
    expect(plane.artifactCount).toBe(6);
    expect(plane).toMatchObject({ skipped: [], nested: [], operation: null, branch: "refs/heads/main" });
    expect(plane.head).toBe(repo.git("rev-parse", "HEAD").trim());
  });

  test("ignored files when asked for, and the two kinds of snapshot do not disturb each other", async () => {
    const repo = startCommitted({ ".gitignore": "*.log\n", "a.txt": "a" });
    const { snapshot } = await startSession(repo);
    repo.write("x.log", "ignored");
    const plain = await snapshot();
    const all = await snapshot({ includeIgnored: true });
    expect(listTree(repo, all)).toEqual(["100644 .gitignore", "100644 a.txt", "100644 x.log"]);
    expect((await snapshot()).tree).toBe(plain.tree);
    expect(listTree(repo, plain)).toEqual(["100644 .gitignore", "100644 a.txt"]);
  });

  test("a file that is tracked although ignored, also after it was away for a while", async () => {
    const repo = startCommitted({ ".gitignore": "*.log\n" });
    repo.write("kept.log", "1");
    repo.git("add", "-f", "kept.log");
    const { snapshot } = await startSession(repo);
    expect(listTree(repo, await snapshot())).toContain("100644 kept.log");
    repo.remove("kept.log");
    expect(listTree(repo, await snapshot())).not.toContain("100644 kept.log");
    repo.write("kept.log", "2");
    const back = await snapshot();
    expect(contentOf(repo, back, "kept.log")).toBe("2");
    repo.git("rm", "-qf", "--cached", "kept.log");
    expect(listTree(repo, await snapshot())).toEqual(["100644 .gitignore"]);
    repo.git("add", "-f", "kept.log");
    expect((await snapshot()).tree).toBe(back.tree);
  });

  test("an untracked file leaves the snapshot when a rule, even one that hides itself, begins to ignore it", async () => {
    const repo = startCommitted();
    const { snapshot } = await startSession(repo);
    repo.write("cache/data", "1");
    repo.write("other/data", "1");
    expect(listTree(repo, await snapshot())).toContain("100644 cache/data");
    repo.write("cache/.gitignore", "*\n");
    repo.write("cache/data", "edited in the same moment");
    expect(listTree(repo, await snapshot())).toEqual(["100644 a.txt", "100644 dir/b.txt", "100644 other/data"]);
    repo.write(".git/info/exclude", "other/\n");
    expect(listTree(repo, await snapshot())).toEqual(["100644 a.txt", "100644 dir/b.txt"]);
    repo.write(".git/info/exclude", "");
    repo.remove("cache/.gitignore");
    expect(listTree(repo, await snapshot())).toContain("100644 cache/data");
  });

  test("any name: spaces, quotes, newlines, pathspec magic, leading dashes, bytes that are not UTF-8", async () => {
    const repo = startCommitted();
    const { snapshot, restore } = await startSession(repo);
    const names = [
      " a b ",
      'q"uo"te',
      "new\nline",
      "tab\tbed",
      ":(glob)*",
      "-rf",
      "--help",
      "*",
      "[x]",
      "back\\slash",
      "ümläut",
      '"quoted"',
    ];
    for (const name of names) writeFileSync(repo.path(name), name);
    const bytes = Buffer.concat([Buffer.from(`${repo.root}/`), Buffer.from([0xff, 0xfe, 0x0a, 0x22])]);
    writeFileSync(bytes, "bytes");
    const plane = await snapshot();
    expect(plane.artifactCount).toBe(names.length + 1);
    const listed = plane.artifacts.map(({ path }) => path);
    expect(listed).toEqual(
      expect.arrayContaining(['"new\\nline"', '"tab\\tbed"', '"\\377\\376\\n\\""', "ümläut", '"\\"quoted\\""', "-rf"]),
    );
    for (const name of names) rmSync(repo.path(name));
    rmSync(bytes);
    await restore(plane, listed);
    expect((await snapshot()).tree).toBe(plane.tree);
  });

  test("empty files, huge tracked files, and untracked files over the limit, which are named", async () => {
    const repo = startCommitted({ "big-tracked": "x".repeat(3000) });
    const { snapshot } = await startSession(repo);
    repo.write("empty", "");
    repo.write("small", "x".repeat(1000));
    repo.write("big", "x".repeat(1001));
    const plane = await snapshot({ maxUntrackedBytes: 1000 });
    expect(listTree(repo, plane)).toEqual(["100644 big-tracked", "100644 empty", "100644 small"]);
    expect(plane.skipped).toEqual([{ path: "big", reason: "too_large", bytes: 1001 }]);
    repo.write("small", "x".repeat(1002));
    repo.write("big", "x");
    const other = await snapshot({ maxUntrackedBytes: 1000 });
    expect(listTree(repo, other)).toEqual(["100644 big", "100644 big-tracked", "100644 empty"]);
    expect(other.skipped).toEqual([{ path: "small", reason: "too_large", bytes: 1002 }]);
    repo.git("rm", "-q", "--cached", "big-tracked");
    const untracked = await snapshot({ maxUntrackedBytes: 1000 });
    expect(untracked.skipped.map(({ path }) => path)).toEqual(["big-tracked", "small"]);
    expect(listTree(repo, untracked)).toEqual(["100644 big", "100644 empty"]);
  });

  test("a file that became a folder, a folder that became a file, and a folder that became a link out of the worktree", async () => {
    const repo = startCommitted({ file: "f", "folder/a": "a", "folder/b": "b", "linked/c": "c" });
    const outside = join(repo.root, "..", "outside");
    mkdirSync(outside);
    writeFileSync(join(outside, "c"), "secret");
    const { snapshot } = await startSession(repo);
    const first = await snapshot();
    repo.remove("file");
    repo.write("file/inner", "i");
    repo.remove("folder");
    repo.write("folder", "now a file");
    repo.remove("linked");
    symlinkSync(outside, repo.path("linked"));
    const second = await snapshot();
    expect(listTree(repo, second)).toEqual(["100644 file/inner", "100644 folder", "120000 linked"]);
    rmSync(repo.path("linked"));
    repo.write("linked/c", "c");
    repo.remove("folder");
    repo.write("folder/a", "a");
    repo.write("folder/b", "b");
    repo.remove("file");
    repo.write("file", "f");
    expect((await snapshot()).tree).toBe(first.tree);
  });

  test("files and folders that may not be read are named, not taken for deleted", async () => {
    const repo = startCommitted({ open: "1", "shut-tracked": "1", "folder/inner": "1" });
    repo.write("shut-new", "1");
    chmodSync(repo.path("shut-new"), 0);
    chmodSync(repo.path("shut-tracked"), 0);
    chmodSync(repo.path("folder"), 0);
    const plane = snapshotAsNobody(repo);
    chmodSync(repo.path("folder"), 0o755);
    expect(listTree(repo, plane)).toEqual(["100644 open"]);
    expect(plane.skipped.map(({ path, reason }) => `${reason} ${path}`).sort()).toEqual([
      "unreadable folder/inner",
      "unreadable shut-new",
      "unreadable shut-tracked",
    ]);
  });

  test("pipes and sockets in the place of files or beside them, and names that git cannot hold are named", async () => {
    const repo = startCommitted({ "was-file": "x" });
    const { snapshot } = await startSession(repo);
    await snapshot();
    repo.remove("was-file");
    execFileSync("mkfifo", [repo.path("was-file")]);
    execFileSync("mkfifo", [repo.path("pipe")]);
    repo.write("sub/.GIT/config", "hostile on another file system");
    const plane = await snapshot();
    expect(listTree(repo, plane)).toEqual([]);
    const names = plane.skipped.map(({ path, reason }) => `${reason} ${path}`).sort();
    expect(names).toEqual(["special_file pipe", "special_file sub/.GIT/config", "special_file was-file"]);
  });
});
