import { writeFileSync } from "node:fs";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type BranchScene, createBranchScene, readWorktree } from "@holdfast/test-support/git/repository";

const AT = "2026-03-01T12:00:00Z";
const LATER = "2026-03-02T12:00:00Z";
const BRANCH = "refs/heads/holdfast/issue-42";
const LINES = Array.from({ length: 20 }, (_, line) => `line ${line}\n`);

let scene: BranchScene;
beforeEach(async () => {
  scene = await createBranchScene({
    "a.txt": LINES.join(""),
    "b.txt": "b\n",
    "gone.txt": "g\n",
    ".gitignore": "*.log\n",
  });
  scene.tree.write("a.txt", edited(2, "ours"));
  await commit("First of ours", AT);
  scene.tree.write("new.txt", "new\n");
  await commit("Second of ours", AT);
});
afterEach(() => scene.dispose());

describe("rebase", () => {
  test("own commits are on top of the new base, with files and index, and the same ids each time", async () => {
    const from = scene.tip();
    const onto = scene.moveBase({ "a.txt": edited(15, "theirs"), "c.txt": "c\n" });
    scene.user.git("rm", "-q", "gone.txt");
    scene.user.git("commit", "-qm", "gone");
    scene.tree.write("kept.log", "ignored\n");
    scene.tree.write("loose", "untracked\n");
    const result = await scene.branch.rebase({ onto, at: LATER });
    expect(result).toEqual({ kind: "rebased", commit: scene.tip(), from });
    expect(scene.tree.git("log", "--format=%s", `${onto}..HEAD`)).toBe("Second of ours\nFirst of ours\n");
    expect(scene.tree.git("log", "-1", "--format=%aI %cI").trim()).toBe(
      "2026-03-01T12:00:00+00:00 2026-03-02T12:00:00+00:00",
    );
    expect(scene.tree.read("a.txt")).toContain("ours");
    expect(scene.tree.read("a.txt")).toContain("theirs");
    expect(scene.tree.git("status", "--porcelain")).toBe("?? loose\n");
    expect(scene.tree.read("kept.log")).toBe("ignored\n");
    expect(scene.tree.git("fsck", "--strict", "--no-dangling")).toBe("");
    const first = scene.tip();
    scene.tree.git("reset", "-q", "--hard", from);
    expect(await scene.branch.rebase({ onto, at: LATER })).toEqual({ kind: "rebased", commit: first, from });
  });

  test("the same result as git rebase itself", async () => {
    const onto = scene.moveBase({ "a.txt": edited(15, "theirs"), "c.txt": "c\n" });
    scene.user.git("worktree", "add", "-q", "--detach", "../plain", scene.tip());
    scene.user.git("-C", "../plain", "rebase", "-q", onto);
    await scene.branch.rebase({ onto, at: LATER });
    expect(scene.tree.git("rev-parse", "HEAD^{tree}", "HEAD~1^{tree}")).toBe(
      scene.user.git("-C", "../plain", "rev-parse", "HEAD^{tree}", "HEAD~1^{tree}"),
    );
  });

  test("up to date; without own commits the branch moves to the base; commits that the base has are left out", async () => {
    expect(await scene.branch.rebase({ onto: "main", at: LATER })).toEqual({ kind: "up_to_date", commit: scene.tip() });
    scene.user.git("cherry-pick", `${scene.tip()}~1`);
    scene.user.write("a.txt", scene.user.read("a.txt").replace("ours", "ours, and more"));
    scene.user.git("commit", "-qam", "more");
    const onto = scene.user.git("rev-parse", "HEAD").trim();
    await scene.branch.rebase({ onto, at: LATER });
    expect(scene.tree.git("log", "--format=%s", `${onto}..HEAD`)).toBe("Second of ours\n");
    expect(scene.tree.read("a.txt")).toContain("ours, and more");
    scene.user.git("cherry-pick", scene.tip());
    const next = scene.moveBase({ "z.txt": "z\n" });
    await scene.branch.rebase({ onto: next, at: LATER });
    expect(scene.tip()).toBe(next);
    expect(scene.tree.git("status", "--porcelain")).toBe("");
  });

  test("an agent's changes in a merge commit are not lost", async () => {
    scene.moveBase({ "a.txt": edited(2, "theirs") });
    expect(() => scene.tree.git("merge", "main")).toThrow();
    scene.tree.write("a.txt", edited(2, "both"));
    scene.tree.git("add", "-A");
    scene.tree.git("commit", "-qm", "merged");
    const onto = scene.moveBase({ "c.txt": "c\n" });
    const result = await scene.branch.rebase({ onto, at: LATER });
    const text = result.kind === "conflict" ? "conflict" : scene.tree.read("a.txt");
    // A conflict goes to the agent. A clean result without the resolution would lose it.
    expect(["conflict", edited(2, "both")]).toContain(text);
  });

  test("a conflict changes nothing and names the files and the commit", async () => {
    const onto = scene.moveBase({ "a.txt": edited(2, "theirs") });
    const before = [scene.tip(), readWorktree(scene.tree.root), scene.tree.git("status", "--porcelain")];
    const result = await scene.branch.rebase({ onto, at: LATER });
    expect(result).toMatchObject({ kind: "conflict", files: ["a.txt"] });
    expect(result.kind === "conflict" && result.detail).toContain("First of ours");
    expect(result.kind === "conflict" && result.detail).toContain("Merge conflict in a.txt");
    expect([scene.tip(), readWorktree(scene.tree.root), scene.tree.git("status", "--porcelain")]).toEqual(before);
    expect(scene.tree.git("worktree", "list").trim().split("\n")).toHaveLength(2);
  });

  test("uncommitted changes, or an ignored file in the way: WORKSPACE_BUSY and nothing moved", async () => {
    const onto = scene.moveBase({ "c.txt": "c\n", "d/e.txt": "e\n" });
    const before = scene.tip();
    for (const [path, text] of [
      ["a.txt", "mine\n"],
      ["c.txt", "mine too\n"],
      ["d", "a file for a folder\n"],
    ] as const) {
      scene.tree.write(path, text);
      await expect(scene.branch.rebase({ onto, at: LATER })).rejects.toMatchObject({ code: "WORKSPACE_BUSY" });
      expect(scene.tree.read(path)).toBe(text);
      expect(scene.tip()).toBe(before);
      if (path === "a.txt") scene.tree.git("checkout", "-q", "a.txt");
      else scene.tree.remove(path);
    }
    expect(await scene.branch.rebase({ onto, at: LATER })).toMatchObject({ kind: "rebased" });
  });

  test("from each state that a kill can leave, the same call ends in the same commit, files and index", async () => {
    const from = scene.tip();
    const onto = scene.moveBase({ "a.txt": edited(15, "theirs"), "c.txt": "c\n", "f/g.txt": "g\n" });
    const oldFiles = { "a.txt": scene.tree.read("a.txt") };
    const made = await scene.branch.rebase({ onto, at: LATER });
    const to = scene.tip();
    const files = readWorktree(scene.tree.root);
    const undoFiles = (): void => {
      scene.tree.write("a.txt", oldFiles["a.txt"]);
      for (const path of ["c.txt", "f"]) scene.tree.remove(path);
    };
    const states: Readonly<Record<string, () => void>> = {
      "objects and record only": () => scene.tree.git("reset", "-q", "--hard", from),
      "some files moved": () => {
        scene.tree.git("reset", "-q", "--hard", from);
        scene.tree.write("c.txt", "c\n");
      },
      "all files moved, branch and index old": () => {
        scene.tree.git("update-ref", BRANCH, from);
        scene.tree.git("read-tree", from);
      },
      "branch moved, index old": () => scene.tree.git("read-tree", from),
      "all done, then a restore put the old files back": undoFiles,
      "all done, half of the old files back": () => scene.tree.write("a.txt", oldFiles["a.txt"]),
      "all done": () => undefined,
    };
    for (const [state, enter] of Object.entries(states)) {
      enter();
      const branch = await scene.reopen();
      expect(await branch.rebase({ onto, at: LATER }), state).toEqual(made);
      expect(scene.tip(), state).toBe(to);
      expect(scene.tree.git("status", "--porcelain"), state).toBe("");
      expect(readWorktree(scene.tree.root), state).toEqual(files);
    }
  });

  test("line ends are those of the user's git; names of any bytes are kept", async () => {
    scene.user.write(".gitattributes", "*.bat text eol=crlf\n");
    scene.user.write("run.bat", "one\r\n");
    const odd = Buffer.concat([Buffer.from(`${scene.user.root}/`), Buffer.from([0xfe, 0x2e])]);
    writeFileSync(odd, "odd\n");
    const onto = scene.moveBase({});
    await scene.branch.rebase({ onto, at: LATER });
    expect(scene.tree.read("run.bat")).toBe("one\r\n");
    expect(scene.tree.git("status", "--porcelain")).toBe("");
    expect(await scene.branch.changedSince({ from: onto, exclude: [] })).toMatchObject([
      { path: "a.txt", status: "modified" },
      { path: "new.txt", status: "added" },
    ]);
  });
});

