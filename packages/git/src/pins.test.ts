import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { chmodSync, mkdirSync, readFileSync, truncateSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  type TestRepository,
  type WorkspaceSession,
  createTestRepository,
  openWorkspaceSession,
} from "@holdfast/test-support/git/repository";
import { openGitWorkspaces } from "./workspaces.ts";

const repositories: TestRepository[] = [];
afterEach(() => {
  for (const repository of repositories.splice(0)) repository.dispose();
});

test("a lock that a killed git left behind stops neither pinning nor sweeping", async () => {
  const { all, commit, lock } = await scene();
  lock("refs/holdfast/r/1.lock");
  const ref = await all.pin({ run: "r", sequence: 1, snapshot: commit });
  expect(ref).toBe(`refs/holdfast/r/1-${commit}`);
  lock(`refs/holdfast/r/2.lock`);
  lock(`refs/holdfast/r/2-${commit}.lock`);
  expect(await all.pin({ run: "r", sequence: 2, snapshot: commit })).toBe(`refs/holdfast/r/2-${commit}0`);
  expect((await all.refs()).map(({ run, sequence }) => [run, sequence])).toEqual([
    ["r", 1],
    ["r", 2],
  ]);
  lock(`${ref}.lock`, { old: true });
  await all.unpin((await all.refs()).map((each) => each.ref));
  expect(await all.refs()).toEqual([]);
});

test("the bytes that only snapshots keep are counted, in total and per run", async () => {
  const { all, repo, commit } = await scene();
  await all.pin({ run: "r", sequence: 1, snapshot: commit });
  expect([await all.pinnedBytes(), await all.pinnedBytes("r"), await all.pinnedBytes("other")]).toEqual([0, 0, 0]);
  const random = randomBytes(5000);
  writeFileSync(repo.path("large"), random);
  const tree = repo.git("commit-tree", "-m", "snapshot", treeWith(repo, "large")).trim();
  await all.pin({ run: "s", sequence: 1, snapshot: tree });
  const [whole, own, other] = [await all.pinnedBytes(), await all.pinnedBytes("s"), await all.pinnedBytes("r")];
  expect(whole).toBeGreaterThan(5000);
  expect([own, other]).toEqual([whole, 0]);
  repo.git("branch", "published", tree);
  expect(await all.pinnedBytes()).toBe(0);
});

test("refs that git packed are removed too; a lock of another process on packed-refs does not block unpacked ones", async () => {
  const { all, repo, commit, lock } = await scene();
  await all.pin({ run: "r", sequence: 1, snapshot: commit });
  repo.git("pack-refs", "--all");
  await all.pin({ run: "r", sequence: 2, snapshot: commit });
  await all.unpin(["refs/holdfast/r/1"]);
  expect((await all.refs()).map(({ sequence }) => sequence)).toEqual([2]);
  lock("packed-refs.lock");
  await all.unpin(["refs/holdfast/r/2"]);
  expect(await all.refs()).toEqual([]);
});

test("commits that no branch, tag or remote has are named; the others are not", async () => {
  const { all, repo, commit } = await scene();
  repo.git("checkout", "-q", "-b", "side");
  repo.write("b.txt", "two\n");
  repo.git("add", "-A");
  repo.git("commit", "-qm", "second");
  const side = repo.git("rev-parse", "HEAD").trim();
  expect(await all.unpublished([commit, side])).toEqual(new Set());
  repo.git("checkout", "-q", "main");
  repo.git("branch", "-qD", "side");
  expect(await all.unpublished([commit, side, "0".repeat(40)])).toEqual(new Set([side]));
});

test("a ref has its commit and its creation time", async () => {
  const { all, repo, commit } = await scene();
  const workspace = await all.open(repo.root);
  await workspace.snapshot({ run: "r", sequence: 1, message: "m", at: "2026-01-02T03:04:05Z" });
  expect(await all.refs()).toMatchObject([{ head: commit, createdAt: "2026-01-02T03:04:05.000Z" }]);
});

