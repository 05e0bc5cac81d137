import { symlinkSync, writeFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type BranchScene, createBranchScene } from "@holdfast/test-support/git/repository";

const BODY = Array.from({ length: 30 }, (_, line) => `line ${line}\n`).join("");

let scene: BranchScene;
let from: string;
beforeAll(async () => {
  scene = await createBranchScene({
    "a.txt": "one\n",
    "move.txt": BODY,
    "gone.txt": "g\n",
    "kind.txt": "k\n",
    ".tmp/x": "x\n",
  });
  const { tree } = scene;
  from = scene.tip();
  tree.write("a.txt", "two\n");
  tree.git("mv", "move.txt", "moved.txt");
  tree.remove("gone.txt");
  tree.write("ünicode.txt", "u\n");
  await scene.branch.commit({ message: "Half of it", at: "2026-03-01T12:00:00Z", exclude: [] });
  tree.remove("kind.txt");
  symlinkSync("a.txt", tree.path("kind.txt"));
  writeFileSync(Buffer.concat([Buffer.from(`${tree.root}/`), Buffer.from([0xff])]), "odd\n");
  tree.write(".tmp/x", "edited\n");
  tree.write(".tmp/y", "new\n");
});
afterAll(() => scene.dispose());

describe("changes since a commit, compared with the current files", () => {
  test("committed and uncommitted, renames, names of any bytes, without excluded paths", async () => {
    const expected = [
      { path: "a.txt", status: "modified" },
      { path: "gone.txt", status: "deleted" },
      { path: "kind.txt", status: "type_changed" },
      { path: "moved.txt", status: "renamed" },
      { path: "ünicode.txt", status: "added" },
      { path: '"\\377"', status: "added" },
    ];
    const changed = await scene.branch.changedSince({ from, exclude: [".tmp"] });
    expect(changed).toMatchObject(expected);
    // The object of "two\n".
    expect(changed[0]?.digest).toBe("f719efd430d52bcfc8566a43b2eb655688d38871");
    expect(changed[1]?.digest).toBe(null);
    const tree = await scene.branch.treeOf(from);
    expect(await scene.branch.changedSince({ from: tree, exclude: [".tmp"] })).toEqual(changed);
    const all = await scene.branch.changedSince({ from, exclude: [] });
    expect(all.filter(({ path }) => path.startsWith(".tmp"))).toMatchObject([
      { path: ".tmp/x", status: "modified" },
      { path: ".tmp/y", status: "added" },
    ]);
  });

  test("between two commits, without excluded paths", async () => {
    const { branch, tree } = scene;
    const to = await branch.head();
    const changed = await branch.changedBetween({ from, to, exclude: ["a.txt"] });
    expect(changed).toMatchObject([
      { path: "gone.txt", status: "deleted", digest: null },
      { path: "move.txt", status: "deleted" },
      { path: "moved.txt", status: "added" },
      { path: "ünicode.txt", status: "added" },
    ]);
    const link = tree.git("hash-object", "-w", "a.txt").trim();
    tree.git("update-index", "--cacheinfo", `120000,${link},a.txt`);
    const staged = tree.git("write-tree").trim();
    tree.git("reset", "-q");
    const types = await branch.changedBetween({ from: to, to: staged, exclude: [] });
    expect(types).toEqual([{ path: "a.txt", status: "type_changed", digest: link }]);
    expect(await branch.changedBetween({ from: to, to: await branch.treeOf(to), exclude: [] })).toEqual([]);
  });

  test("as a patch, cut at whole lines", async () => {
    const exclude = [".tmp", '"\\377"'];
    const whole = await scene.branch.diffSince({ from, exclude, maxBytes: 1_000_000 });
    expect(whole.cut).toBe(false);
    expect(whole.text).toContain("-one\n+two\n");
    expect(whole.text).toContain("rename from move.txt");
    expect(whole.text).toContain("ünicode.txt");
    expect(whole.text).not.toContain(".tmp");
    for (const maxBytes of [0, 1, 100, 333, Buffer.byteLength(whole.text) - 1]) {
      const { text, cut } = await scene.branch.diffSince({ from, exclude, maxBytes });
      expect(cut).toBe(true);
      expect(Buffer.byteLength(text)).toBeLessThanOrEqual(maxBytes);
      expect(whole.text.startsWith(text)).toBe(true);
      if (maxBytes >= 100) expect(text.endsWith("\n")).toBe(true);
    }
    const exact = await scene.branch.diffSince({ from, exclude, maxBytes: Buffer.byteLength(whole.text) });
    expect(exact).toEqual(whole);
  });

  test("ancestors and common ancestors; unrelated histories have none", async () => {
    const { branch, tree } = scene;
    const head = await branch.head();
    expect(await branch.isAncestor({ ancestor: from, of: head })).toBe(true);
    expect(await branch.isAncestor({ ancestor: head, of: from })).toBe(false);
    expect(await branch.mergeBase({ a: head, b: from })).toBe(from);
    const stranger = tree.git("commit-tree", "-m", "x", await branch.treeOf(from)).trim();
    expect(await branch.mergeBase({ a: head, b: stranger })).toBeNull();
  });

  test("remote: upstream before origin, or as configured; its default branch; tracking after a fetch; exact look-ups", async () => {
    const { user, bare, branch } = scene;
    expect(await branch.remote()).toEqual({ name: "origin", url: bare.root, written: bare.root });
    expect(await branch.remoteBranch("main")).toBeNull();
    expect(await branch.fetch()).toEqual({ kind: "fetched" });
    expect(await branch.remoteBranch("main")).toBe(from);
    expect(await branch.lookUpRemote("ain")).toEqual({ kind: "known", commit: null });
    expect(await branch.lookUpRemote("main")).toEqual({ kind: "known", commit: from });
    bare.git("branch", "trunk", "main");
    bare.git("symbolic-ref", "HEAD", "refs/heads/trunk");
    // As last fetched; a branch that was opened again asks the remote.
    expect(await branch.defaultBranch()).toBe("main");
    expect(await (await scene.reopen()).defaultBranch()).toBe("trunk");
    await branch.fetch();
    expect(await branch.defaultBranch()).toBe("trunk");
    user.git("remote", "add", "upstream", "/nowhere/x.git");
    expect((await branch.remote())?.name).toBe("upstream");
    expect((await branch.pushRemote())?.name).toBe("origin");
    expect((await (await scene.reopen({ remote: "origin" })).remote())?.name).toBe("origin");
    await expect((await scene.reopen({ remote: "no" })).remote()).rejects.toMatchObject({ code: "USAGE" });
    expect(await branch.defaultBranch()).toBeNull();
    user.git("remote", "remove", "upstream");
    user.git("remote", "add", "a.b", "/dotted.git");
    user.git("config", "remote.pushDefault", "a.b");
    expect(await branch.pushRemote()).toEqual({ name: "a.b", url: "/dotted.git", written: "/dotted.git" });
    user.git("config", "remote.a.b.pushurl", "short:dotted.git");
    expect(await branch.pushRemote()).toMatchObject({ url: "short:dotted.git", written: "/dotted.git" });
    user.git("config", "url./long/.insteadOf", "short:");
    expect(await branch.pushRemote()).toMatchObject({ url: "/long/dotted.git", written: "/dotted.git" });
    user.git("remote", "remove", "a.b");
    user.git("remote", "remove", "origin");
    expect(await branch.defaultBranch()).toBe("main");
  });
});

