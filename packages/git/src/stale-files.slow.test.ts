import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { afterEach, describe, expect, test } from "vitest";
import { type ProcessIdentity, processIdentity } from "@holdfast/platform/identity";
import { MARK_VARIABLE } from "@holdfast/platform/process-tree";
import { type TestRepository, createTestRepository, testRepositoryAt } from "@holdfast/test-support/git/repository";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import { type GitOperation, planQuarantine } from "./stale-files.ts";
import { openGitWorkspaces } from "./workspaces.ts";
import type { WorktreeEntry } from "./worktree-entry.ts";

const repositories: TestRepository[] = [];
afterEach(() => {
  for (const repository of repositories.splice(0)) repository.dispose();
});

const MARK = "0123456789abcdef0123456789abcdef";
const MINUTE = 60;

describe("git was killed while it created a worktree", () => {
  const files = ["locked", "gitdir", "HEAD", "commondir", ".git"] as const;
  const cuts = ["absent", "empty", "half", "zeros"] as const;
  const states = files.flatMap((file) => cuts.map((cut) => ({ name: `${file} ${cut}`, file, cut })));

  test.each(sampleBySeed(states, 5))(
    "$name: every git works again, and the worktree is created",
    async ({ file, cut }) => {
      const { repo, path, note } = halfMade();
      const theirs = userWorktree(repo);
      const torn = file === ".git" ? join(path, ".git") : repo.path(`.git/worktrees/r/${file}`);
      const whole = readFileSync(torn);
      if (cut === "absent") rmSync(torn);
      else if (cut === "zeros") writeFileSync(torn, Buffer.alloc(whole.length));
      else writeFileSync(torn, whole.subarray(0, cut === "half" ? whole.length / 2 : 0));
      note();
      const all = await openGitWorkspaces(repo.root);
      expect((await all.list()).map((each) => each.run)).toEqual([null, null]);
      repo.git("gc", "-q");
      const made = await all.create({ run: "r" });
      expect(made.root).toBe(path);
      expect(testRepositoryAt(path).git("status", "--porcelain")).toBe("");
      expect(testRepositoryAt(path).read("a.txt")).toBe("one\n");
      expect(theirs()).toBe("as it was");
      await all.remove({ run: "r" });
      expect(notes(repo)).toEqual([]);
    },
  );

  test("before its branch was checked out, with the lock for that: it is completed, also without a note", async () => {
    const { repo, path } = halfMade();
    writeFileSync(repo.path(".git/worktrees/r/HEAD.lock"), "");
    const all = await openGitWorkspaces(repo.root);
    expect((await all.create({ run: "r" })).root).toBe(path);
    expect(testRepositoryAt(path).git("symbolic-ref", "HEAD")).toBe("refs/heads/holdfast/r\n");
  });

  test("its link exists and its entry does not", async () => {
    const { repo, path } = halfMade();
    rmSync(repo.path(".git/worktrees/r"), { recursive: true });
    const all = await openGitWorkspaces(repo.root);
    expect((await all.create({ run: "r" })).root).toBe(path);
  });

  test.each(["holdfast/r", "topic/x"])("the locks of an interrupted reset on %s", async (branch) => {
    const repo = committed();
    const all = await openGitWorkspaces(repo.root);
    const { root } = await all.create({ run: "r", branch });
    const gitDir = repo.path(".git/worktrees/r");
    writeFileSync(join(gitDir, "holdfast-making"), "");
    for (const name of ["HEAD.lock", "ORIG_HEAD.lock", "index.lock"]) writeFileSync(join(gitDir, name), "");
    writeFileSync(repo.path(`.git/refs/heads/${branch}.lock`), "");
    rmSync(join(root, "a.txt"));
    await all.create({ run: "r" });
    expect(testRepositoryAt(root).read("a.txt")).toBe("one\n");
    expect(testRepositoryAt(root).git("commit", "-q", "--allow-empty", "-m", "continues")).toBe("");
  });

  test("in a worktree that was handed out nothing is removed, whatever an old note contains", async () => {
    const repo = committed();
    const { root } = await (await openGitWorkspaces(repo.root)).create({ run: "r" });
    writeNote(repo, { kind: "making", run: "r", path: root, branch: "holdfast/r" });
    const locks = ["worktrees/r/index.lock", "refs/heads/holdfast/r.lock"].map((name) => repo.path(`.git/${name}`));
    for (const lock of locks) writeFileSync(lock, "");
    await (await openGitWorkspaces(repo.root)).create({ run: "r" });
    expect(locks.map((lock) => existsSync(lock))).toEqual([true, true]);
    expect(notes(repo)).toEqual([]);
  });

  test("a git that outlived its caller is ended before its work is repeated", async () => {
    const { repo, note } = halfMade();
    const orphan = spawn("sleep", ["1000"], { env: { ...process.env, [MARK_VARIABLE]: MARK } });
    const ended = once(orphan, "exit");
    note();
    await (await openGitWorkspaces(repo.root)).create({ run: "r" });
    expect(await ended).toEqual([null, "SIGKILL"]);
  });

  test("only git was killed: its files are removed when its caller has failed", async () => {
    const repo = committed();
    const { PATH } = process.env;
    const real = execFileSync("sh", ["-c", "command -v git"], { encoding: "utf8" }).trim();
    const spoil = "printf 'initializing\\n' > worktrees/r/locked; : > worktrees/r/commondir; kill -9 $$";
    repo.write(
      "../bin/git",
      `#!/bin/sh\ncase "$*" in *"worktree add"*) ${real} "$@"; ${spoil};; esac\nexec ${real} "$@"\n`,
    );
    chmodSync(repo.path("../bin/git"), 0o755);
    try {
      process.env["PATH"] = `${repo.path("../bin")}:${PATH}`;
      const all = await openGitWorkspaces(repo.root);
      await expect(all.create({ run: "r" })).rejects.toMatchObject({
        code: "GIT_FAILED",
        data: { ended: "signalled" },
      });
    } finally {
      process.env["PATH"] = PATH;
    }
    expect(repo.git("worktree", "list").trim().split("\n")).toHaveLength(1);
    await (await openGitWorkspaces(repo.root)).create({ run: "r" });
  });

  test("while its creator is alive no process touches it", async () => {
    const { repo, note } = halfMade();
    const maker = spawn("sleep", ["1000"]);
    try {
      note(identityOf(maker.pid ?? 0));
      const before = readdirSync(repo.path(".git/worktrees/r"));
      const all = await openGitWorkspaces(repo.root);
      await expect(all.create({ run: "r" })).rejects.toMatchObject({ code: "WORKSPACE_BUSY", retry: "later" });
      expect(readdirSync(repo.path(".git/worktrees/r"))).toEqual(before);
    } finally {
      maker.kill("SIGKILL");
    }
  });
});