describe("pinned snapshots", () => {
  let repo: TestRepository;
  let session: WorkspaceSession;
  beforeEach(async () => {
    repo = createTestRepository();
    repositories.push(repo);
    repo.write("a", "1");
    repo.git("add", "a");
    repo.git("commit", "-qm", "first");
    session = await openWorkspaceSession({ repository: repo, open: openGitWorkspaces });
  });

  test("a snapshot is pinned under its run and sequence, with HEAD and the user's index", async () => {
    const plane = await session.snapshot({ sequence: 7 });
    expect(plane.ref).toBe("refs/holdfast/test-run/7");
    expect(await session.workspaces.refs()).toEqual([
      {
        ref: plane.ref,
        run: "test-run",
        sequence: 7,
        snapshot: plane.snapshot,
        head: plane.head,
        createdAt: "2026-01-02T03:04:05.000Z",
      },
    ]);
    expect(repo.git("rev-parse", `${plane.snapshot}^{tree}`).trim()).toBe(plane.tree);
    expect(pins(repo)).toEqual([
      [plane.ref, "tag", plane.snapshot],
      [`${plane.ref}-index`, "blob", plane.index],
      [`refs/holdfast/test-run/head/${plane.head}`, "commit", plane.head],
    ]);
    expect(repo.git("for-each-ref", "--format=%(taggername) %(taggeremail) %(taggerdate:iso-strict)", plane.ref)).toBe(
      "Holdfast <holdfast@localhost> 2026-01-02T03:04:05+00:00\n",
    );
  });

  test("a second, different snapshot of one sequence never moves the ref of the first", async () => {
    const first = await session.snapshot({ sequence: 1 });
    repo.write("a", "2");
    const second = await session.snapshot({ sequence: 1 });
    expect(second.ref).toBe(`refs/holdfast/test-run/1-${second.snapshot}`);
    expect((await session.snapshot({ sequence: 1 })).ref).toBe(second.ref);
    const refs = await session.workspaces.refs();
    expect(refs.map(({ sequence, snapshot: commit }) => [sequence, commit])).toEqual([
      [1, first.snapshot],
      [1, second.snapshot],
    ]);
  });

  test("pin and unpin; refs of others are refused, missing ones are not an error", async () => {
    const plane = await session.snapshot();
    const { workspaces, guard } = session;
    const ref = await guard(() => workspaces.pin({ run: "fork", sequence: 1, snapshot: plane.snapshot }));
    expect(ref).toBe("refs/holdfast/fork/1");
    expect(pins(repo, "fork").map(([, , id]) => id)).toEqual([plane.snapshot, plane.index, plane.head]);
    expect(await guard(() => workspaces.pin({ run: "fork", sequence: 1, snapshot: plane.snapshot }))).toBe(ref);
    await guard(() => workspaces.unpin([plane.ref, "refs/holdfast/never/1"]));
    expect((await workspaces.refs()).map((found) => found.ref)).toEqual([ref]);
    for (const foreign of [
      "refs/heads/main",
      "HEAD",
      "refs/holdfast/../heads/main",
      "refs/holdfast/x/1\ndelete refs/heads/main",
    ]) {
      await expect(guard(() => workspaces.unpin([foreign]))).rejects.toMatchObject({ code: "USAGE" });
    }
    await expect(workspaces.pin({ run: "x", sequence: 1, snapshot: "1".repeat(40) })).rejects.toMatchObject({
      code: "GIT_FAILED",
    });
  });

  test("a snapshot survives gc, a missing worktree, and packed refs", async () => {
    repo.write("only", "copy");
    const plane = await session.snapshot();
    repo.remove("only");
    repo.git("reflog", "expire", "--expire=now", "--all");
    repo.git("gc", "-q", "--prune=now");
    repo.git("pack-refs", "--all");
    expect(await session.workspaces.has(plane)).toBe(true);
    expect(await session.workspaces.refs()).toHaveLength(1);
    await session.workspaces.unpin([plane.ref]);
    expect(await session.workspaces.refs()).toEqual([]);
  });

  test("a snapshot with a missing, empty or torn object is not intact", async () => {
    repo.write("only", "copy ".repeat(1000));
    const plane = await session.snapshot();
    const { workspaces } = session;
    expect(await workspaces.has(plane)).toBe(true);
    expect(await workspaces.has({ ...plane, tree: "1".repeat(40) })).toBe(false);
    expect(await workspaces.has({ ...plane, snapshot: "1".repeat(40) })).toBe(false);
    expect(await workspaces.has({ ...plane, snapshot: plane.head ?? "" })).toBe(false);
    expect(await workspaces.has({ tree: "--all", snapshot: "HEAD" })).toBe(false);
    const blob = repo.git("rev-parse", `${plane.tree}:only`).trim();
    const file = repo.path(`.git/objects/${blob.slice(0, 2)}/${blob.slice(2)}`);
    const bytes = readFileSync(file);
    chmodSync(file, 0o644);
    for (const size of [0, 10, bytes.length - 5]) {
      truncateSync(file, size);
      expect(await workspaces.has(plane), String(size)).toBe(false);
      writeFileSync(file, bytes);
    }
    expect(await workspaces.has(plane)).toBe(true);
  });

  test("pins appear in no log: not in `git log --all`, not in `git rev-list --all`, not in a mirror", async () => {
    const commits = (root: string): string => git(root, "rev-list", "--all") + git(root, "log", "--all", "--oneline");
    const before = commits(repo.root);
    const graph = repo.git("log", "--all", "--graph", "--decorate=full", "--format=%h%d");
    repo.write("untracked", "1");
    const planes = [await session.snapshot({ sequence: 1 }), await session.snapshot({ sequence: 2 })];
    expect(planes[0]?.snapshot).not.toBe(planes[1]?.snapshot);
    expect(commits(repo.root)).toBe(before);
    expect(repo.git("log", "--all", "--graph", "--decorate=full", "--format=%h%d")).toBe(graph);
    const mirror = join(repo.root, "..", "mirror");
    repo.git("clone", "-q", "--mirror", repo.root, mirror);
    expect(commits(mirror)).toBe(before);
    for (const { ref, snapshot } of planes) expect(git(mirror, "rev-parse", ref).trim()).toBe(snapshot);
  });

  test.each([[["gc", "-q", "--prune=now"]], [["repack", "-adq"]]])(
    "everything that a snapshot needs survives `git %j` after its branch is deleted; fsck is clean",
    async (args) => {
      repo.git("checkout", "-q", "--detach");
      repo.write("a", "committed nowhere else");
      repo.git("commit", "-qam", "lonely");
      repo.write("b", "staged");
      repo.git("add", "b");
      repo.write("c", "untracked");
      const plane = await session.snapshot();
      repo.git("checkout", "-qf", "main");
      repo.git("reflog", "expire", "--expire=now", "--all");
      repo.git(...args);
      repo.git("prune", "--expire=now");
      expect(await session.workspaces.has(plane)).toBe(true);
      expect(repo.git("show", `${plane.ref}:c`)).toBe("untracked");
      expect(repo.git("show", `${plane.head}:a`)).toBe("committed nowhere else");
      expect(repo.git("cat-file", "-t", plane.index ?? "")).toBe("blob\n");
      expect(repo.git("fsck", "--full", "--strict")).toBe("");
    },
  );

  test("one ref follows the commits of a run; an amended commit gets another, and both stay", async () => {
    const heads = (): unknown => pins(repo).flatMap(([ref, , id]) => (ref?.includes("/head/") === true ? [id] : []));
    const commit = (...args: readonly string[]): string => {
      repo.git("commit", "-q", "--allow-empty", ...args);
      return repo.git("rev-parse", "HEAD").trim();
    };
    await session.snapshot({ sequence: 1 });
    const second = commit("-m", "second");
    await session.snapshot({ sequence: 2 });
    expect(heads()).toEqual([second]);
    const amended = commit("--amend", "-m", "amended");
    const { ref } = await session.snapshot({ sequence: 3 });
    expect(heads()).toEqual(expect.arrayContaining([second, amended]));
    repo.git("reset", "-q", "--hard", "HEAD^");
    await session.snapshot({ sequence: 4 });
    expect(heads()).toHaveLength(2);
    expect(await session.workspaces.unpinned([second, amended])).toEqual(new Set());
    // What a run still has a snapshot of keeps its commits; the last snapshot takes them with it.
    const all = (await session.workspaces.refs()).map((pin) => pin.ref);
    await session.workspaces.unpin(all.filter((each) => each !== ref));
    expect(heads()).toHaveLength(2);
    await session.workspaces.unpin([ref]);
    expect(pins(repo)).toEqual([]);
  });

  test("a head ref that a killed git locked does not stop a snapshot", async () => {
    const { head } = await session.snapshot({ sequence: 1 });
    writeFileSync(repo.path(`.git/refs/holdfast/test-run/head/${head}.lock`), "");
    repo.git("commit", "-q", "--allow-empty", "-m", "second");
    const plane = await session.snapshot({ sequence: 2 });
    expect(await session.workspaces.unpinned([head ?? "", plane.head ?? ""])).toEqual(new Set());
  });

  test.each(["", "UPPER", "a/b", "..", "-x", "x.lock", "a b"])("%j is not a run id", async (run) => {
    await expect(session.snapshot({ run })).rejects.toMatchObject({ code: "USAGE" });
  });
});