describe("the facts of a repository at a commit", () => {
  test("subjects newest first without merges; texts of regular files only, cut at a line", async () => {
    const scene = await createBranchScene({
      "CONTRIBUTING.md": "one\ntwo\nthree\n",
      ".github/pull_request_template.md": "## What\n",
      ".github/deep/pull_request_template.md": "deeper\n",
      "docs/ünicode.md": "u\n",
      "other.md": "o\n",
    });
    try {
      const { tree, branch } = scene;
      const [first] = await branch.subjects({ from: await branch.head(), most: 50 });
      tree.git("switch", "-q", "-c", "side");
      tree.write("other.md", "side\n");
      tree.git("commit", "-qam", "fix: an odd \u2028 subject\n\nBody.");
      tree.git("switch", "-q", "-");
      tree.git("merge", "-q", "--no-ff", "-m", "Merge side", "side");
      symlinkSync("/etc/passwd", tree.path("AGENTS.md"));
      tree.git("add", "-A");
      tree.git("commit", "-qm", "Add a link");
      tree.git("config", "log.showSignature", "true");
      const commit = tree.git("rev-parse", "HEAD").trim();
      tree.write("CONTRIBUTING.md", "not committed\n");
      // Commits of one second have no order of time among branches.
      expect(new Set(await branch.subjects({ from: commit, most: 50 }))).toEqual(
        new Set(["Add a link", "fix: an odd \u2028 subject", first]),
      );
      expect(await branch.subjects({ from: commit, most: 1 })).toEqual(["Add a link"]);
      const folders = [".", ".github", "docs", "none"];
      const wanted = (path: string) => path !== "other.md";
      expect(await branch.textsAt({ commit, folders, wanted, maxBytes: 10 })).toEqual([
        { path: "CONTRIBUTING.md", text: "one\ntwo\n" },
        { path: ".github/pull_request_template.md", text: "## What\n" },
        { path: "docs/ünicode.md", text: "u\n" },
      ]);
    } finally {
      scene.dispose();
    }
  });
});
