import { spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { processIdentity } from "@holdfast/platform/identity";
import { openGitWorkspaces } from "./workspaces.ts";
import { type BranchScene, createBranchScene } from "@holdfast/test-support/git/repository";

const AT = "2026-03-01T12:00:00Z";
const PARAMS = { message: "Work", at: AT, exclude: [".tmp"] };

let scene: BranchScene;

describe("commit", () => {
  beforeEach(async () => {
    scene = await createBranchScene();
  });
  afterEach(() => scene.dispose());

  test("tracked, untracked and removed files; not ignored or excluded ones; status is clean; user's identity; pinned dates", async () => {
    const { branch, tree } = scene;
    tree.write("a.txt", "two\n");
    tree.write("new/file.txt", "new\n");
    tree.write("x.log", "ignored\n");
    tree.write(".tmp/finalize.txt", "note\n");
    tree.remove("b.txt");
    const before = await branch.head();
    const made = await branch.commit(PARAMS);
    // diff-files does not read contents: the index has the stat data of every file.
    expect(tree.git("diff-files", "--name-only")).toBe("");
    expect(tree.git("status", "--porcelain")).toBe("?? .tmp/\n");
    expect(tree.git("ls-tree", "-r", "--name-only", "HEAD").split("\n").slice(0, -1)).toEqual([
      ".gitignore",
      "a.txt",
      "new/file.txt",
    ]);
    expect(tree.git("log", "-1", "--format=%P|%an|%ae|%cn|%ce|%aI|%cI|%B").trim()).toBe(
      `${before}|Ada|ada@example.invalid|Ada|ada@example.invalid|2026-03-01T12:00:00+00:00|2026-03-01T12:00:00+00:00|Work`,
    );
    expect(made).toEqual({ commit: scene.tip(), tree: tree.git("rev-parse", "HEAD^{tree}").trim() });
    expect(await branch.treeOf(scene.tip())).toBe(made?.tree);
    expect(tree.git("fsck", "--strict", "--no-dangling")).toBe("");
  });

  test("a link in place of a directory that git ignores is not committed, nor does it keep a run from being removed", async () => {
    const { branch, tree } = scene;
    tree.write(".gitignore", "node_modules/\n!kept/node_modules/\n");
    tree.write("lib/.gitignore", "/out/\n");
    mkdirSync(tree.path("kept"));
    const made = ["node_modules", "lib/node_modules", "lib/out", "out", "kept/node_modules", "current", ".venv"];
    for (const link of made) symlinkSync(scene.user.root, tree.path(link));
    const workspaces = await openGitWorkspaces(tree.root);
    await (await workspaces.find("issue-42"))?.keepOut([".venv"]);
    await branch.commit(PARAMS);
    const links = tree.git("ls-tree", "-r", "HEAD").matchAll(/^120000 .*\t(.*)$/gm);
    expect(Array.from(links, ([, path]) => path)).toEqual(["current", "kept/node_modules", "out"]);
    expect(await branch.changedSince({ from: scene.tip(), exclude: [] })).toEqual([]);
    const { losses } = await workspaces.inspectRun({ run: "issue-42", branch: null, head: null });
    expect([losses.files, losses.ignored]).toEqual([[], ["lib/node_modules", "lib/out", "node_modules", ".venv"]]);
    // A link that git tracks stays in commits.
    tree.git("add", "node_modules");
    tree.git("commit", "-qm", "Its own link");
    tree.write("a.txt", "three\n");
    await branch.commit(PARAMS);
    expect(tree.git("ls-tree", "--name-only", "HEAD", "node_modules")).toBe("node_modules\n");
  });

  test("no change is null; the same call again is the same commit; another time is null", async () => {
    expect(await scene.branch.commit(PARAMS)).toBeNull();
    scene.tree.write("a.txt", "two\n");
    const first = await scene.branch.commit(PARAMS);
    expect(await scene.branch.commit(PARAMS)).toEqual(first);
    expect(await scene.branch.commit({ ...PARAMS, at: "2026-03-01T12:00:01Z" })).toBeNull();
    expect(await scene.branch.commit({ ...PARAMS, message: "Other" })).toBeNull();
    expect(scene.tree.git("rev-list", "--count", "HEAD").trim()).toBe("2");
  });

  test("from each state that a kill can leave, the same call ends in the same commit with a clean status", async () => {
    const { tree } = scene;
    const base = scene.tip();
    tree.write("a.txt", "two\n");
    tree.write("c.txt", "three\n");
    const indexFile = join(tree.git("rev-parse", "--absolute-git-dir").trim(), "index");
    const oldIndex = readFileSync(indexFile);
    const made = await scene.branch.commit(PARAMS);
    const states: Readonly<Record<string, () => void>> = {
      "objects only": () => {
        tree.git("update-ref", "refs/heads/holdfast/issue-42", base);
        writeFileSync(indexFile, oldIndex);
      },
      "branch moved, index old": () => writeFileSync(indexFile, oldIndex),
      "branch moved, our own lock left": () => {
        writeFileSync(indexFile, oldIndex);
        const { pid = 0 } = spawnSync("true");
        writeFileSync(`${indexFile}.lock`, JSON.stringify({ holdfast: { ...processIdentity(), pid } }));
      },
      "index torn": () => writeFileSync(indexFile, Buffer.alloc(100)),
      "index gone": () => rmSync(indexFile),
      "branch old, a lock of a killed git on it": () => {
        tree.git("update-ref", "refs/heads/holdfast/issue-42", base);
        const lock = scene.user.path(".git/refs/heads/holdfast/issue-42.lock");
        writeFileSync(lock, "");
        utimesSync(lock, 1, 1);
      },
    };
    for (const [state, enter] of Object.entries(states)) {
      enter();
      const branch = await scene.reopen();
      expect(await branch.commit(PARAMS), state).toEqual(made);
      expect(tree.git("status", "--porcelain"), state).toBe("");
      expect(scene.tip(), state).toBe(made?.commit);
    }
  });

  test("only the run's own branch moves, and no hook runs", async () => {
    const mark = join(scene.user.root, "..", "hook-ran");
    for (const hook of ["pre-commit", "commit-msg", "post-commit", "reference-transaction", "post-index-change"]) {
      const path = scene.user.path(`.git/hooks/${hook}`);
      mkdirSync(join(path, ".."), { recursive: true });
      writeFileSync(path, `#!/bin/sh\necho ${hook} >> '${mark}'\n`);
      chmodSync(path, 0o755);
    }
    const before = scene.user.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/main", "refs/tags");
    scene.tree.write("a.txt", "two\n");
    await scene.branch.commit(PARAMS);
    expect(existsSync(mark)).toBe(false);
    expect(scene.user.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/heads/main", "refs/tags")).toBe(
      before,
    );
    expect(scene.user.git("status", "--porcelain")).toBe("");
  });

  test("line ends and filters as git add would store them; unchanged files are not converted again", async () => {
    scene.dispose();
    scene = await createBranchScene({
      ".gitattributes": "*.bat text eol=crlf\n*.big filter=mark\n",
      "x.bat": "one\n",
      "y.big": "stored\n",
    });
    scene.user.git("config", "filter.mark.clean", "sed s/^/cleaned-/");
    expect(scene.tree.read("x.bat")).toBe("one\r\n");
    expect(await scene.branch.commit(PARAMS)).toBeNull();
    scene.tree.write("x.bat", "one\r\ntwo\r\n");
    scene.tree.write("z.big", "fresh\n");
    await scene.branch.commit(PARAMS);
    expect(scene.tree.git("cat-file", "blob", "HEAD:x.bat")).toBe("one\ntwo\n");
    expect(scene.tree.git("cat-file", "blob", "HEAD:y.big")).toBe("stored\n");
    expect(scene.tree.git("cat-file", "blob", "HEAD:z.big")).toBe("cleaned-fresh\n");
    expect(scene.tree.git("diff", "HEAD", "--name-only", "--", "x.bat", "z.big")).toBe("");
  });

  test("a large untracked file is committed, and names of any bytes, an executable bit and a link too", async () => {
    const { tree } = scene;
    tree.write("large.bin", Buffer.alloc(21 * 1024 * 1024));
    writeFileSync(Buffer.concat([Buffer.from(`${tree.root}/`), Buffer.from([0x66, 0xff, 0x0a])]), "odd");
    tree.write("run.sh", "#!/bin/sh\n");
    chmodSync(tree.path("run.sh"), 0o755);
    await scene.branch.commit(PARAMS);
    expect(tree.git("status", "--porcelain")).toBe("");
    expect(tree.git("ls-tree", "-r", "HEAD")).toContain("100755 blob");
    expect(tree.git("ls-tree", "-r", "HEAD")).toContain('"f\\377\\n"');
    expect(statSync(tree.path("large.bin")).size).toBe(21 * 1024 * 1024);
  });

  test("without an identity it is Holdfast's, never this machine's", async () => {
    scene.user.git("config", "--unset", "user.email");
    scene.user.git("config", "user.email", "");
    scene.tree.write("a.txt", "two\n");
    await scene.branch.commit(PARAMS);
    expect(scene.tree.git("log", "-1", "--format=%an <%ae>").trim()).toBe("Holdfast <holdfast@localhost>");
  });

  test("an excluded tracked path stays as committed", async () => {
    scene.tree.write(".tmp/kept.txt", "kept\n");
    await scene.branch.commit({ ...PARAMS, exclude: [] });
    scene.tree.write(".tmp/kept.txt", "edited\n");
    scene.tree.write(".tmpfile", "not below .tmp\n");
    await scene.branch.commit(PARAMS);
    expect(scene.tree.git("cat-file", "blob", "HEAD:.tmp/kept.txt")).toBe("kept\n");
    expect(scene.tree.git("ls-tree", "--name-only", "HEAD")).toContain(".tmpfile");
  });
});

describe("refused, and nothing changed", () => {
  beforeAll(async () => {
    scene = await createBranchScene();
  });
  afterAll(() => scene.dispose());

  const cases: readonly (readonly [name: string, code: string, act: () => Promise<unknown>])[] = [
    ["a time that is none", "USAGE", () => scene.branch.commit({ ...PARAMS, at: "yesterday" })],
    ["an empty message", "USAGE", () => scene.branch.commit({ ...PARAMS, message: " \n" })],
    ["an exclude outside the worktree", "USAGE", () => scene.branch.commit({ ...PARAMS, exclude: ["../x"] })],
    ["a tree that is none", "USAGE", () => scene.branch.treeOf("--all")],
    ["an empty name", "USAGE", () => scene.branch.treeOf("")],
    ["a name with a NUL byte", "USAGE", () => scene.branch.treeOf("a\0b")],
    ["a rebase onto nothing", "USAGE", () => scene.branch.rebase({ onto: "no-such", at: AT })],
    ["a rebase at no time", "USAGE", () => scene.branch.rebase({ onto: "main", at: "" })],
    ["a short lease", "USAGE", () => scene.branch.push({ expected: "abc" })],
    ["a lease that is an option", "USAGE", () => scene.branch.push({ expected: "--mirror" })],
    ["changes since nothing", "USAGE", () => scene.branch.changedSince({ from: "gone", exclude: [] })],
    ["a marked path outside", "USAGE", () => scene.branch.commitResolved({ ...PARAMS, onto: "main", files: ["../x"] })],
  ];
  test.each(cases)("%s", async (_name, code, act) => {
    scene.tree.write("a.txt", "two\n");
    const before = scene.tip();
    await expect(act()).rejects.toMatchObject({ code });
    expect(scene.tip()).toBe(before);
    expect(scene.tree.git("status", "--porcelain")).toBe(" M a.txt\n");
  });

  test("another branch checked out there, an operation in progress, a lock of another git, no branch", async () => {
    const { tree, branch } = scene;
    tree.write("a.txt", "two\n");
    const lock = join(tree.git("rev-parse", "--absolute-git-dir").trim(), "index.lock");
    tree.git("checkout", "-q", "-b", "elsewhere");
    await expect(branch.commit(PARAMS)).rejects.toMatchObject({ code: "WORKSPACE_BUSY" });
    tree.git("checkout", "-q", "holdfast/issue-42");
    writeFileSync(lock, "");
    await expect(branch.commit(PARAMS)).rejects.toMatchObject({ code: "WORKSPACE_BUSY", retry: "later" });
    rmSync(lock);
    writeFileSync(join(lock, "..", "MERGE_HEAD"), scene.tip());
    await expect(branch.commit(PARAMS)).rejects.toMatchObject({ code: "WORKSPACE_BUSY" });
    rmSync(join(lock, "..", "MERGE_HEAD"));
    tree.git("checkout", "-q", "--detach");
    await expect(scene.reopen()).rejects.toMatchObject({ code: "WORKSPACE_BUSY" });
  });
});

describe("files that are absent from the disk on purpose", () => {
  test("a sparse checkout stays one: its absent files are neither committed as removed, nor rebased onto the disk", async () => {
    scene = await createBranchScene({ "in/a.txt": "a\n", "out/b.txt": "b\n" });
    try {
      const { tree, branch } = scene;
      tree.git("sparse-checkout", "set", "in");
      expect(existsSync(tree.path("out/b.txt"))).toBe(false);
      expect(await branch.commit(PARAMS)).toBeNull();
      tree.write("in/a.txt", "two\n");
      await branch.commit(PARAMS);
      const onto = scene.moveBase({ "out/b.txt": "moved\n", "in/c.txt": "c\n" });
      expect(await branch.rebase({ onto, at: AT })).toMatchObject({ kind: "rebased" });
      expect(tree.git("show", "--name-only", "--format=", "HEAD")).toBe("in/a.txt\n");
      expect(tree.git("cat-file", "blob", "HEAD:out/b.txt")).toBe("moved\n");
      expect(existsSync(tree.path("out/b.txt"))).toBe(false);
      expect(tree.read("in/c.txt")).toBe("c\n");
      expect(tree.git("status", "--porcelain")).toBe("");
      expect(await branch.commit({ ...PARAMS, message: "Again" })).toBeNull();
    } finally {
      scene.dispose();
    }
  });

  test("a submodule's commit is committed as it is; its folder is not entered", async () => {
    scene = await createBranchScene();
    try {
      const { tree, branch } = scene;
      const first = scene.user.git("rev-parse", "main").trim();
      tree.git("submodule", "--quiet", "add", scene.bare.root, "sub");
      await branch.commit(PARAMS);
      expect(tree.git("ls-tree", "HEAD", "sub")).toBe(`160000 commit ${first}\tsub\n`);
      tree.git("-C", "sub", "commit", "-q", "--allow-empty", "-m", "inside");
      tree.write("sub/inner.txt", "not ours\n");
      await branch.commit({ ...PARAMS, message: "Moved" });
      expect(tree.git("ls-tree", "HEAD", "sub")).toContain(tree.git("-C", "sub", "rev-parse", "HEAD").trim());
      expect(tree.git("show", "--name-only", "--format=", "HEAD")).toBe("sub\n");
    } finally {
      scene.dispose();
    }
  });
});