function git(root: string, ...args: readonly string[]): string {
  return execFileSync("git", args, { cwd: root, encoding: "utf8" });
}

/** Name, type and object of every ref of a run. */
function pins(repo: TestRepository, run = "test-run"): readonly (readonly string[])[] {
  const listed = repo.git("for-each-ref", "--format=%(refname) %(objecttype) %(objectname)", `refs/holdfast/${run}/`);
  return listed.split("\n").flatMap((line) => (line === "" ? [] : [line.split(" ")]));
}

/** A tree with this file of the worktree alone; the index stays as it is. */
function treeWith(repo: TestRepository, name: string): string {
  const blob = repo.git("hash-object", "-w", name).trim();
  repo.git("update-index", "--add", "--cacheinfo", `100644,${blob},${name}`);
  const tree = repo.git("write-tree").trim();
  repo.git("reset", "-q");
  return tree;
}

async function scene() {
  const repo = createTestRepository();
  repositories.push(repo);
  repo.write("a.txt", "one\n");
  repo.git("add", "-A");
  repo.git("commit", "-qm", "first");
  const lock = (name: string, { old = false } = {}): void => {
    const path = repo.path(`.git/${name}`);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, "");
    if (old) utimesSync(path, 0, 0);
  };
  return { repo, lock, all: await openGitWorkspaces(repo.root), commit: repo.git("rev-parse", "HEAD").trim() };
}
