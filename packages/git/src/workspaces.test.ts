import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { open, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { HoldfastError, wrapMethodErrors } from "@holdfast/platform/error";
import { MIN_GIT_VERSION } from "@holdfast/platform/git-command";
import {
  HOSTILE_ATTRIBUTES,
  addHostileConfig,
  listTriggeredHooks,
} from "@holdfast/test-support/git/hostile-repository";
import {
  type TestRepository,
  countGit,
  createTestRepository,
  openWorkspaceSession,
  readWorktree,
  startCommitted,
  startRepository,
  startSession,
  startWorkspace,
  testRepositoryAt,
  userState,
} from "@holdfast/test-support/git/repository";
import { openScratch, removeStaleOperations } from "./private-index.ts";
import { openGitWorkspaces } from "./workspaces.ts";

describe("hostile", () => {
  let repo: TestRepository;
  beforeEach(() => {
    repo = createTestRepository();
    for (const name of ["a.txt", "b.two", "c.three", "d.eq", "dir/e.txt"]) repo.write(name, `${name}\r\n`);
    repo.write(".gitattributes", HOSTILE_ATTRIBUTES);
    repo.git("add", "-A");
    repo.git("commit", "-qm", "first");
  });
  afterEach(() => repo.dispose());

  /** Creates nested repositories, tracked and untracked, with malicious configuration. */
  function armInner(): void {
    const inner = testRepositoryAt(repo.path("inner"));
    repo.write("inner/file", "x");
    inner.git("init", "-q");
    repo.git("clone", "-q", repo.root, repo.path("sub"));
    repo.git("add", "-f", "sub");
    repo.git("commit", "-qm", "a submodule");
    for (const nested of [inner, testRepositoryAt(repo.path("sub"))]) {
      nested.git("config", "core.fsmonitor", join(repo.root, "..", "markers", "trap-fsmonitor.sh"));
      nested.git("config", "filter.evil.clean", join(repo.root, "..", "markers", "trap-clean.sh"));
    }
    repo.write("sub/a.txt", "edited inside\n");
  }

  test("no operation executes a program that a repository names", async () => {
    armInner();
    const markers = addHostileConfig(repo);
    const { snapshot, restore, workspaces, workspace, guard } = await openWorkspaceSession({
      repository: repo,
      open: openGitWorkspaces,
    });
    const first = await snapshot();
    for (const name of ["a.txt", "b.two", "c.three", "d.eq"]) repo.write(name, "edited\n");
    repo.write("new.two", "new\r\n");
    repo.remove("dir");
    const second = await snapshot();
    await restore(first);
    await restore(second, ["b.two", "dir"]);
    await workspace.currentFiles({ includeIgnored: true });
    for (const format of ["patch", "stat", "names"] as const) {
      const diff = await guard(() =>
        workspaces.diff({ from: first.snapshot, to: second.snapshot, format, color: true }),
      );
      expect(diff.files.length).toBe(6);
    }
    await guard(() => workspaces.has(first));
    await guard(() => workspaces.unpublished([first.snapshot]));
    await guard(() => workspaces.pin({ run: "other", sequence: 1, snapshot: first.snapshot }));
    await workspaces.create({ run: "made", base: "main" });
    await workspaces.list();
    await (await workspaces.find("made"))?.currentFiles();
    await expect(workspaces.remove({ run: "made", force: true })).resolves.toBeUndefined();
    await guard(() => workspaces.unpin([first.ref]));
    expect(markers()).toEqual([]);

    listTriggeredHooks(repo);
    expect(markers()).not.toEqual([]);
  });

  test("our own git directory is created again when it was replaced", async () => {
    const markers = addHostileConfig(repo);
    const planted = repo.path(".git/holdfast-workspace/git");
    for (const folder of ["info", "refs", "objects"]) mkdirSync(join(planted, folder), { recursive: true });
    const trap = join(repo.root, "..", "markers", "trap-clean.sh");
    writeFileSync(join(planted, "HEAD"), "ref: refs/heads/none\n");
    writeFileSync(
      join(planted, "config"),
      `[core]\n\trepositoryformatversion = 0\n[filter "evil"]\n\tclean = ${trap}\n`,
    );
    writeFileSync(join(planted, "info", "attributes"), "* filter=evil\n");
    const { snapshot } = await openWorkspaceSession({ repository: repo, open: openGitWorkspaces });
    await snapshot();
    expect(markers()).toEqual([]);
  });

  test("a link at the path of our folder is refused", async () => {
    const elsewhere = join(repo.root, "..", "elsewhere");
    mkdirSync(elsewhere);
    symlinkSync(elsewhere, repo.path(".git/holdfast-workspace"));
    await expect(openGitWorkspaces(repo.root)).rejects.toMatchObject({ code: "IO_FAILED" });
  });

  test("core.worktree cannot redirect us to another folder", async () => {
    const victim = join(repo.root, "..", "victim");
    mkdirSync(victim);
    repo.git("config", "core.worktree", victim);
    const workspaces = await openGitWorkspaces(repo.root);
    await expect(workspaces.open(repo.root)).rejects.toMatchObject({ code: "WORKSPACE_MISSING" });
    await expect(workspaces.open(victim)).rejects.toMatchObject({ code: "WORKSPACE_MISSING" });
    repo.git("config", "core.worktree", join(repo.root, ".."));
    await expect(workspaces.open(repo.root)).rejects.toMatchObject({ code: "WORKSPACE_MISSING" });
  });

  test("a bare repository inside a cloned tree is not used for it", async () => {
    repo.git("init", "-q", "--bare", "planted");
    mkdirSync(repo.path("planted/sub"));
    await expect(openGitWorkspaces(repo.path("planted/sub"))).rejects.toMatchObject({ code: "NOT_A_REPOSITORY" });
  });

  test("a file belongs to its innermost worktree", async () => {
    const workspaces = await openGitWorkspaces(repo.path("dir/e.txt"));
    expect((await workspaces.open(repo.path("a.txt"))).root).toBe(repo.root);
  });

  test("GIT_* variables of the caller do not reach git", async () => {
    const before = { ...process.env };
    const names = {
      GIT_DIR: "/nonexistent",
      GIT_INDEX_FILE: "/nonexistent",
      GIT_WORK_TREE: "/",
      GIT_OBJECT_DIRECTORY: "/nonexistent",
    };
    Object.assign(process.env, names);
    try {
      const workspaces = await openGitWorkspaces(repo.root);
      const workspace = await workspaces.open(repo.root);
      expect(workspace.root).toBe(repo.root);
      expect((await workspace.currentFiles()).tree).toMatch(/^[0-9a-f]{40}$/);
    } finally {
      for (const name of Object.keys(names)) delete process.env[name];
      Object.assign(process.env, before);
    }
  });
});

describe("peers", () => {
  /** Ways in which other tools destroyed users' work, named by their issue threads. None may be possible here. */

  test("copilot-cli#1675: a restore deletes output that the agent never touched", async () => {
    const { repo, snapshot, restore } = await startWorkspace({ ".gitignore": "ignored-output/\n", a: "1" });
    repo.write("ignored-output/evaluation", "a gigabyte");
    repo.write("plain-output/evaluation", "another");
    const plane = await snapshot();
    repo.write("a", "2");
    await restore(plane);
    expect([repo.read("ignored-output/evaluation"), repo.read("plain-output/evaluation")]).toEqual([
      "a gigabyte",
      "another",
    ]);
  });

  test("cline#14367: a restore reverts .gitignore first, then deletes what was ignored a moment ago", async () => {
    const { repo, snapshot, restore } = await startWorkspace({ ".gitignore": "\n", a: "1" });
    const plane = await snapshot();
    repo.write(".gitignore", "data/\n");
    repo.write("data/precious", "1");
    repo.write("a", "2");
    await restore(plane);
    expect(repo.read("data/precious")).toBe("1");
  });

  test("Roo-Code#6209: the first checkpoint of another tool's repository deletes the codebase", async () => {
    const { repo, snapshot, restore } = await startWorkspace({});
    const before = await snapshot();
    repo.write("src/app.ts", "made by another tool");
    repo.git("add", "-A");
    repo.git("commit", "-qm", "by another tool");
    const { undo } = await restore(before);
    expect(existsSync(repo.path("src/app.ts"))).toBe(false);
    await restore(undo);
    expect(repo.read("src/app.ts")).toBe("made by another tool");
    expect(repo.git("status", "--porcelain")).toBe("");
  });

  test("opencode#3148: undoing a one-line edit deletes the whole file", async () => {
    const { repo, snapshot, restore } = await startWorkspace({ a: "line\n" });
    repo.write("untracked", "line\n");
    const plane = await snapshot();
    for (const name of ["a", "untracked"]) repo.write(name, "line\nmore\n");
    await restore(plane);
    expect([repo.read("a"), repo.read("untracked")]).toEqual(["line\n", "line\n"]);
  });

  test("opencode#3176: undoing in one folder of a monorepo resets its neighbour", async () => {
    const { repo, snapshot, restore } = await startWorkspace({ "mine/a": "1", "theirs/b": "1" });
    const plane = await snapshot();
    repo.write("mine/a", "2");
    repo.write("theirs/b", "edited by a person");
    await restore(plane, ["mine"]);
    expect([repo.read("mine/a"), repo.read("theirs/b")]).toEqual(["1", "edited by a person"]);
  });

  test("opencode#28033: ignored files get tracked and are then reverted by an undo", async () => {
    const { repo, snapshot, restore } = await startWorkspace({ ".gitignore": "*.cache\n", a: "1" });
    repo.write("x.cache", "then");
    const plane = await snapshot();
    repo.write("x.cache", "now");
    repo.write("a", "2");
    await restore(plane);
    expect(repo.read("x.cache")).toBe("now");
  });

  test("claude-code#87575, #34368: edits and deletions made by a shell are not in the checkpoint", async () => {
    const { repo, snapshot, restore } = await startWorkspace({ a: "1", b: "1" });
    const recorded = readWorktree(repo.root);
    const plane = await snapshot();
    execFileSync("sh", ["-c", "sed -i s/1/2/ a && rm b && mkdir -p c && echo 3 > c/d"], { cwd: repo.root });
    expect((await restore(plane)).written).toBe(2);
    expect(readWorktree(repo.root)).toEqual(recorded);
  });

  test("qwen-code#4064: snapshots cannot be restored after a restart", async () => {
    const { repo, snapshot } = await startWorkspace({ a: "1" });
    const text = JSON.stringify(await snapshot());
    repo.write("a", "2");
    repo.remove(".git/holdfast-workspace");
    const { restore } = await startSession(repo);
    await restore(JSON.parse(text));
    expect(repo.read("a")).toBe("1");
  });

  test("cline#13550, codex#8214: a restore moves the branch or loses what was staged", async () => {
    const { repo, snapshot, restore } = await startWorkspace({ a: "1" });
    const plane = await snapshot();
    repo.write("a", "2");
    repo.git("commit", "-qam", "second");
    repo.write("a", "staged");
    repo.git("add", "a");
    const before = userState(repo.path(".git"));
    await restore(plane);
    expect(userState(repo.path(".git"))).toEqual(before);
    expect(repo.git("show", ":a")).toBe("staged");
  });

  test("cline#5598, #4388: nested repositories are renamed and left broken", async () => {
    const { repo, snapshot, restore } = await startWorkspace({ a: "1" });
    repo.git("init", "-q", "inner");
    const inner = testRepositoryAt(repo.path("inner"));
    inner.git("commit", "-q", "--allow-empty", "-m", "one");
    const before = userState(repo.path("inner/.git"));
    const plane = await snapshot();
    repo.write("a", "2");
    await restore(plane);
    expect(userState(repo.path("inner/.git"))).toEqual(before);
    expect(inner.git("status", "--porcelain")).toBe("");
  });

  test("opencode#18734: snapshots are taken by gc", async () => {
    const { repo, snapshot, restore } = await startWorkspace({ a: "1" });
    repo.write("only", "copy");
    const plane = await snapshot();
    repo.remove("only");
    repo.git("gc", "-q", "--prune=now");
    await restore(plane);
    expect(repo.read("only")).toBe("copy");
  });

  test("claude-code#74719, #35862: clean-up removes dirty and unpushed worktrees, also when HEAD was just reset to its base", async () => {
    const repo = startCommitted();
    const workspaces = await openGitWorkspaces(repo.root);
    const made = await workspaces.create({ run: "r" });
    const tree = testRepositoryAt(made.root);
    tree.write("work", "mine");
    tree.git("add", "work");
    tree.git("commit", "-qm", "unpushed");
    await expect(workspaces.remove({ run: "r" })).rejects.toMatchObject({ code: "RESTORE_REFUSED" });
    tree.git("reset", "-q", "--soft", "HEAD~1");
    await expect(workspaces.remove({ run: "r" })).rejects.toMatchObject({ code: "RESTORE_REFUSED" });
    expect(tree.read("work")).toBe("mine");
  });

  test("gastown#865: a name that is used again orphans the work under it", async () => {
    const repo = startCommitted();
    const workspaces = await openGitWorkspaces(repo.root);
    const first = await workspaces.create({ run: "r" });
    testRepositoryAt(first.root).write("work", "mine");
    const second = await workspaces.create({ run: "r", path: join(repo.root, "..", "elsewhere"), base: "HEAD" });
    expect(second.root).toBe(first.root);
    expect(readFileSync(join(second.root, "work"), "utf8")).toBe("mine");
  });

  test("pi-code#251: the home directory is snapshotted as a whole", async () => {
    const repo = startCommitted();
    const home = process.env["HOME"];
    const link = join(repo.root, "..", "home");
    symlinkSync(repo.root, link);
    process.env["HOME"] = link;
    try {
      const workspaces = await openGitWorkspaces(repo.root);
      await expect(workspaces.open(repo.root)).rejects.toMatchObject({ code: "UNSUPPORTED" });
    } finally {
      process.env["HOME"] = home;
    }
  });
});

describe("error mapping", () => {
  const codeOf = (work: Promise<unknown>): Promise<unknown> =>
    work.then(
      () => "done",
      (error: unknown) => (error instanceof HoldfastError ? error.code : error),
    );

  describe("system errors", () => {
    const thrown = (code: string): Error => Object.assign(new Error(code), { code, syscall: "open", path: "/a/file" });
    const subject = wrapMethodErrors(
      {
        name: "kept",
        fail: (error: unknown): Promise<void> => Promise.reject(error),
        full: () => writeFile("/dev/full", "x"),
        none: () => readFile(join(tmpdir(), "no", "such", "file")),
        async nul() {
          await open("a\0b");
        },
        failAtOnce(): Promise<void> {
          throw new TypeError("a defect");
        },
        async add(one: number, other: number) {
          return one + other;
        },
      },
      tmpdir(),
    );

    test.each([
      ["ENOSPC", "DISK_FULL"],
      ["EDQUOT", "DISK_FULL"],
      ["EROFS", "IO_FAILED"],
      ["EACCES", "IO_FAILED"],
      ["EPERM", "IO_FAILED"],
      ["EIO", "IO_FAILED"],
      ["EMFILE", "IO_FAILED"],
    ])("%s is reported as %s, with the path", async (system, code) => {
      await expect(subject.fail(thrown(system))).rejects.toMatchObject({
        name: "HoldfastError",
        code,
        message: expect.stringContaining("/a/file"),
        data: { path: "/a/file", system },
      });
    });

    test("the hint names the directory in which a missing file cannot be created", async () => {
      const failed = Object.assign(thrown("EACCES"), { path: join(tmpdir(), "op-1-a", "index") });
      await expect(subject.fail(failed)).rejects.toMatchObject({
        hint: expect.stringContaining(`Check who owns ${tmpdir()}, its permissions`),
      });
    });

    test("real errors, of the disk and of an argument, and defects of our own", async () => {
      expect(await codeOf(subject.none())).toBe("IO_FAILED");
      expect(await codeOf(subject.nul())).toBe("USAGE");
      expect(await codeOf(subject.failAtOnce())).toBe("INTERNAL");
      if (process.platform === "linux") expect(await codeOf(subject.full())).toBe("DISK_FULL");
    });

    test("a missing directory is reported as such", async () => {
      const gone = wrapMethodErrors(
        { fail: () => Promise.reject(thrown("ENOENT")) },
        join(tmpdir(), "no", "such", "file"),
      );
      expect(await codeOf(gone.fail())).toBe("WORKSPACE_MISSING");
    });

    test("a HoldfastError and a result pass unchanged", async () => {
      const known = new HoldfastError({ code: "USAGE", message: "known" });
      await expect(subject.fail(known)).rejects.toBe(known);
      expect(await subject.add(1, 2)).toBe(3);
      expect(subject.name).toBe("kept");
    });
  });

  describe("clean-up", () => {
    let home: string;
    beforeEach(() => {
      home = mkdtempSync(join(tmpdir(), "holdfast-workspace-"));
    });
    afterEach(() => rmSync(home, { recursive: true }));

    test("that fails is not an error: it would hide the original one", async () => {
      const folder = join(home, "home");
      mkdirSync(folder);
      const scratch = await openScratch(folder);
      rmSync(folder, { recursive: true });
      writeFileSync(folder, "a file now: nothing below it can be removed");
      await expect(scratch[Symbol.asyncDispose]()).resolves.toBeUndefined();
      await expect(removeStaleOperations(folder)).resolves.toBeUndefined();
    });

    test("its stale files are removed once they are old and their process is gone", async () => {
      const old = Date.now() / 1000 - 3600;
      const names = ["op-999999999-a", "git-a", `op-${process.pid}-a`, "git", "index-1", "op-999999999-young"];
      for (const name of names) mkdirSync(join(home, name));
      for (const name of names.slice(0, -1)) utimesSync(join(home, name), old, old);
      await removeStaleOperations(home);
      expect(readdirSync(home).sort()).toEqual(["git", "index-1", `op-${process.pid}-a`, "op-999999999-young"].sort());
    });
  });

  describe("a NUL byte, which no name can contain, is an error of the caller", () => {
    let repo: TestRepository;
    beforeEach(() => {
      repo = createTestRepository();
      repo.write("a", "1");
      repo.git("add", "-A");
      repo.git("commit", "-qm", "first");
    });
    afterEach(() => repo.dispose());

    test("in a ref, a path, a base or a branch", async () => {
      const bad = "a\0b";
      const workspaces = await openGitWorkspaces(repo.root);
      const workspace = await workspaces.open(repo.root);
      const look = await workspace.look({ at: "2026-01-02T03:04:05Z" });
      const plan = await workspace.planRestore({ from: look, to: look });
      const works: Record<string, Promise<unknown>> = {
        from: workspaces.diff({ from: bad, to: "HEAD", format: "patch" }),
        to: workspaces.diff({ from: "HEAD", to: bad, format: "patch" }),
        paths: workspaces.diff({ from: "HEAD", to: "HEAD", format: "patch", paths: [bad] }),
        base: workspaces.create({ run: "r", base: bad }),
        branch: workspaces.create({ run: "r", branch: bad }),
        path: workspaces.create({ run: "r", path: join(repo.root, "..", bad) }),
        run: workspaces.create({ run: bad }),
        pin: workspaces.pin({ run: "r", sequence: 1, snapshot: bad }),
        unpin: workspaces.unpin([`refs/holdfast/${bad}/1`]),
        open: workspaces.open(join(repo.root, bad)),
        all: openGitWorkspaces(join(repo.root, bad)),
        restored: workspace.planRestore({ from: look, to: look, paths: [bad] }),
        plan: workspace.applyRestore({ ...plan, toTree: bad }),
      };
      const codes = await Promise.all(Object.entries(works).map(async ([name, work]) => [name, await codeOf(work)]));
      expect(codes).toEqual(Object.keys(works).map((name) => [name, "USAGE"]));
      const at = "2026-01-02T03:04:05Z";
      const saved = await workspace.snapshot({ run: "r", sequence: 1, message: bad, at });
      expect(repo.git("for-each-ref", "--format=%(subject)", saved.ref)).toBe("a\uFFFDb\n");
      expect(await workspaces.has({ tree: bad, snapshot: bad })).toBe(false);
      expect(await workspaces.find(bad)).toBeUndefined();
      expect(repo.git("worktree", "list", "--porcelain").match(/^worktree /gm)).toHaveLength(1);
    });

    test("a name that is too long for the system is reported as such", async () => {
      const workspaces = await openGitWorkspaces(repo.root);
      const path = join(repo.root, "..", "x".repeat(300));
      expect(await codeOf(workspaces.create({ run: "r", path }))).toBe("IO_FAILED");
    });
  });
});

test("the state of the main checkout leaves out the files that runs write there themselves", async () => {
  const repo = startCommitted({ "a.txt": "a\n" });
  for (const name of [".tool/state.json", ".tool/checkpoints/one.yaml", "notes.md"]) repo.write(name, "x\n");
  const workspaces = await openGitWorkspaces(repo.root, /^\.tool\/checkpoints\//);
  const { state } = (await workspaces.mainCheckout(join(repo.root, "../run"))) ?? {};
  expect([...(state?.keys() ?? [])].filter((name) => name.startsWith("file "))).toEqual([
    "file .tool/state.json",
    "file notes.md",
    "file .git/config",
    "file .git/config.worktree",
  ]);
});

test("the state of the main checkout changes with a hook or a setting of git, not with a branch's", async () => {
  const repo = startCommitted({ "a.txt": "a\n" });
  const workspaces = await openGitWorkspaces(repo.root);
  let before = await workspaces.mainCheckout(join(repo.root, "../run"));
  const changed = async (): Promise<readonly string[]> => {
    const after = await workspaces.mainCheckout(join(repo.root, "../run"));
    const [was, is] = [before?.state ?? new Map<string, string>(), after?.state ?? new Map<string, string>()];
    before = after;
    return [...is.keys()].filter((name) => was.get(name) !== is.get(name));
  };
  repo.git("config", "branch.main.remote", "origin");
  repo.git("config", "branch.main.merge", "refs/heads/main");
  expect(await changed()).toEqual([]);
  repo.write(".git/hooks/pre-push", "#!/bin/sh\n");
  expect(await changed()).toEqual(["file .git/hooks/pre-push"]);
  repo.git("config", "core.fsmonitor", "./watch");
  expect(await changed()).toEqual(["file .git/config"]);
  repo.git("config", "branch.side.remote", "origin");
  expect(await changed()).toEqual([]);
  const config = readFileSync(join(repo.root, ".git/config"), "utf8");
  for (const hidden of ["\t[core]\n\thooksPath = /x\n", '[branch "y"] [core] hooksPath = /x\n']) {
    repo.write(".git/config", `${config}${hidden}`);
    expect(repo.git("config", "core.hooksPath").trim()).toBe("/x");
    expect(await changed()).toEqual(["file .git/config"]);
    repo.write(".git/config", config);
    expect(await changed()).toEqual(["file .git/config"]);
  }
});

test("an ordinary clone and its worktrees are opened for reading without git; git is asked about any other", async () => {
  const repo = startCommitted();
  mkdirSync(repo.path("sub/deep"), { recursive: true });
  for (const name of ["linked", "moved"]) repo.git("worktree", "add", "-q", "--detach", `../${name}`);
  renameSync(repo.path("../moved"), repo.path("../elsewhere"));
  const { calls } = countGit();
  const opened = async (path: string) => {
    const before = calls().length;
    const { commonDir, bare } = await openGitWorkspaces(repo.path(path), null, { readOnly: true });
    return [commonDir, bare, calls().length - before];
  };
  const ordinary = [repo.path(".git"), false, 0];
  expect([await opened("."), await opened("sub/deep"), await opened("../linked")]).toEqual([
    ordinary,
    ordinary,
    ordinary,
  ]);
  // Its entry names the folder where it was.
  const moved = await opened("../elsewhere");
  expect(moved.slice(0, 2)).toEqual(ordinary.slice(0, 2));
  expect(moved[2]).toBeGreaterThan(0);
  repo.git("config", "core.worktree", "..");
  expect((await opened("sub"))[2]).toBeGreaterThan(0);
  repo.git("config", "--unset", "core.worktree");
  expect(await opened("sub")).toEqual(ordinary);
  repo.git("config", "extensions.worktreeConfig", "true");
  expect((await opened("sub"))[2]).toBeGreaterThan(0);
  repo.git("config", "--remove-section", "extensions");
  for (const name of ["HEAD", "objects/x", "refs/x"]) repo.write(`sub/${name}`, "ref: refs/heads/main\n");
  await expect(opened("sub/deep")).rejects.toMatchObject({ code: "NOT_A_REPOSITORY" });
  repo.write(".git/HEAD", "damaged\n");
  await expect(opened(".")).rejects.toMatchObject({ code: "NOT_A_REPOSITORY" });
});

describe("git version", () => {
  test("a git that is too old is reported at the first use, with the required version", async () => {
    const { root } = startRepository();
    await (await openGitWorkspaces(root)).close();
    countGit({ version: "2.37.7" });
    const hint: unknown = expect.stringContaining(`git ${MIN_GIT_VERSION} or newer`);
    const refusal = { code: "GIT_MISSING", message: "git version 2.37.7 is too old", hint };
    await expect(openGitWorkspaces(root)).rejects.toMatchObject(refusal);
  });

  test("and is asked for its version once", async () => {
    const { root } = startRepository();
    const { calls } = countGit();
    for (let n = 0; n < 3; n += 1) await (await openGitWorkspaces(root)).close();
    expect(calls().filter((call) => call === "--version")).toHaveLength(1);
  });
});