describe("locks of a run without a live process", () => {
  test("in its worktree, its side worktrees and on its branch are removed and named", async () => {
    const repo = committed();
    const all = await openGitWorkspaces(repo.root);
    await all.create({ run: "r", branch: "topic/x" });
    await all.create({ run: "other" });
    const lock = (name: string): string => {
      mkdirSync(dirname(repo.path(`.git/${name}`)), { recursive: true });
      writeFileSync(repo.path(`.git/${name}`), "");
      return repo.path(`.git/${name}`);
    };
    repo.git("worktree", "add", "-q", "--detach", join(repo.root, "..", "beside"));
    writeFileSync(repo.path(".git/worktrees/beside/holdfast-run"), "r/key\n");
    const stale = [
      "worktrees/r/index.lock",
      "worktrees/r/HEAD.lock",
      "worktrees/r/modules/sub/index.lock",
      "worktrees/beside/index.lock",
      "refs/heads/topic/x.lock",
    ].map(lock);
    const kept = [
      "index.lock",
      "HEAD.lock",
      "refs/heads/main.lock",
      "refs/heads/holdfast/other.lock",
      "worktrees/other/index.lock",
      "config.lock",
      "packed-refs.lock",
    ].map(lock);
    const theirs = userWorktree(repo);
    const alive = lock("worktrees/r/ORIG_HEAD.lock");
    writeFileSync(alive, JSON.stringify({ holdfast: processIdentity() }));
    const removed = await all.clearLocks({ run: "r", branch: "refs/heads/topic/x" });
    expect(removed.toSorted()).toEqual(stale.toSorted());
    expect(stale.filter((path) => existsSync(path))).toEqual([]);
    expect(kept.filter((path) => !existsSync(path))).toEqual([]);
    expect([existsSync(alive), theirs()]).toEqual([true, "as it was"]);
    expect(await all.clearLocks({ run: "r", branch: "refs/heads/../../index" })).toEqual([]);
  });

  test("a run in the user's own checkout has none, on any branch", async () => {
    const repo = committed();
    const all = await openGitWorkspaces(repo.root);
    const locks = ["index.lock", "refs/heads/main.lock", "refs/heads/topic.lock"].map((name) =>
      repo.path(`.git/${name}`),
    );
    for (const path of locks) writeFileSync(path, "");
    expect(await all.clearLocks({ run: "by-hand", branch: "refs/heads/main" })).toEqual([]);
    expect(await all.clearLocks({ run: "by-hand", branch: "refs/heads/topic" })).toEqual([]);
    await all.create({ run: "r" });
    expect(await all.clearLocks({ run: "r", branch: "refs/heads/main" })).toEqual([]);
    expect(locks.filter((path) => !existsSync(path))).toEqual([]);
  });
});