describe("a conflict that the agent resolves", () => {
  const resolved = { message: "Resolved", at: LATER, exclude: [".tmp"] };

  test("the files have markers and no operation is in progress; refused while markers are left; then one commit on top of the base", async () => {
    const onto = scene.moveBase({ "a.txt": edited(2, "theirs"), "c.txt": "c\n" });
    const tip = scene.tip();
    const { files } = await scene.branch.placeConflict({ onto });
    expect(files).toEqual(["a.txt"]);
    expect(scene.tree.read("a.txt")).toMatch(/^<{7} .*\nline|^<{7} /m);
    expect(scene.tree.read("c.txt")).toBe("c\n");
    expect(scene.tip()).toBe(tip);
    expect(scene.tree.git("status")).not.toContain("You have unmerged paths");
    expect(await scene.branch.placeConflict({ onto })).toEqual({ files });
    expect(await scene.branch.commitResolved({ ...resolved, onto, files })).toEqual({ kind: "unresolved", files });
    expect(scene.tip()).toBe(tip);

    scene.tree.write("a.txt", edited(2, "both"));
    scene.tree.write(".tmp/note", "x");
    const made = await scene.branch.commitResolved({ ...resolved, onto, files });
    expect(made).toEqual({ kind: "committed", commit: scene.tip() });
    expect(scene.tree.git("log", "-1", "--format=%P %s").trim()).toBe(`${onto} Resolved`);
    expect(scene.tree.git("diff", "--name-only", onto, "HEAD")).toBe("a.txt\nnew.txt\n");
    expect(scene.tree.git("status", "--porcelain")).toBe("?? .tmp/\n");
    expect(await (await scene.reopen()).commitResolved({ ...resolved, onto, files })).toEqual(made);
    expect(scene.tree.git("rev-list", "--count", `${onto}..HEAD`).trim()).toBe("1");
  });

  test("killed half-way through placing files, the same call continues; an edit of a user stops it", async () => {
    const onto = scene.moveBase({ "a.txt": edited(2, "theirs"), "c.txt": "c\n" });
    scene.tree.write("c.txt", "c\n");
    expect(await scene.branch.placeConflict({ onto })).toEqual({ files: ["a.txt"] });
    scene.tree.git("checkout", "-q", "a.txt");
    scene.tree.write("b.txt", "mine\n");
    await expect(scene.branch.placeConflict({ onto })).rejects.toMatchObject({ code: "WORKSPACE_BUSY" });
    expect(scene.tree.read("b.txt")).toBe("mine\n");
  });

  test("a file that has such markers as content is not a conflict; a removed one is resolved", async () => {
    scene.tree.write("b.txt", "<<<<<<< example\nours\n>>>>>>> example\n");
    await commit("Docs", AT);
    const onto = scene.moveBase({ "b.txt": "theirs\n", "a.txt": edited(2, "theirs") });
    const { files } = await scene.branch.placeConflict({ onto });
    expect(files).toEqual(["a.txt", "b.txt"]);
    scene.tree.remove("a.txt");
    scene.tree.write("b.txt", "<<<<<<< example\nboth\n>>>>>>> example\n");
    expect(await scene.branch.commitResolved({ ...resolved, onto, files })).toMatchObject({ kind: "committed" });
  });
});

function edited(line: number, text: string): string {
  return LINES.map((old, worktree) => (worktree === line ? `${text}\n` : old)).join("");
}

async function commit(message: string, at: string): Promise<void> {
  await scene.branch.commit({ message, at, exclude: [] });
}
