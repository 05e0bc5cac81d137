import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { FilesPlane } from "@holdfast/core/checkpoint";
import {
  type TestRepository,
  contentOf,
  createTestRepository,
  listTree,
  openWorkspaceSession,
  readWorktree,
  startCommitted,
  startRepository,
  startSession,
  testRepositoryAt,
} from "@holdfast/test-support/git/repository";
import { openGitWorkspaces } from "./workspaces.ts";

describe("capture content", () => {
  /** Root may read everything, so this runs as another user in another process. */
  function snapshotAsOtherUser(repo: TestRepository): FilesPlane {
    const unprivileged = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {};
    if ("uid" in unprivileged)
      execFileSync("chown", ["-R", `${unprivileged.uid}:${unprivileged.gid}`, join(repo.root, "..")]);
    const script = `
    import { openGitWorkspaces } from ${JSON.stringify(new URL("./workspaces.ts", import.meta.url).href)};
    const workspace = await (await openGitWorkspaces(process.argv[1])).open(process.argv[1]);
    const plane = await workspace.snapshot({ run: "r", sequence: 1, message: "m", at: "2026-01-01T00:00:00Z" });
    process.stdout.write(JSON.stringify(plane));`;
    const args = ["--input-type=module", "-e", script, repo.root];
    const output = execFileSync(process.execPath, args, {
      ...unprivileged,
      env: { PATH: process.env["PATH"] },
      encoding: "utf8",
    });
    if ("uid" in unprivileged) execFileSync("chown", ["-R", "0:0", join(repo.root, "..")]);
    return JSON.parse(output);
  }

  describe("a snapshot captures", () => {
    test("tracked edits, staged edits, deletions, untracked files, modes and links, but nothing ignored", async () => {
      const repo = startCommitted({
        "a.txt": "one\n",
        "gone.txt": "x",
        "run.sh": "#!",
        ".gitignore": "*.log\nbuild/\n",
      });
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

    test("a file that is tracked although ignored, also after it was missing for a while", async () => {
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
        expect.arrayContaining([
          '"new\\nline"',
          '"tab\\tbed"',
          '"\\377\\376\\n\\""',
          "ümläut",
          '"\\"quoted\\""',
          "-rf",
        ]),
      );
      for (const name of names) rmSync(repo.path(name));
      rmSync(bytes);
      await restore(plane, listed);
      expect((await snapshot()).tree).toBe(plane.tree);
    });

    test("empty files, huge tracked files, and names of untracked files over the limit", async () => {
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

    test("files and folders that cannot be read are named, and do not count as deleted", async () => {
      const repo = startCommitted({ open: "1", "shut-tracked": "1", "folder/inner": "1" });
      repo.write("shut-new", "1");
      chmodSync(repo.path("shut-new"), 0);
      chmodSync(repo.path("shut-tracked"), 0);
      chmodSync(repo.path("folder"), 0);
      const plane = snapshotAsOtherUser(repo);
      chmodSync(repo.path("folder"), 0o755);
      expect(listTree(repo, plane)).toEqual(["100644 open"]);
      expect(plane.skipped.map(({ path, reason }) => `${reason} ${path}`).sort()).toEqual([
        "unreadable folder/inner",
        "unreadable shut-new",
        "unreadable shut-tracked",
      ]);
    });

    test("pipes and sockets at the paths of files or next to them, and names that git cannot store are named", async () => {
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
});

describe("capture index", () => {
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

    test("intent to add, and a merge with conflicts, are captured as on disk", async () => {
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

    test("a detached HEAD, SHA-256 objects, an index lock of another process, a split index", async () => {
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
      expect(plane).toMatchObject({
        branch: "refs/heads/zweig/ü",
        worktree: root,
        nested: [{ path: "ñ", head: null }],
      });
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

  test("the staged state can be found again: the index is stored byte for byte and survives gc", async () => {
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
});

describe("capture nested", () => {
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

    test("files that were captured before a repository was created around them leave the snapshot", async () => {
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
});

describe("conversion", () => {
  let repo: TestRepository;
  beforeEach(() => {
    repo = createTestRepository();
  });
  afterEach(() => repo.dispose());

  /** Snapshots files that git would convert, changes them, restores, and compares every byte. */
  async function roundTrip(files: Readonly<Record<string, string | Uint8Array>>): Promise<void> {
    for (const [name, content] of Object.entries(files)) repo.write(name, content);
    repo.git("add", "-A");
    repo.git("commit", "-qm", "first");
    // The user's index now treats files as clean whose stored form differs from the bytes on disk.
    repo.git("status");
    const { snapshot, restore } = await openWorkspaceSession({ repository: repo, open: openGitWorkspaces });
    const recorded = readWorktree(repo.root);
    const plane = await snapshot();
    for (const name of Object.keys(files)) if (name !== ".gitattributes") repo.write(name, "scrambled\n");
    const { tree } = await restore(plane);
    expect(tree).toBe(plane.tree);
    expect(readWorktree(repo.root)).toEqual(recorded);
  }

  test("text=auto with CRLF, LF and mixed line ends", async () => {
    await roundTrip({ ".gitattributes": "* text=auto\n", crlf: "a\r\nb\r\n", lf: "a\nb\n", mixed: "a\r\nb\n" });
  });

  test("autocrlf and eol=crlf", async () => {
    repo.git("config", "core.autocrlf", "true");
    repo.git("config", "core.safecrlf", "false");
    await roundTrip({
      ".gitattributes": "*.c eol=crlf\n",
      crlf: "a\r\nb\r\n",
      lf: "a\nb\n",
      "x.c": "a\r\n",
      "y.c": "a\n",
    });
  });

  test("ident and working-tree-encoding", async () => {
    const utf16 = Buffer.from("\uFEFFhello\r\n", "utf16le");
    await roundTrip({
      ".gitattributes": "*.id ident\n*.u16 text working-tree-encoding=UTF-16LE-BOM\n",
      "a.id": "$Id: 0123456789012345678901234567890123456789 $\n",
      "b.id": "$Id$\n",
      "c.u16": utf16,
    });
  });

  test("LFS-like filters: real content and bare pointers", async () => {
    repo.git("config", "filter.lfs.clean", "sed s/.*/pointer/");
    repo.git("config", "filter.lfs.smudge", "cat");
    repo.git("config", "filter.lfs.required", "true");
    const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${"0".repeat(64)}\nsize 12345\n`;
    await roundTrip({ ".gitattributes": "*.bin filter=lfs -text\n", "a.bin": "big binary", "b.bin": pointer });
  });

  test("a filter that keeps the size, so that stat shows no change", async () => {
    repo.git("config", "filter.hide.clean", "sed s/secret/XXXXXX/");
    repo.git("config", "filter.hide.smudge", "cat");
    await roundTrip({ ".gitattributes": "conf filter=hide\n", conf: "password=secret\n" });
    expect(repo.git("show", "HEAD:conf")).toBe("password=XXXXXX\n");
  });

  test("a file with a filter that is configured nowhere", async () => {
    await roundTrip({ ".gitattributes": "* filter=nowhere\n", a: "1\r\n" });
  });
});
