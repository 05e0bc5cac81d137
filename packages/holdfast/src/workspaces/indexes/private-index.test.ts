import { hash } from "node:crypto";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, renameSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { startCommitted, startSession } from "../../testing/workspace/workspace-start.ts";
import { contentOf, listTree } from "../../testing/workspace/workspace-tree.ts";
import { openGitWorkspaces } from "../git-workspaces.ts";

/** The id of a tree with one file, by git's own rules. */
function treeOfOne(name: string, text: string): string {
  const blob = hash("sha1", `blob ${text.length}\0${text}`, "buffer");
  const entry = Buffer.concat([Buffer.from(`100644 ${name}\0`), blob]);
  return hash("sha1", Buffer.concat([Buffer.from(`tree ${entry.length}\0`), entry]));
}

describe("the private index", () => {
  test("an edit of the same size in the same second is never missed", async () => {
    const repo = startCommitted({ a: "0000000000" });
    const { workspace, guard } = await startSession(repo);
    for (let round = 1; round <= 30; round++) {
      const text = String(round).padStart(10, "0");
      writeFileSync(repo.path("a"), text);
      expect((await guard(() => workspace.currentFiles())).tree).toBe(treeOfOne("a", text));
    }
  });

  test("an edit that puts the old size and time back is seen", async () => {
    const repo = startCommitted({ a: "one" });
    const past = new Date("2020-01-01T00:00:00Z");
    utimesSync(repo.path("a"), past, past);
    const { snapshot } = await startSession(repo);
    await snapshot();
    repo.write("a", "two");
    utimesSync(repo.path("a"), past, past);
    expect(contentOf(repo, await snapshot(), "a")).toBe("two");
  });

  test("the same state is the same tree and the same commit, whatever was snapshotted before", async () => {
    const repo = startCommitted();
    const { snapshot, workspace, workspaces } = await startSession(repo);
    repo.write("new", "1");
    const first = await snapshot({ sequence: 1 });
    repo.write("other", "2");
    await snapshot({ sequence: 2 });
    repo.remove("other");
    const again = await snapshot({ sequence: 1 });
    expect(again).toEqual(first);
    expect((await workspace.currentFiles()).tree).toBe(first.tree);
    repo.remove(".git/holdfast-workspace");
    const cold = await (await openGitWorkspaces(repo.root)).open(repo.root);
    expect((await cold.currentFiles()).tree).toBe(first.tree);
    expect((await workspaces.refs()).map(({ ref }) => ref)).toEqual([
      "refs/holdfast/test-run/1",
      "refs/holdfast/test-run/2",
    ]);
  });

  test("a torn or foreign private index is not believed", async () => {
    const repo = startCommitted();
    const { snapshot, workspace } = await startSession(repo);
    const first = await snapshot();
    const home = repo.path(".git/holdfast-workspace");
    const kept = execFileSync("ls", [home], { encoding: "utf8" })
      .split("\n")
      .find((name) => /^index-\d+$/.test(name));
    writeFileSync(join(home, kept ?? ""), "DIRC torn");
    repo.write("new", "1");
    expect(listTree(repo, await snapshot())).toContain("100644 new");
    const state = join(home, `${kept}.json`);
    writeFileSync(state, "{");
    repo.remove("new");
    expect((await snapshot()).tree).toBe(first.tree);
    // From before the machine went down: nothing of it was synced, so nothing of it counts.
    writeFileSync(
      state,
      readFileSync(state, "utf8")
        .replace(/"boot":"[^"]*"/, '"boot":"another"')
        .replace(first.tree, "0".repeat(40)),
    );
    expect((await workspace.currentFiles()).tree).toBe(first.tree);
  });

  test("objects that a gc took are written again", async () => {
    const repo = startCommitted();
    repo.write("new", "only copy");
    const { snapshot, workspaces, workspace } = await startSession(repo);
    await workspace.currentFiles();
    const pinned = await snapshot();
    await workspaces.unpin([pinned.ref]);
    repo.git("gc", "-q", "--prune=now");
    expect(await workspaces.has(pinned)).toBe(false);
    const again = await snapshot();
    expect(again.tree).toBe(pinned.tree);
    expect(await workspaces.has(again)).toBe(true);
  });

  test("what a killed operation left is swept by a later one", async () => {
    const repo = startCommitted();
    const { snapshot } = await startSession(repo);
    await snapshot();
    const left = repo.path(".git/holdfast-workspace/op-999999999-abc");
    mkdirSync(left);
    const past = new Date(Date.now() - 3_600_000);
    utimesSync(left, past, past);
    await (await openGitWorkspaces(repo.root)).open(repo.root);
    expect(() => renameSync(left, `${left}x`)).toThrow();
  });

  test("several snapshots at once of one worktree are each whole", async () => {
    const repo = startCommitted();
    const { workspace } = await startSession(repo);
    repo.write("new", "1");
    const at = "2026-01-02T03:04:05Z";
    const planes = await Promise.all(
      [1, 2, 3, 4].map((sequence) => workspace.snapshot({ run: "r", sequence, message: "m", at })),
    );
    expect(new Set(planes.map(({ tree }) => tree)).size).toBe(1);
  });
});