describe("files that are not ours stay", () => {
  test("a worktree of the user at that path in which nothing was checked out yet", async () => {
    const repo = committed();
    const path = join(repo.root, "..", "repo-worktrees", "r");
    repo.git("worktree", "add", "-q", "--no-checkout", "-b", "theirs", path);
    writeNote(repo, { kind: "making", run: "r", path, branch: "holdfast/r" });
    const all = await openGitWorkspaces(repo.root);
    await expect(all.create({ run: "r" })).rejects.toMatchObject({ code: "USAGE" });
    expect(testRepositoryAt(path).git("symbolic-ref", "HEAD")).toBe("refs/heads/theirs\n");
  });

  test("one in which the user works although git was killed at the end of its creation", async () => {
    const repo = committed();
    const path = join(repo.root, "..", "repo-worktrees", "r");
    repo.git("worktree", "add", "-q", "-b", "theirs", path);
    writeFileSync(repo.path(".git/worktrees/r/locked"), "initializing\n");
    const all = await openGitWorkspaces(repo.root);
    await expect(all.create({ run: "r" })).rejects.toMatchObject({ code: "USAGE" });
    expect(testRepositoryAt(path).git("status", "--porcelain")).toBe("");
  });

  test("one that the user's git creates elsewhere, until it is an hour old", async () => {
    const repo = committed();
    repo.git("worktree", "add", "-q", "--no-checkout", join(repo.root, "..", "theirs"));
    const gitDir = repo.path(".git/worktrees/theirs");
    writeFileSync(join(gitDir, "locked"), "initializing\n");
    writeFileSync(join(gitDir, "commondir"), "");
    const all = await openGitWorkspaces(repo.root);
    await expect(all.list()).rejects.toMatchObject({ code: "GIT_FAILED" });
    expect(existsSync(gitDir)).toBe(true);
    age(join(gitDir, "locked"), 61 * MINUTE);
    expect(await all.list()).toHaveLength(1);
    expect(readdirSync(repo.path(".git/holdfast-workspace/damaged"))[0]).toMatch(/^worktree-theirs-/);
  });

  test("everything that a planted note names", async () => {
    const repo = committed();
    const outside = join(repo.root, "..", "outside");
    mkdirSync(outside);
    const locks = [join(outside, "x.lock"), repo.path(".git/refs/heads/main.lock")];
    for (const lock of [...locks, join(outside, ".git")]) writeFileSync(lock, "gitdir: /somewhere\n");
    writeNote(repo, { kind: "making", run: "r", path: outside, branch: "../../../../outside/x" });
    writeNote(repo, { kind: "unpinning", refs: ["refs/heads/main", "../outside/x"] }, { mark: MARK.replace("0", "f") });
    writeFileSync(repo.path(`.git/holdfast-workspace/work-${MARK.replace("0", "e")}`), '{"work":');
    await openGitWorkspaces(repo.root);
    expect([...locks, join(outside, ".git")].every((file) => existsSync(file))).toBe(true);
  });

  test("no plan removes finished, used or unrelated files", () => {
    const line = fc.constantFrom("", "\0\0", "/w", "/w/r/.git", "/w/r/.git\n", "/w/r2/.git\n");
    const arbitrary: fc.Arbitrary<WorktreeEntry> = fc
      .record({
        name: fc.constantFrom("r", "r2", "other"),
        link: line,
        head: fc.constantFrom("", "ref: refs/heads/holdfast/r\n", "ref: refs/heads/theirs\n"),
        run: fc.constantFrom(null, "r", "other"),
        making: fc.boolean(),
        used: fc.boolean(),
        initializing: fc.boolean(),
        whole: fc.boolean(),
      })
      .map((entry) => ({
        ...entry,
        gitDir: `/g/${entry.name}`,
        folder: entry.link.endsWith("\n") ? dirname(entry.link.trim()) : null,
        whole: entry.whole && entry.link.endsWith("\n"),
      }));
    fc.assert(
      fc.property(fc.array(arbitrary), fc.boolean(), (entries, untouched) => {
        const starts = ["ref: refs/heads/holdfast/r\n"];
        const { quarantined, remaining } = planQuarantine({ path: "/w/r", entries, untouched, starts });
        for (const entry of quarantined) {
          expect(entry.folder === null || entry.folder === "/w/r").toBe(true);
          expect(entry.name === "other" && entry.link === "").toBe(false);
          expect(entry.run !== null && !entry.making).toBe(false);
          if (entry.used && !entry.making) expect([untouched, entry.head]).toEqual([true, starts[0]]);
          expect(entry).not.toBe(remaining);
        }
        // Every remaining entry is usable by git or belongs to a user or a run.
        const left = entries.filter((entry) => entry.folder === "/w/r" && !quarantined.includes(entry));
        for (const { whole, initializing, used, making, run } of left)
          expect((whole && !initializing) || (used && !making) || (run !== null && !making)).toBe(true);
      }),
    );
  });
});

