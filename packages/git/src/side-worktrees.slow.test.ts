import { chmodSync, existsSync, mkdirSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import type { SideWorktreeMerge, Workspace, Workspaces } from "@holdfast/core/workspace";
import {
  type TestRepository,
  readWorktree,
  startCommitted,
  startRepository,
  testRepositoryAt,
  userState,
} from "@holdfast/test-support/git/repository";
import { openGitWorkspaces } from "./workspaces.ts";

const AT = "2026-01-02T03:04:05Z";
const RUN = "r";

interface Scene {
  readonly repo: TestRepository;
  readonly workspaces: Workspaces;
  /** The run's own worktree. */
  readonly own: Workspace;
  readonly tree: TestRepository;
  open(
    name: string,
  ): Promise<{ readonly base: string; readonly sideWorktree: Workspace; readonly files: TestRepository }>;
  /** Pins the files of the side worktree and returns the commit. */
  hold(sideWorktree: Workspace): Promise<string>;
  /** Merges in the object database and applies the result to the run's files. */
  merge(base: string, theirs: string): Promise<SideWorktreeMerge>;
}

async function start(files?: Readonly<Record<string, string>>, repo = startCommitted(files)): Promise<Scene> {
  const workspaces = await openGitWorkspaces(repo.root);
  onTestFinished(() => workspaces.close());
  const own = await workspaces.create({ run: RUN });
  const { sideWorktrees } = workspaces;
  return {
    repo,
    workspaces,
    own,
    tree: testRepositoryAt(own.root),
    async open(name) {
      const base = await sideWorktrees.commit({ run: RUN, files: await own.look({ at: AT }), at: AT });
      const sideWorktree = await sideWorktrees.place({ run: RUN, name, base, commit: base });
      return { base, sideWorktree, files: testRepositoryAt(sideWorktree.root) };
    },
    async hold(sideWorktree) {
      return sideWorktrees.commit({ run: RUN, files: await sideWorktree.look({ at: AT }), at: AT });
    },
    async merge(base, theirs) {
      const ours = await own.look({ at: AT });
      const merged = await sideWorktrees.merge({ base, ours, theirs });
      if (merged.kind === "merged") {
        const plan = await own.planRestore({ from: ours, to: merged.to });
        expect(plan.toTree).toBe(merged.to.tree);
        await own.applyRestore(plan);
      }
      return merged;
    },
  };
}

describe("a side worktree", () => {
  test("has the run's files byte for byte, tracked, untracked and changed, on no branch, and is clean", async () => {
    const scene = await start({ "a.txt": "one\n", "run.sh": "#!/bin/sh\n", ".gitignore": "ignored/\n" });
    scene.tree.write("a.txt", "changed\r\n");
    scene.tree.write("new/untracked.txt", "mine\n");
    scene.tree.write("ignored/big.o", "not carried\n");
    chmodSync(scene.tree.path("run.sh"), 0o755);
    symlinkSync("a.txt", scene.tree.path("link"));
    const odd = Buffer.concat([Buffer.from(`${scene.own.root}/`), Buffer.from([0xff, 0x41])]);
    writeFileSync(odd, "not UTF-8\n");
    const { sideWorktree, files, base } = await scene.open("x");
    const { "ignored/big.o": ignored, ...carried } = readWorktree(scene.own.root);
    expect(ignored).toBeDefined();
    expect(readWorktree(sideWorktree.root)).toEqual(carried);
    expect(files.git("status", "--porcelain")).toBe("");
    expect(files.git("rev-parse", "HEAD").trim()).toBe(base);
    expect(() => files.git("symbolic-ref", "HEAD")).toThrow();
    expect(files.git("rev-parse", "HEAD^").trim()).toBe(scene.tree.git("rev-parse", "HEAD").trim());
  });

  test("touches nothing of the user's, is not the run's own worktree, and is removed without a trace", async () => {
    const scene = await start();
    const before = userState(join(scene.repo.root, ".git"));
    const { sideWorktree, base } = await scene.open("x");
    expect((await scene.workspaces.find(RUN))?.root).toBe(scene.own.root);
    expect(await scene.workspaces.list()).toContainEqual(
      expect.objectContaining({ path: sideWorktree.root, run: RUN, sideWorktree: true, branch: null }),
    );
    expect(await scene.workspaces.sideWorktrees.list(RUN)).toMatchObject([
      { run: RUN, path: sideWorktree.root, exists: true },
    ]);
    expect(await scene.workspaces.sideWorktrees.list("other")).toEqual([]);
    const [info] = await scene.workspaces.sideWorktrees.list();
    await scene.workspaces.sideWorktrees.remove({ run: RUN, key: info?.key ?? "", holding: base });
    await scene.workspaces.sideWorktrees.remove({ run: RUN, key: info?.key ?? "", holding: base });
    expect(existsSync(dirname(sideWorktree.root))).toBe(false);
    expect(scene.repo.git("worktree", "list", "--porcelain")).not.toContain(sideWorktree.root);
    expect(userState(join(scene.repo.root, ".git"))).toEqual(before);
    expect((await scene.workspaces.sideWorktrees.refs()).map(({ commit }) => commit)).toEqual([base]);
    await scene.workspaces.unpin((await scene.workspaces.sideWorktrees.refs()).map(({ ref }) => ref));
    expect(await scene.workspaces.sideWorktrees.refs()).toEqual([]);
    expect(scene.repo.git("for-each-ref", "--format=%(refname)").split("\n")).toEqual([
      "refs/heads/holdfast/r",
      "refs/heads/main",
      "",
    ]);
  });

  test("requested again it is unchanged; with other files it is created again and its old content stays pinned", async () => {
    const scene = await start();
    const { sideWorktree, base, files } = await scene.open("x");
    files.write(".git-is-a-file", "no\n");
    files.remove(".git-is-a-file");
    mkdirSync(files.path("node_modules"));
    const same = await scene.workspaces.sideWorktrees.place({ run: RUN, name: "x", base, commit: base });
    expect(same.root).toBe(sideWorktree.root);
    expect(existsSync(files.path("node_modules"))).toBe(true);
    files.write("half.txt", "half\n");
    files.git("add", "-A");
    files.git("commit", "-qm", "by the agent");
    files.write("more.txt", "more\n");
    const again = await scene.workspaces.sideWorktrees.place({ run: RUN, name: "x", base, commit: base });
    expect(existsSync(join(again.root, "half.txt"))).toBe(false);
    expect(files.git("rev-parse", "HEAD").trim()).toBe(base);
    const kept = (await scene.workspaces.sideWorktrees.refs()).find(({ commit }) => commit !== base);
    expect(scene.repo.git("show", `${kept?.commit}:more.txt`)).toBe("more\n");
    expect(scene.repo.git("log", "-1", "--format=%s", `${kept?.commit}^1`)).toBe("by the agent\n");
  });

  test("is removed without a trace although its agent created a repository instead of the link to git", async () => {
    const scene = await start();
    const { sideWorktree, files } = await scene.open("x");
    files.write("made.txt", "made\n");
    rmSync(files.path(".git"));
    files.git("init", "-q");
    const [info] = await scene.workspaces.sideWorktrees.list();
    await scene.workspaces.sideWorktrees.remove({ run: RUN, key: info?.key ?? "" });
    expect(existsSync(dirname(sideWorktree.root))).toBe(false);
    const texts = (await scene.workspaces.sideWorktrees.refs()).map(({ commit }) =>
      scene.repo.git("ls-tree", "--name-only", commit),
    );
    expect(texts.join("\n")).toContain("made.txt");
  });

  test("is created again from a call's commit, on top of the agent's commits", async () => {
    const scene = await start();
    const { sideWorktree, base, files } = await scene.open("x");
    files.write("committed.txt", "c\n");
    files.git("add", "-A");
    files.git("commit", "-qm", "by the agent");
    files.write("loose.txt", "l\n");
    const commit = await scene.hold(sideWorktree);
    const head = files.git("rev-parse", "HEAD");
    const held = readWorktree(sideWorktree.root);
    rmSync(sideWorktree.root, { recursive: true });
    expect(await scene.workspaces.sideWorktrees.find({ run: RUN, name: "x" })).toBeUndefined();
    const again = await scene.workspaces.sideWorktrees.place({ run: RUN, name: "x", base, commit });
    expect(again.root).toBe(sideWorktree.root);
    expect(readWorktree(again.root)).toEqual(held);
    expect(files.git("rev-parse", "HEAD")).toBe(head);
    expect(files.git("status", "--porcelain")).toBe("?? loose.txt\n");
  });

  test("is created again whatever a killed agent left: a rebase in progress, a lock, a branch, no link to git", async () => {
    const scene = await start();
    const { base, files } = await scene.open("x");
    files.git("checkout", "-qb", "own");
    files.write("a.txt", "two\n");
    files.git("commit", "-qam", "two");
    files.git("checkout", "-q", base);
    files.write("a.txt", "three\n");
    files.git("commit", "-qam", "three");
    expect(() => files.git("rebase", "own")).toThrow();
    const gitDir = files.git("rev-parse", "--absolute-git-dir").trim();
    writeFileSync(join(gitDir, "index.lock"), "");
    const again = await scene.workspaces.sideWorktrees.place({ run: RUN, name: "x", base, commit: base });
    expect(files.git("status", "--porcelain")).toBe("");
    rmSync(join(again.root, ".git"));
    files.write("a.txt", "without git\n");
    await scene.workspaces.sideWorktrees.place({ run: RUN, name: "x", base, commit: base });
    expect(files.git("status", "--porcelain")).toBe("");
    const kept = (await scene.workspaces.sideWorktrees.refs()).map(({ commit }) =>
      scene.repo.git("show", `${commit}:a.txt`),
    );
    expect(kept).toContain("without git\n");
  });

  test("is in a bare repository's own folder, and next to a named one", async () => {
    const source = startCommitted();
    const bare = startRepository();
    rmSync(bare.root, { recursive: true });
    source.git("clone", "-q", "--bare", source.root, bare.root);
    const scene = await start(undefined, bare);
    const { sideWorktree } = await scene.open("x");
    expect(sideWorktree.root.startsWith(join(bare.root, "trees", "r.side"))).toBe(true);
    const beside = join(bare.root, "..", "elsewhere");
    expect(scene.workspaces.sideWorktrees.rootOf({ run: RUN, name: "x", beside }).startsWith(`${beside}.side/`)).toBe(
      true,
    );
  });

  test("of a repository without a commit starts with the files alone", async () => {
    const scene = await start(undefined, startRepository());
    scene.tree.write("first.txt", "1\n");
    const { files } = await scene.open("x");
    expect(files.read("first.txt")).toBe("1\n");
    expect(files.git("rev-list", "--count", "HEAD")).toBe("1\n");
  });

  test("keeps submodules and sparse checkouts: a merge neither adds nor removes them", async () => {
    const library = startCommitted({ "lib.txt": "lib\n" });
    const repo = startCommitted({ "a.txt": "one\n", "far/away.txt": "far\n" });
    repo.git("-c", "protocol.file.allow=always", "submodule", "add", "-q", library.root, "sub");
    repo.git("commit", "-qm", "with a submodule");
    const scene = await start(undefined, repo);
    scene.tree.git("-c", "protocol.file.allow=always", "submodule", "update", "-q", "--init");
    scene.tree.git("sparse-checkout", "set", "--no-cone", "/*", "!/far/");
    expect(existsSync(scene.tree.path("far"))).toBe(false);
    const { sideWorktree, base, files } = await scene.open("x");
    expect(files.read("far/away.txt")).toBe("far\n");
    expect(files.git("status", "--porcelain", "--ignore-submodules=none")).toBe("");
    const again = await scene.workspaces.sideWorktrees.place({ run: RUN, name: "x", base, commit: base });
    mkdirSync(join(again.root, "kept-because-not-created-again"));
    await scene.workspaces.sideWorktrees.place({ run: RUN, name: "x", base, commit: base });
    expect(existsSync(join(again.root, "kept-because-not-created-again"))).toBe(true);
    files.write("a.txt", "two\n");
    expect(await scene.merge(base, await scene.hold(sideWorktree))).toMatchObject({ kind: "merged" });
    expect([scene.tree.read("a.txt"), scene.tree.read("sub/lib.txt")]).toEqual(["two\n", "lib\n"]);
    expect(scene.tree.git("status", "--porcelain")).toBe(" M a.txt\n");
  });

  test("whose commit is missing is TREE_MISSING and creates nothing", async () => {
    const scene = await start();
    const gone = "0123456789012345678901234567890123456789";
    const place = { run: RUN, name: "x", base: gone, commit: gone };
    await expect(scene.workspaces.sideWorktrees.place(place)).rejects.toMatchObject({ code: "TREE_MISSING" });
    await expect(scene.workspaces.sideWorktrees.pin({ run: RUN, commit: gone })).rejects.toMatchObject({
      code: "TREE_MISSING",
    });
    expect(await scene.workspaces.sideWorktrees.list()).toEqual([]);
  });
});

describe("a merge", () => {
  test("applies edits, new, removed, renamed, binary and executable files, links and names that are not UTF-8", async () => {
    const long = Array.from({ length: 40 }, (_, line) => `line ${line}\n`).join("");
    const scene = await start({
      "a.txt": long,
      "gone.txt": "g\n",
      "old.txt": `${long}end\n`,
      bin: "\0\u0001\0",
      "run.sh": "x\n",
    });
    const { sideWorktree, base, files } = await scene.open("x");
    files.write("a.txt", long.replace("line 1\n", "line one\n"));
    files.remove("gone.txt");
    files.git("mv", "old.txt", "renamed.txt");
    files.write("bin", Buffer.from([0, 2, 0, 255]));
    chmodSync(files.path("run.sh"), 0o755);
    symlinkSync("renamed.txt", files.path("link"));
    writeFileSync(Buffer.concat([Buffer.from(`${sideWorktree.root}/`), Buffer.from([0xfe, 0x42])]), "odd\n");
    scene.tree.write("a.txt", long.replace("line 39\n", "line thirty-nine\n"));
    // An edit on one side follows the file that the other side renamed.
    scene.tree.write("old.txt", `${long}the end\n`);
    const merged = await scene.merge(base, await scene.hold(sideWorktree));
    expect(merged.kind).toBe("merged");
    expect(scene.tree.read("a.txt")).toBe(
      long.replace("line 1\n", "line one\n").replace("line 39\n", "line thirty-nine\n"),
    );
    expect(scene.tree.read("renamed.txt")).toBe(`${long}the end\n`);
    expect(existsSync(scene.tree.path("old.txt")) || existsSync(scene.tree.path("gone.txt"))).toBe(false);
    expect(statSync(scene.tree.path("run.sh")).mode & 0o111).toBe(0o111);
    const [ours, theirs] = [readWorktree(scene.own.root), readWorktree(sideWorktree.root)];
    for (const name of ["bin", "link", "run.sh"]) expect(ours[name]).toBe(theirs[name]);
    expect(Object.keys(ours).toSorted()).toEqual(Object.keys(theirs).toSorted());
  });

  test("of unchanged files is empty", async () => {
    const scene = await start();
    const { sideWorktree, base } = await scene.open("x");
    scene.tree.write("b.txt", "the run's\n");
    const ours = await scene.own.look({ at: AT });
    const merged = await scene.workspaces.sideWorktrees.merge({ base, ours, theirs: await scene.hold(sideWorktree) });
    expect(merged).toMatchObject({ kind: "merged", to: { tree: ours.tree } });
  });

  test("includes commits of the agent and its uncommitted changes, and moves no branch", async () => {
    const scene = await start();
    const { sideWorktree, base, files } = await scene.open("x");
    files.write("c.txt", "committed\n");
    files.git("add", "-A");
    files.git("commit", "-qm", "mine");
    files.write("l.txt", "loose\n");
    const head = scene.tree.git("rev-parse", "HEAD");
    await scene.merge(base, await scene.hold(sideWorktree));
    expect([scene.tree.read("c.txt"), scene.tree.read("l.txt")]).toEqual(["committed\n", "loose\n"]);
    expect(scene.tree.git("rev-parse", "HEAD")).toBe(head);
  });

  test.each([
    [
      "both edit",
      (one: TestRepository) => one.write("a.txt", "theirs\n"),
      (one: TestRepository) => one.write("a.txt", "ours\n"),
      "content",
    ],
    [
      "one removes",
      (one: TestRepository) => one.remove("a.txt"),
      (one: TestRepository) => one.write("a.txt", "ours\n"),
      "deleted in the side worktree and modified in the run's files",
    ],
    [
      "both add",
      (one: TestRepository) => one.write("n.txt", "theirs\n"),
      (one: TestRepository) => one.write("n.txt", "ours\n"),
      "add/add",
    ],
    [
      "both change bytes",
      (one: TestRepository) => one.write("bin", "\0theirs"),
      (one: TestRepository) => one.write("bin", "\0ours"),
      "binary",
    ],
    [
      "a file where a folder is",
      (one: TestRepository) => one.write("d", "file\n"),
      (one: TestRepository) => one.write("d/x", "in a folder\n"),
      "file/directory",
    ],
  ])("a conflict names the file, describes it, and changes nothing: %s", async (_, theirs, ours, words) => {
    const scene = await start({ "a.txt": "one\n", bin: "\0base" });
    const { sideWorktree, base, files } = await scene.open("x");
    theirs(files);
    ours(scene.tree);
    const before = readWorktree(scene.own.root);
    const merged = await scene.merge(base, await scene.hold(sideWorktree));
    expect(merged).toMatchObject({ kind: "conflict", detail: expect.stringContaining(words) });
    expect(merged.kind === "conflict" && merged.files.length > 0).toBe(true);
    expect(merged.kind === "conflict" ? merged.detail : "").not.toMatch(/[0-9a-f]{40}/);
    expect(readWorktree(scene.own.root)).toEqual(before);
  });

  test("a conflict shows the lines, with labels for the sides, up to a limit", async () => {
    const scene = await start({ "a.txt": "one\ntwo\nthree\n", "long.txt": "x\n" });
    const { sideWorktree, base, files } = await scene.open("x");
    files.write("a.txt", "one\nTHEIRS\nthree\n");
    files.write("long.txt", "theirs\n".repeat(5000));
    scene.tree.write("a.txt", "one\nOURS\nthree\n");
    scene.tree.write("long.txt", "ours\n".repeat(5000));
    const merged = await scene.merge(base, await scene.hold(sideWorktree));
    const detail = merged.kind === "conflict" ? merged.detail : "";
    expect(detail).toContain("a.txt:\n<<<<<<< the run's files\nOURS\n=======\nTHEIRS\n>>>>>>> the side worktree");
    expect(detail.length).toBeLessThan(8000);
  });

  test("a merge driver of the repository is not run, and a moved folder moves no other files", async () => {
    const scene = await start({
      "a.txt": "one\n",
      ".gitattributes": "*.txt merge=evil\n",
      "d/1.txt": "1\n",
      "d/2.txt": "2\n",
    });
    scene.repo.git("config", "merge.evil.driver", `touch ${scene.repo.path("ran")}; exit 0`);
    const { sideWorktree, base, files } = await scene.open("x");
    files.write("a.txt", "theirs\n");
    files.git("mv", "d", "moved");
    scene.tree.write("a.txt", "ours\n");
    scene.tree.write("d/new.txt", "stays\n");
    const theirs = await scene.hold(sideWorktree);
    expect(await scene.merge(base, theirs)).toMatchObject({ kind: "conflict", files: ["a.txt"] });
    scene.tree.write("a.txt", "one\n");
    expect(await scene.merge(base, theirs)).toMatchObject({ kind: "merged" });
    expect(existsSync(scene.repo.path("ran"))).toBe(false);
    expect(scene.tree.read("d/new.txt")).toBe("stays\n");
    expect(scene.tree.read("moved/1.txt")).toBe("1\n");
  });
});
