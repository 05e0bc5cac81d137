import { spawnSync } from "node:child_process";
import { readdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { FilesPlane } from "@holdfast/core/checkpoint";
import type { RestoreResult } from "@holdfast/core/workspace";
import { type FoldingDisk, mountFoldingDisk } from "@holdfast/test-support/folding-disk";
import {
  type TestRepository,
  type WorkspaceSession,
  listTree,
  readWorktree,
  startCommitted,
  startSession,
} from "@holdfast/test-support/git/repository";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";

const COMPOSED = "caf\u00e9.txt";
const DECOMPOSED = COMPOSED.normalize("NFD");

/** Like `session.restore`, which checks that the index stays as it is: respelling a tracked file renames its entry. */
async function restore(session: WorkspaceSession, to: FilesPlane): Promise<RestoreResult> {
  const { workspace, snapshot } = session;
  return await workspace.applyRestore(await workspace.planRestore({ from: await snapshot(), to }));
}

/** Through another name: some disks keep the old spelling when a name is renamed onto itself. */
function respellFolder(repo: TestRepository, from: string, to: string): void {
  renameSync(repo.path(from), repo.path("tmp"));
  renameSync(repo.path("tmp"), repo.path(to));
  repo.git("rm", "-rq", "--cached", from);
}

function commit(repo: TestRepository): void {
  repo.git("add", "-A");
  repo.git("commit", "-qm", "change", "--allow-empty");
}

/** All file names below the root as the disk spells them. */
function namesIn(repo: TestRepository): readonly string[] {
  return Object.keys(readWorktree(repo.root))
    .map((name) => Buffer.from(name, "latin1").toString("utf8"))
    .sort();
}

/** Renames the entry of the index only, as a commit from another machine does. */
function renameInIndex(repo: TestRepository, from: string, to: string): void {
  const id = repo.git("rev-parse", `:${from}`).trim();
  repo.git("update-index", "--force-remove", from);
  repo.git("update-index", "--add", "--cacheinfo", `100644,${id},${to}`);
}

const probe = mountFoldingDisk();
const missing = typeof probe === "string" ? probe : undefined;
if (typeof probe !== "string") probe.unmount();

describe.each([
  { kind: "keeps the Unicode form", decomposed: false },
  { kind: "stores names decomposed", decomposed: true },
])(
  `on a case-insensitive disk that $kind${missing === undefined ? "" : ` (skipped: ${missing})`}`,
  ({ decomposed }) => {
    let disk: FoldingDisk;
    let before: string | undefined;

    beforeAll(() => {
      if (missing !== undefined) return;
      before = process.env["TMPDIR"];
      const mounted = mountFoldingDisk({ decomposed });
      if (typeof mounted === "string") throw new Error(mounted);
      disk = mounted;
    });
    beforeEach(() => {
      if (missing === undefined) process.env["TMPDIR"] = disk.path;
    });
    afterAll(() => {
      if (missing !== undefined) return;
      if (before === undefined) delete process.env["TMPDIR"];
      else process.env["TMPDIR"] = before;
      disk.unmount();
    });
    const scene = test.skipIf(missing !== undefined);

    scene("a restore across a committed case-only rename renames the file back, and forth again", async () => {
      const repo = startCommitted({ "foo.ts": "one\n", "same.ts": "same\n", "Other.ts": "other\n" });
      const session = await startSession(repo);
      const first = await session.snapshot();
      repo.git("mv", "foo.ts", "Foo.ts");
      repo.git("mv", "same.ts", "SAME.ts");
      repo.write("Foo.ts", "two\n");
      commit(repo);
      const second = await session.snapshot();
      expect(listTree(repo, second)).toEqual(["100644 Foo.ts", "100644 Other.ts", "100644 SAME.ts"]);

      const back = await restore(session, first);
      expect(back).toMatchObject({ tree: first.tree, written: 2, removed: 0 });
      expect(namesIn(repo)).toEqual(["Other.ts", "foo.ts", "same.ts"]);
      expect([repo.read("foo.ts"), repo.read("same.ts")]).toEqual(["one\n", "same\n"]);
      expect(repo.git("ls-files")).toBe("Other.ts\nfoo.ts\nsame.ts\n");

      expect((await restore(session, second)).tree).toBe(second.tree);
      expect(namesIn(repo)).toEqual(["Foo.ts", "Other.ts", "SAME.ts"]);
      expect(repo.read("Foo.ts")).toBe("two\n");
      expect(repo.git("status", "--porcelain")).toBe("");
    });

    scene("a name once composed and once decomposed is one file in every snapshot", async () => {
      const repo = startCommitted({ [COMPOSED]: "one\n", "b.ts": "b\n" });
      const session = await startSession(repo);
      const first = await session.snapshot();
      expect(listTree(repo, first)).toHaveLength(2);
      const tracked = repo.git("-c", "core.quotePath=false", "ls-files", "-z").split("\0")[1] ?? "";
      renameInIndex(repo, tracked, tracked === COMPOSED ? DECOMPOSED : COMPOSED);
      repo.write(COMPOSED, "two\n");
      const second = await session.snapshot();
      expect(listTree(repo, second)).toHaveLength(2);
      expect((await restore(session, first)).tree).toBe(first.tree);
      expect(repo.read(COMPOSED)).toBe("one\n");
      expect((await restore(session, second)).tree).toBe(second.tree);
      expect([repo.read(COMPOSED), repo.read(DECOMPOSED), namesIn(repo).length]).toEqual(["two\n", "two\n", 2]);
    });

    // How names are stored makes no difference to the rest.
    if (decomposed) return;

    scene("a restore of one path in either spelling renames that file only", async () => {
      const repo = startCommitted({ "foo.ts": "one\n", "bar.ts": "one\n" });
      const session = await startSession(repo);
      const first = await session.snapshot();
      for (const name of ["foo.ts", "bar.ts"]) repo.git("mv", name, name.toUpperCase());
      repo.write("FOO.TS", "two\n");
      commit(repo);
      const from = await session.snapshot();
      const plan = await session.workspace.planRestore({ from, to: first, paths: ["FOO.TS"] });
      expect(plan.changes).toEqual([
        { kind: "respell", path: "foo.ts", from: "FOO.TS" },
        { kind: "write", path: "foo.ts", mode: "100644" },
      ]);
      expect((await session.workspace.applyRestore(plan)).tree).toBe(plan.toTree);
      expect(namesIn(repo)).toEqual(["BAR.TS", "foo.ts"]);
      expect(repo.read("foo.ts")).toBe("one\n");
    });

    scene("a renamed folder gets its old name back, and ignored files in it stay", async () => {
      const repo = startCommitted({ "lib/a.ts": "a\n", "lib/deep/b.ts": "b\n", ".gitignore": "*.log\n" });
      const session = await startSession(repo);
      const first = await session.snapshot();
      repo.write("lib/deep/run.log", "ignored\n");
      respellFolder(repo, "lib", "Lib");
      commit(repo);
      const second = await session.snapshot();
      expect(listTree(repo, second)).toContain("100644 Lib/deep/b.ts");
      expect((await restore(session, first)).tree).toBe(first.tree);
      expect(namesIn(repo)).toEqual([".gitignore", "lib/a.ts", "lib/deep/b.ts", "lib/deep/run.log"]);
      expect((await restore(session, second)).tree).toBe(second.tree);
      expect(namesIn(repo)).toEqual([".gitignore", "Lib/a.ts", "Lib/deep/b.ts", "Lib/deep/run.log"]);
    });

    scene("two tracked names of one file: no restore between such snapshots removes the file", async () => {
      const repo = startCommitted({ "a.ts": "one\n", "b.ts": "b\n" });
      const session = await startSession(repo);
      const single = await session.snapshot();
      const id = repo.git("rev-parse", ":a.ts").trim();
      repo.git("update-index", "--add", "--cacheinfo", `100644,${id},A.ts`);
      const both = await session.snapshot();
      expect(listTree(repo, both)).toEqual(["100644 A.ts", "100644 a.ts", "100644 b.ts"]);
      repo.write("a.ts", "two\n");
      const edited = await session.snapshot();

      expect((await restore(session, both)).tree).toBe(both.tree);
      expect(repo.read("a.ts")).toBe("one\n");
      expect((await restore(session, edited)).tree).toBe(edited.tree);
      expect(repo.read("a.ts")).toBe("two\n");
      expect((await restore(session, single)).tree).toBe(single.tree);
      expect([namesIn(repo), repo.read("a.ts")]).toEqual([["a.ts", "b.ts"], "one\n"]);
      await restore(session, both);
      expect([namesIn(repo), repo.read("a.ts")]).toEqual([["a.ts", "b.ts"], "one\n"]);

      repo.git("update-index", "--force-remove", "a.ts");
      repo.remove("a.ts");
      const none = await session.snapshot();
      await restore(session, both);
      expect([namesIn(repo), repo.read("a.ts")]).toEqual([["A.ts", "b.ts"], "one\n"]);
      await restore(session, none);
      expect(namesIn(repo)).toEqual(["b.ts"]);
    });

    scene("two different files of a snapshot that are one name here: refused, and nothing changes", async () => {
      const repo = startCommitted({ "a.ts": "one\n" });
      const session = await startSession(repo);
      const now = await session.snapshot();
      const other = repo.git("rev-parse", ":a.ts").trim();
      writeFileSync(join(repo.root, ".git", "other"), "other\n");
      const id = repo.git("hash-object", "-w", ".git/other").trim();
      for (const name of ["A.ts", "a.ts/b.ts"]) {
        repo.git("read-tree", "--empty");
        repo.git("update-index", "--add", "--cacheinfo", `100644,${other},new.ts`);
        repo.git("update-index", "--add", "--cacheinfo", `100644,${id},${name}`);
        repo.git("update-index", "--add", "--cacheinfo", `100644,${other},${name.startsWith("A") ? "a.ts" : "A.ts"}`);
        const snapshot = repo.git("commit-tree", "-m", "from Linux", repo.git("write-tree").trim()).trim();
        const tree = repo.git("rev-parse", `${snapshot}^{tree}`).trim();
        repo.git("reset", "-q");
        await expect(
          session.workspace.planRestore({ from: now, to: { ...now, tree, snapshot } }),
        ).rejects.toMatchObject({ code: "RESTORE_REFUSED", data: { names: [expect.any(String), expect.any(String)] } });
        expect([namesIn(repo), repo.read("a.ts")]).toEqual([["a.ts"], "one\n"]);
      }
    });

    scene("a file renamed without git keeps the spelling that git knows", async () => {
      const repo = startCommitted({ "foo.ts": "one\n" });
      const session = await startSession(repo);
      const first = await session.snapshot();
      renameSync(repo.path("foo.ts"), repo.path("Foo.ts"));
      expect((await session.snapshot()).tree).toBe(first.tree);
    });

    scene("a file becomes a folder of another spelling, and back", async () => {
      const repo = startCommitted({ foo: "file\n", "x.ts": "x\n" });
      const session = await startSession(repo);
      const file = await session.snapshot();
      repo.git("rm", "-q", "foo");
      repo.write("Foo/bar.ts", "bar\n");
      commit(repo);
      const folder = await session.snapshot();
      expect((await restore(session, file)).tree).toBe(file.tree);
      expect([namesIn(repo), repo.read("foo")]).toEqual([["foo", "x.ts"], "file\n"]);
      expect((await restore(session, folder)).tree).toBe(folder.tree);
      expect(namesIn(repo)).toEqual(["Foo/bar.ts", "x.ts"]);
    });

    scene("an ignored file in another spelling is not overwritten", async () => {
      const repo = startCommitted({ "notes.log": "tracked\n", "x.ts": "x\n" });
      const session = await startSession(repo);
      const first = await session.snapshot();
      repo.git("rm", "-q", "notes.log");
      repo.write(".git/info/exclude", "*.log\n");
      repo.write("Notes.log", "private\n");
      const from = await session.snapshot();
      const plan = await session.workspace.planRestore({ from, to: first });
      await expect(session.workspace.applyRestore(plan)).rejects.toMatchObject({ code: "RESTORE_REFUSED" });
      expect(repo.read("Notes.log")).toBe("private\n");
    });

    const KILLS = [1, 2, 3, 4].map((at) => ({ name: `${at}`, at }));
    scene.each(sampleBySeed(KILLS, 2))(
      "killed after rename $at of a respelling: the next restore completes it",
      async ({ at }) => {
        const repo = startCommitted({ "lib/foo.ts": "one\n", "lib/b.ts": "b\n", ".gitignore": "*.log\n" });
        const session = await startSession(repo);
        const first = await session.snapshot();
        repo.write("lib/run.log", "ignored\n");
        respellFolder(repo, "lib", "Lib");
        repo.git("add", "-A");
        repo.git("mv", "Lib/foo.ts", "Lib/Foo.ts");
        repo.write("Lib/Foo.ts", "two\n");
        commit(repo);
        const from = await session.snapshot();
        const plan = await session.workspace.planRestore({ from, to: first });
        const killed = spawnSync(process.execPath, ["--input-type=module", "-e", killedRestore(repo.root, plan, at)], {
          cwd: import.meta.dirname,
          encoding: "utf8",
        });
        expect([killed.signal, killed.stderr]).toEqual(["SIGKILL", ""]);
        expect((await restore(session, first)).tree).toBe(first.tree);
        expect(namesIn(repo)).toEqual([".gitignore", "lib/b.ts", "lib/foo.ts", "lib/run.log"]);
        expect([repo.read("lib/foo.ts"), repo.read("lib/run.log")]).toEqual(["one\n", "ignored\n"]);
        const ours = readdirSync(join(repo.root, ".git", "holdfast-workspace"));
        expect(ours).not.toContain("respelling.json");
      },
    );
  },
);

/** A program that applies the plan and kills itself after a number of renames of a respelling. */
function killedRestore(root: string, plan: unknown, at: number): string {
  return `
    import fs from "node:fs";
    import { syncBuiltinESMExports } from "node:module";
    const rename = fs.renameSync;
    let count = 0;
    fs.renameSync = (from, to) => {
      rename(from, to);
      if (/\\.holdfast-[0-9a-f]{12}$/.test(String(from) + String(to)) || /\\.holdfast-[0-9a-f]{12}$/.test(String(from)))
        if (++count === ${at}) process.kill(process.pid, "SIGKILL");
    };
    syncBuiltinESMExports();
    const { openGitWorkspaces } = await import("@holdfast/git/workspaces");
    const workspaces = await openGitWorkspaces(${JSON.stringify(root)});
    const workspace = await workspaces.open(${JSON.stringify(root)});
    await workspace.applyRestore(${JSON.stringify(plan)});
  `;
}