describe("git was killed while it deleted packed refs", () => {
  const scene = async () => {
    const repo = committed();
    repo.git("branch", "theirs");
    const all = await openGitWorkspaces(repo.root);
    const ref = await all.pin({ run: "r", sequence: 1, snapshot: repo.git("rev-parse", "HEAD").trim() });
    repo.git("pack-refs", "--all");
    const locks = ["packed-refs.new", "packed-refs.lock", `${ref}.lock`].map((name) => repo.path(`.git/${name}`));
    mkdirSync(repo.path(`.git/${dirname(ref)}`), { recursive: true });
    for (const lock of locks) writeFileSync(lock, "");
    return { repo, ref, lock: repo.path(".git/packed-refs.lock") };
  };

  test.each([
    { when: "its refs are locked", isLocked: true, replaced: 5 * MINUTE },
    { when: "it had unlocked them already", isLocked: false, replaced: MINUTE },
    { when: "a power cut took all but its draft", isLocked: "never", replaced: 5 * MINUTE },
  ])("its locks are removed when $when, and the user can delete a branch again", async ({ isLocked, replaced }) => {
    const { repo, ref, lock } = await scene();
    age(writeNote(repo, { kind: "unpinning", refs: [ref] }), 3 * MINUTE);
    for (const file of [lock, repo.path(".git/packed-refs.new")]) age(file, 2 * MINUTE);
    age(repo.path(".git/packed-refs"), replaced);
    if (isLocked !== true) rmSync(repo.path(`.git/${ref}.lock`));
    if (isLocked === "never") rmSync(lock);
    const all = await openGitWorkspaces(repo.root);
    repo.git("branch", "-q", "-D", "theirs");
    await all.unpin([ref]);
    expect(await all.refs()).toEqual([]);
    expect(notes(repo)).toEqual([]);
  });

  test.each([
    { why: "young", noted: 0, locked: 0, isOurs: true, left: 1 },
    { why: "older than our work", noted: 2 * MINUTE, locked: 3 * MINUTE, isOurs: true, left: 0 },
    { why: "there although our refs are not locked", noted: 3 * MINUTE, locked: 2 * MINUTE, isOurs: false, left: 0 },
  ])("a lock that is $why may be the user's", async ({ noted, locked, isOurs, left }) => {
    const { repo, ref, lock } = await scene();
    age(writeNote(repo, { kind: "unpinning", refs: [isOurs ? ref : "refs/holdfast/r/7"] }), noted);
    for (const file of [lock, repo.path(".git/packed-refs.new")]) age(file, locked);
    age(repo.path(".git/packed-refs"), 5 * MINUTE);
    await openGitWorkspaces(repo.root);
    expect(existsSync(lock)).toBe(true);
    expect(notes(repo)).toHaveLength(left);
  });
});

