import { execFileSync } from "node:child_process";
import { hash } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { contentOf, listTree, startCommitted, startSession } from "@holdfast/test-support/git/repository";
import {
  type IndexEntry,
  compareIndexes,
  formatIndexState,
  parseIndexEntry,
  parseIndexState,
} from "./private-index.ts";
import { openGitWorkspaces } from "./workspaces.ts";

describe("private index", () => {
  /** The id of a tree with one file, computed by git's rules. */
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

    test("an edit that restores the old size and time is seen", async () => {
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

    test("a torn or foreign private index is not trusted", async () => {
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
      // State from before a reboot was never synced, so it is ignored.
      writeFileSync(
        state,
        readFileSync(state, "utf8")
          .replace(/"boot":"[^"]*"/, '"boot":"another"')
          .replace(first.tree, "0".repeat(40)),
      );
      expect((await workspace.currentFiles()).tree).toBe(first.tree);
    });

    test("objects that a gc removed are written again", async () => {
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

    test("files of a killed operation are removed by a later one", async () => {
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

    test("several snapshots at once of one worktree are each complete", async () => {
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
});

describe("index memo", () => {
  const path = fc.constantFrom("a", "b", "b/c", "b0", "d", "e\xff", "z z");
  const id = fc.constantFrom("1".repeat(40), "2".repeat(40));
  const entry = fc.record({ path, id, mode: fc.constantFrom("100644", "100755", "160000"), skip: fc.boolean() });
  const index = fc
    .uniqueArray(entry, { selector: (each) => each.path })
    .map((list) => list.sort((a, b) => (a.path < b.path ? -1 : 1)));

  test("the merge of two sorted lists equals the result of sets", () => {
    fc.assert(
      fc.property(index, index, (user, ours) => {
        const { untracked, missing, links, sparse } = compareIndexes(user, ours, { fileModes: true });
        const theirs = new Map(user.map((each) => [each.path, each]));
        const own = new Map(ours.map((each) => [each.path, each]));
        expect([...untracked].sort()).toEqual([...own.keys()].filter((name) => !theirs.has(name)).sort());
        const files = user.filter(({ mode }) => mode !== "160000");
        const absent = files.filter(({ path: name }) => !own.has(name)).map(({ path: name }) => name);
        expect([...missing].filter(([, each]) => !each.stored).map(([name]) => name)).toEqual(absent);
        expect([...links.keys()]).toEqual(user.filter(({ mode }) => mode === "160000").map(({ path: name }) => name));
        expect(sparse).toBe(user.some(({ skip }) => skip));
      }),
    );
  });

  test("a path in several merge stages counts once", () => {
    const stage = (name: string): IndexEntry => ({ path: name, mode: "100644", id: "1".repeat(40), skip: false });
    const { missing, untracked } = compareIndexes(
      [stage("a"), stage("a"), stage("a"), stage("b")],
      [stage("b"), stage("c")],
      { fileModes: true },
    );
    expect([...missing.keys()]).toEqual(["a"]);
    expect([...untracked]).toEqual(["c"]);
  });

  test("without the modes of the disk an entry is valid only with the mode of the user's index", () => {
    const entry = (mode: string): IndexEntry => ({ path: "a", mode, id: "1".repeat(40), skip: false });
    const missing = (user: string, own: string, fileModes: boolean): boolean =>
      compareIndexes([entry(user)], [entry(own)], { fileModes }).missing.has("a");
    expect(missing("100755", "100644", false)).toBe(true);
    expect(missing("100755", "100644", true)).toBe(false);
    expect(missing("100755", "100755", false)).toBe(false);
    // A link is on the disk where git tracks a file, or the other way round.
    expect(missing("100755", "120000", false)).toBe(false);
    expect(missing("120000", "100644", false)).toBe(false);
  });

  test("the entry of a sparse file is valid only while the user's index has the same", () => {
    const sparse = (over: Partial<IndexEntry>): IndexEntry => ({
      path: "a",
      mode: "100644",
      id: "1".repeat(40),
      skip: true,
      ...over,
    });
    expect(compareIndexes([sparse({})], [sparse({})], { fileModes: true }).missing.size).toBe(0);
    for (const other of [{ skip: false }, { id: "2".repeat(40) }, { mode: "100755" }]) {
      expect(compareIndexes([sparse(other)], [sparse({})], { fileModes: true }).missing.get("a")).toMatchObject({
        stored: true,
      });
    }
  });

  test("parses lines of git's listing", () => {
    const line = `s 100755 ${"a".repeat(64)} 2\tdir/na\tme`;
    expect(parseIndexEntry(line)).toEqual({ path: "dir/na\tme", mode: "100755", id: "a".repeat(64), skip: true });
    expect(parseIndexEntry(`h 100644 ${"a".repeat(40)} 0\tx`)).toMatchObject({ path: "x", skip: false });
  });

  test("stored data is read back unchanged, and anything else is not trusted", () => {
    const mark = fc.string();
    const state = fc.record({
      user: index,
      ours: index,
      young: fc.dictionary(path, mark),
      special: fc.array(path),
      key: fc.option(fc.string()),
    });
    fc.assert(
      fc.property(state, ({ user, ours, young, special, key }) => {
        const memo = {
          ...compareIndexes(user, ours, { fileModes: true }),
          young: new Map(Object.entries(young)),
          special: new Set(special),
        };
        const before = { index: "1:2:3", boot: "b", tree: "t", userIndex: { key, paths: "p", content: "c" }, memo };
        const text = formatIndexState(before);
        expect(parseIndexState(text)).toEqual(before);
        expect(parseIndexState(text.slice(0, -1))).toBeUndefined();
        expect(parseIndexState(text.replace('"format":"2"', '"format":"1"'))).toBeUndefined();
      }),
    );
    for (const text of ["", "null", "[]", "{}", '{"format":"2"}']) expect(parseIndexState(text)).toBeUndefined();
  });
});
