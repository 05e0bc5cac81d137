import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { open, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { HoldfastError } from "../../core/error.ts";
import { createTestRepository, type TestRepository } from "../../testing/workspace/workspace-repository.ts";
import { guardMethods } from "./failure-border.ts";
import { openGitWorkspaces } from "../git-workspaces.ts";
import { openScratch, sweepOperations } from "../indexes/private-index.ts";

const codeOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => "done",
    (error: unknown) => (error instanceof HoldfastError ? error.code : error),
  );

describe("what the system throws", () => {
  const thrown = (code: string): Error => Object.assign(new Error(code), { code, syscall: "open", path: "/a/file" });
  const subject = guardMethods(
    {
      name: "kept",
      fail: (error: unknown): Promise<void> => Promise.reject(error),
      full: () => writeFile("/dev/full", "x"),
      none: () => readFile(join(tmpdir(), "nobody", "made", "this")),
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
  ])("%s is told as %s, with the path", async (system, code) => {
    await expect(subject.fail(thrown(system))).rejects.toMatchObject({
      name: "HoldfastError",
      code,
      message: expect.stringContaining("/a/file"),
      data: { path: "/a/file", system },
    });
  });

  test("real errors, of the disk and of an argument, and defects of our own", async () => {
    expect(await codeOf(subject.none())).toBe("IO_FAILED");
    expect(await codeOf(subject.nul())).toBe("USAGE");
    expect(await codeOf(subject.failAtOnce())).toBe("INTERNAL");
    if (process.platform === "linux") expect(await codeOf(subject.full())).toBe("DISK_FULL");
  });

  test("when the place itself is gone, that is what is told", async () => {
    const gone = guardMethods(
      { fail: () => Promise.reject(thrown("ENOENT")) },
      join(tmpdir(), "nobody", "made", "this"),
    );
    expect(await codeOf(gone.fail())).toBe("WORKSPACE_MISSING");
  });

  test("what is told already passes as it is, and so does what succeeds", async () => {
    const told = new HoldfastError({ code: "USAGE", message: "told" });
    await expect(subject.fail(told)).rejects.toBe(told);
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

  test("that fails is no error: it would hide the one that matters", async () => {
    const folder = join(home, "home");
    mkdirSync(folder);
    const scratch = await openScratch(folder);
    rmSync(folder, { recursive: true });
    writeFileSync(folder, "a file now: nothing below it can be removed");
    await expect(scratch.release()).resolves.toBeUndefined();
    await expect(sweepOperations(folder)).resolves.toBeUndefined();
  });

  test("what it left is swept once it is old and its process is gone", async () => {
    const old = Date.now() / 1000 - 3600;
    const names = ["op-999999999-a", "git-a", `op-${process.pid}-a`, "git", "index-1", "op-999999999-young"];
    for (const name of names) mkdirSync(join(home, name));
    for (const name of names.slice(0, -1)) utimesSync(join(home, name), old, old);
    await sweepOperations(home);
    expect(readdirSync(home).sort()).toEqual(["git", "index-1", `op-${process.pid}-a`, "op-999999999-young"].sort());
  });
});

describe("a NUL byte, which no name can hold, is a mistake of the caller", () => {
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
      pin: workspaces.pin({ run: "r", sequence: 1, commit: bad }),
      unpin: workspaces.unpin([`refs/holdfast/${bad}/1`]),
      open: workspaces.open(join(repo.root, bad)),
      all: openGitWorkspaces(join(repo.root, bad)),
      restored: workspace.planRestore({ from: look, to: look, paths: [bad] }),
      plan: workspace.applyRestore({ ...plan, toTree: bad }),
    };
    const told = await Promise.all(Object.entries(works).map(async ([name, work]) => [name, await codeOf(work)]));
    expect(told).toEqual(Object.keys(works).map((name) => [name, "USAGE"]));
    const at = "2026-01-02T03:04:05Z";
    const saved = await workspace.snapshot({ run: "r", sequence: 1, message: bad, at });
    expect(repo.git("log", "-1", "--format=%s", saved.commit)).toBe("a\uFFFDb\n");
    expect(await workspaces.has({ tree: bad, commit: bad })).toBe(false);
    expect(await workspaces.find(bad)).toBeUndefined();
    expect(repo.git("worktree", "list", "--porcelain").match(/^worktree /gm)).toHaveLength(1);
  });

  test("a name that is too long for the system is told as such", async () => {
    const workspaces = await openGitWorkspaces(repo.root);
    const path = join(repo.root, "..", "x".repeat(300));
    expect(await codeOf(workspaces.create({ run: "r", path }))).toBe("IO_FAILED");
  });
});