function committed(): TestRepository {
  const repo = createTestRepository();
  repositories.push(repo);
  repo.write("a.txt", "one\n");
  repo.git("add", "-A");
  repo.git("commit", "-qm", "first");
  return repo;
}

/**
 * The state that git leaves when killed before the last step: HEAD is not on the branch yet, and git's own mark exists.
 */
function halfMade(): { repo: TestRepository; path: string; note(owner?: ProcessIdentity): string } {
  const repo = committed();
  mkdirSync(repo.path(".git/holdfast-workspace"));
  const path = join(repo.root, "..", "repo-worktrees", "r");
  repo.git("worktree", "add", "-q", "--no-checkout", "-b", "holdfast/r", path);
  const gitDir = repo.path(".git/worktrees/r");
  rmSync(join(gitDir, "logs"), { recursive: true, force: true });
  writeFileSync(join(gitDir, "locked"), "initializing\n");
  writeFileSync(join(gitDir, "HEAD"), `${"0".repeat(40)}\n`);
  const work: GitOperation = { kind: "making", run: "r", path, branch: "holdfast/r" };
  return { repo, path, note: (owner) => writeNote(repo, work, owner === undefined ? {} : { owner }) };
}

function writeNote(
  repo: TestRepository,
  work: GitOperation,
  { mark = MARK, owner = { ...processIdentity(), pid: spawnSync("true").pid } } = {},
): string {
  const file = repo.path(`.git/holdfast-workspace/work-${mark}`);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, JSON.stringify({ work, owner }));
  return file;
}

function notes(repo: TestRepository): readonly string[] {
  return readdirSync(repo.path(".git/holdfast-workspace")).filter((name) => name.startsWith("work-"));
}

/** A worktree of the user with an edit and a lock. Returns a function that reports whether both are unchanged. */
function userWorktree(repo: TestRepository): () => string {
  const root = join(repo.root, "..", "theirs");
  repo.git("worktree", "add", "-q", root);
  writeFileSync(join(root, "a.txt"), "theirs\n");
  const lock = repo.path(".git/worktrees/theirs/index.lock");
  writeFileSync(lock, "");
  return () => (existsSync(lock) && readFileSync(join(root, "a.txt"), "utf8") === "theirs\n" ? "as it was" : "touched");
}

function age(file: string, seconds: number): void {
  const time = statSync(file).mtimeMs / 1000 - seconds;
  utimesSync(file, time, time);
}

function identityOf(pid: number): ProcessIdentity {
  const fields = readFileSync(`/proc/${pid}/stat`, "latin1").split(") ").at(-1)?.split(" ") ?? [];
  return { ...processIdentity(), pid, started: fields[19] ?? null };
}
