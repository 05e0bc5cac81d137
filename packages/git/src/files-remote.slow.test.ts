import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import type { FilesPlane } from "@holdfast/core/checkpoint";
import type { FilesRemote, Workspaces } from "@holdfast/core/workspace";
import { startSilentRemote } from "@holdfast/test-support/git/http-remote";
import { readWorktree, userState } from "@holdfast/test-support/git/repository";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { openGitWorkspaces } from "./workspaces.ts";

const AT = "2026-01-02T03:04:05.000Z";
const STORE = "5tore";

interface Clone {
  readonly root: string;
  readonly workspaces: Workspaces;
  readonly files: FilesRemote;
  git(...args: readonly string[]): string;
  /** Takes a snapshot of the worktree of the run, which is created first. */
  save(sequence: number): Promise<FilesPlane>;
  readonly worktree: string;
}

function git(cwd: string, ...args: readonly string[]): string {
  const identity = ["-c", "user.name=A", "-c", "user.email=a@example.com"];
  return execFileSync("git", [...identity, ...args], { cwd, encoding: "utf8", stdio: "pipe" }).trim();
}

/** A bare remote with one commit, and two clones of it in different folders. */
async function scene(
  remote?: string,
): Promise<{ readonly folder: string; readonly bare: string; readonly a: Clone; readonly b: Clone }> {
  const folder = scratchDirectory(onTestFinished);
  const bare = join(folder, "remote.git");
  git(folder, "init", "-q", "--bare", "-b", "main", bare);
  mkdirSync(join(folder, "one"));
  mkdirSync(join(folder, "two"));
  git(folder, "clone", "-q", bare, "one/a");
  git(join(folder, "one/a"), "checkout", "-q", "-b", "main");
  writeFileSync(join(folder, "one/a/base.txt"), "base\n");
  git(join(folder, "one/a"), "add", ".");
  git(join(folder, "one/a"), "commit", "-qm", "first");
  git(join(folder, "one/a"), "push", "-q", "origin", "main");
  git(folder, "clone", "-q", bare, "two/b");
  return { folder, bare, a: await open(join(folder, "one/a"), remote), b: await open(join(folder, "two/b"), remote) };
}

async function open(root: string, remote = "origin"): Promise<Clone> {
  const workspaces = await openGitWorkspaces(root);
  const worktree = join(`${root}-worktrees`, "r-1");
  return {
    root,
    worktree,
    workspaces,
    files: await workspaces.filesRemote(remote, STORE),
    git: (...args) => git(root, ...args),
    async save(sequence) {
      const workspace = await workspaces.create({ run: "r-1" });
      return await workspace.snapshot({ run: "r-1", sequence, message: "saved", at: AT });
    },
  };
}

function refsOf(clone: Clone): string {
  return clone.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/holdfast/");
}

function newestPackBytes(root: string): number {
  const folder = join(root, "objects/pack");
  const packs = readdirSync(folder).filter((name) => name.endsWith(".pack"));
  const stats = packs.map((name) => statSync(join(folder, name))).toSorted((x, y) => x.mtimeMs - y.mtimeMs);
  return stats.at(-1)?.size ?? 0;
}

describe("the files of a run on a remote", () => {
  test("come to another clone byte for byte, and only what is missing is sent", async () => {
    const { a, b, bare } = await scene();
    git(bare, "config", "receive.unpackLimit", "1");
    await a.save(1);
    writeFileSync(join(a.worktree, "base.txt"), "committed\n");
    git(a.worktree, "commit", "-qam", "by the agent");
    writeFileSync(join(a.worktree, "big.bin"), randomBytes(400_000));
    writeFileSync(join(a.worktree, "run.sh"), "#!/bin/sh\n");
    chmodSync(join(a.worktree, "run.sh"), 0o755);
    writeFileSync(join(a.worktree, "sp ace\tü.txt"), "x\r\n");
    symlinkSync("base.txt", join(a.worktree, "link"));
    writeFileSync(join(a.worktree, "base.txt"), "staged\n");
    git(a.worktree, "add", "base.txt");
    writeFileSync(join(a.worktree, "base.txt"), "not staged\n");
    const two = await a.save(2);
    const before = [userState(join(a.root, ".git")), userState(join(b.root, ".git"))];
    expect(await a.files.unpushed("r-1")).toEqual({ remote: "origin", snapshots: 2, problem: null });
    expect(await a.files.push({ run: "r-1" })).toEqual({ kind: "pushed", snapshots: 2 });
    expect(await a.files.unpushed("r-1")).toMatchObject({ snapshots: 0 });
    expect(await a.files.push({ run: "r-1" })).toEqual({ kind: "same" });
    expect(git(bare, "for-each-ref", "--format=%(refname)")).toBe(`refs/heads/main\nrefs/holdfast/r-1/files/${STORE}`);

    expect(await b.workspaces.has(two)).toBe(false);
    expect(await b.files.fetch({ run: "r-1" })).toEqual({ kind: "fetched", snapshots: 2 });
    expect(await b.workspaces.has(two)).toBe(true);
    expect(refsOf(b)).toBe(refsOf(a));
    expect(await b.files.fetch({ run: "r-1" })).toEqual({ kind: "same" });
    // Neither user's refs, index or config changed, and a log of everything shows none of it.
    expect([userState(join(a.root, ".git")), userState(join(b.root, ".git"))]).toEqual(before);
    expect(a.git("log", "--all", "--format=%s")).not.toContain("Holdfast");

    const there = await b.workspaces.create({ run: "r-1", base: two.head ?? "", branch: "holdfast/r-1" });
    const from = await there.look({ at: AT });
    await there.applyRestore(await there.planRestore({ from, to: two }));
    expect(readWorktree(b.worktree)).toEqual(readWorktree(a.worktree));
    expect(b.git("cat-file", "blob", two.index ?? "").length).toBeGreaterThan(0);

    writeFileSync(join(a.worktree, "small.txt"), "small\n");
    const three = await a.save(3);
    expect(await a.files.push({ run: "r-1" })).toEqual({ kind: "pushed", snapshots: 1 });
    expect(newestPackBytes(bare)).toBeLessThan(4000);
    expect(await b.files.fetch({ run: "r-1" })).toEqual({ kind: "fetched", snapshots: 1 });
    expect(newestPackBytes(join(b.root, ".git"))).toBeLessThan(4000);
    expect(await b.workspaces.has(three)).toBe(true);
    expect(b.git("fsck", "--strict", "--no-dangling")).toBe("");
    expect(git(bare, "fsck", "--strict", "--no-dangling")).toBe("");
  });

  test("two machines that push at once keep both, also under one name", async () => {
    const { a, b } = await scene();
    await a.save(1);
    await a.files.push({ run: "r-1" });
    await b.files.fetch({ run: "r-1" });
    await b.save(2);
    writeFileSync(join(a.worktree, "of-a.txt"), "a\n");
    const ofA = await a.save(2);
    writeFileSync(join(b.worktree, "of-b.txt"), "b\n");
    const ofB = await b.save(3);
    const pushed = await Promise.all([a.files.push({ run: "r-1" }), b.files.push({ run: "r-1" })]);
    expect(pushed.map(({ kind }) => kind)).toEqual(["pushed", "pushed"]);
    await a.files.fetch({ run: "r-1" });
    await b.files.fetch({ run: "r-1" });
    for (const { workspaces } of [a, b])
      expect([await workspaces.has(ofA), await workspaces.has(ofB)]).toEqual([true, true]);
    expect(a.git("rev-parse", ofA.ref)).toBe(ofA.snapshot);
    expect(b.git("rev-parse", `refs/holdfast/r-1/2-${ofA.snapshot}`)).toBe(ofA.snapshot);
    expect(await a.files.unpushed("r-1")).toMatchObject({ snapshots: 0 });
  });

  test("what was interrupted is completed by the next call, at every stage", async () => {
    const { a, b, bare } = await scene();
    const one = await a.save(1);
    await a.files.push({ run: "r-1" });
    const record = join(a.root, ".git/holdfast-workspace", `files-r-1-${STORE}`);
    // Killed after the push arrived and before it was recorded.
    rmSync(record);
    expect(await a.files.push({ run: "r-1" })).toEqual({ kind: "same" });
    expect(await a.files.unpushed("r-1")).toMatchObject({ snapshots: 0 });
    // Killed in a fetch: the pack is there without tags and refs, or with tags, or with some of the refs.
    for (const lost of ["objects", "tags", "refs"]) {
      await b.files.fetch({ run: "r-1" });
      for (const ref of refsOf(b).split("\n")) b.git("update-ref", "-d", ref.split(" ")[0] ?? "");
      rmSync(join(b.root, ".git/holdfast-workspace", `files-r-1-${STORE}`));
      if (lost === "tags") rmSync(join(b.root, ".git/objects", one.snapshot.slice(0, 2), one.snapshot.slice(2)));
      if (lost === "objects") b.git("gc", "-q", "--prune=now");
    }
    expect(await b.files.fetch({ run: "r-1" })).toEqual({ kind: "fetched", snapshots: 1 });
    expect(refsOf(b)).toBe(refsOf(a));
    // The chain's commits have no ref here. After a gc they come from the remote again.
    a.git("reflog", "expire", "--expire=now", "--all");
    a.git("gc", "-q", "--prune=now");
    writeFileSync(join(a.worktree, "more.txt"), "more\n");
    await a.save(2);
    expect(await a.files.push({ run: "r-1" })).toEqual({ kind: "pushed", snapshots: 1 });
    // The ref was deleted on the remote.
    git(bare, "update-ref", "-d", `refs/holdfast/r-1/files/${STORE}`);
    writeFileSync(join(a.worktree, "more.txt"), "yet more\n");
    await a.save(3);
    expect(await a.files.push({ run: "r-1" })).toEqual({ kind: "pushed", snapshots: 3 });
    expect(await a.files.remove("r-1")).toBeNull();
    expect(await b.files.fetch({ run: "r-1" })).toEqual({ kind: "absent" });
    expect(await a.files.remove("r-1")).toBeNull();
  });

  test("a remote that was set back to an older state gets again what it has lost", async () => {
    const { a, b, bare } = await scene();
    const ref = `refs/holdfast/r-1/files/${STORE}`;
    await a.save(1);
    await a.files.push({ run: "r-1" });
    const older = git(bare, "rev-parse", ref);
    writeFileSync(join(a.worktree, "two.txt"), "two\n");
    const two = await a.save(2);
    await a.files.push({ run: "r-1" });
    git(bare, "update-ref", ref, older);
    // The machine with the files may only fetch at first.
    expect(await a.files.fetch({ run: "r-1" })).toMatchObject({ kind: "fetched" });
    expect(await a.files.unpushed("r-1")).toMatchObject({ snapshots: 1 });
    expect(await a.files.push({ run: "r-1" })).toEqual({ kind: "pushed", snapshots: 1 });
    await b.files.fetch({ run: "r-1" });
    expect(await b.workspaces.has(two)).toBe(true);
    // Set back, and continued there by another machine.
    git(bare, "update-ref", ref, older);
    const c = await open(b.root);
    rmSync(join(b.root, ".git/holdfast-workspace", `files-r-1-${STORE}`));
    for (const line of refsOf(b).split("\n")) b.git("update-ref", "-d", line.split(" ")[0] ?? "");
    await c.files.fetch({ run: "r-1" });
    writeFileSync(join((await c.workspaces.create({ run: "r-1" })).root, "three.txt"), "three\n");
    const three = await c.save(3);
    expect(await c.files.push({ run: "r-1" })).toMatchObject({ kind: "pushed" });
    expect(await a.files.push({ run: "r-1" })).toEqual({ kind: "pushed", snapshots: 1 });
    await c.files.fetch({ run: "r-1" });
    for (const { workspaces } of [a, c])
      expect([await workspaces.has(two), await workspaces.has(three)]).toEqual([true, true]);
    expect(await a.files.unpushed("r-1")).toMatchObject({ snapshots: 0 });
  });

  test("a secret stops them, and a remote that is away or refuses is reported", async () => {
    const { a, bare, folder } = await scene();
    await a.save(1);
    writeFileSync(join(a.worktree, ".env"), `AWS_KEY=AKIA${"Q3EGRUIKQ3EGRUIK"}\n`);
    await a.save(2);
    const found = [{ path: ".env", line: 1, kind: expect.any(String) as string }];
    expect(await a.files.push({ run: "r-1" })).toEqual({ kind: "secrets", found });
    expect(await a.files.unpushed("r-1")).toMatchObject({
      snapshots: 2,
      problem: expect.stringContaining(".env:1") as string,
    });
    expect(git(bare, "for-each-ref", "refs/holdfast/")).toBe("");
    expect(await a.files.push({ run: "r-1", withSecrets: true })).toEqual({ kind: "pushed", snapshots: 2 });
    expect(await a.files.unpushed("r-1")).toMatchObject({ snapshots: 0, problem: null });
    // What is there already is not searched again.
    writeFileSync(join(a.worktree, "next.txt"), "next\n");
    await a.save(3);
    const away = (await open(a.root, `${folder}/away.git`)).files;
    expect(await away.push({ run: "r-1" })).toMatchObject({ kind: "refused", refusal: { cause: "missing_remote" } });
    expect(await away.unpushed("r-1")).toMatchObject({
      snapshots: 3,
      problem: expect.stringContaining("missing_remote") as string,
    });
    expect(await a.files.push({ run: "r-1" })).toEqual({ kind: "pushed", snapshots: 1 });
  });

  test("a push and a fetch leave a remote that accepts the connection and never answers after 30 seconds", async () => {
    const { a } = await scene();
    await a.save(1);
    const { url, asked } = await startSilentRemote(onTestFinished);
    const { files } = await open(a.root, url);
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    const both = Promise.all([files.push({ run: "r-1" }), files.fetch({ run: "r-1" })]);
    await asked(2);
    vi.advanceTimersByTime(30_000);
    const late = { cause: "network", message: expect.stringContaining("no answer in time") as string };
    expect(await both).toMatchObject([
      { kind: "refused", refusal: late },
      { kind: "refused", refusal: late },
    ]);
  });

  test.each(["-oProxyCommand=x", "ext::sh -c x", "no-such-remote", "a\nb"])("%j is not a remote", async (remote) => {
    const { a } = await scene();
    await expect(
      a.workspaces.filesRemote(remote, STORE).then((files) => files.push({ run: "r-1" })),
    ).rejects.toMatchObject({
      code: "USAGE",
    });
  });

  test("no hook and no program of a remote or of the repository runs", async () => {
    const { a, folder } = await scene();
    const marker = join(folder, "ran");
    mkdirSync(join(a.root, ".git/hooks"), { recursive: true });
    writeFileSync(join(a.root, ".git/hooks/pre-push"), `#!/bin/sh\ntouch ${marker}\n`, { mode: 0o755 });
    a.git("config", "remote.origin.uploadpack", `touch ${marker}; git-upload-pack`);
    a.git("config", "remote.origin.receivepack", `touch ${marker}; git-receive-pack`);
    await a.save(1);
    expect(await a.files.push({ run: "r-1" })).toEqual({ kind: "pushed", snapshots: 1 });
    a.git("config", "remote.evil.url", `ext::sh -c "touch ${marker}"`);
    const evil = await (await a.workspaces.filesRemote("evil", STORE)).push({ run: "r-1" });
    expect(evil).toMatchObject({ kind: "refused" });
    expect(() => readFileSync(marker)).toThrow();
    expect((await a.workspaces.filesRemote("https://me:s3cret@example.com/x", STORE)).url).not.toContain("s3cret");
  });

  test("a remote that sends something else is refused, and nothing is written", async () => {
    const { a, b, bare } = await scene();
    await a.save(1);
    writeFileSync(join(a.worktree, "of-a.txt"), "a\n");
    const one = await a.save(2);
    await a.files.push({ run: "r-1" });
    const ref = `refs/holdfast/r-1/files/${STORE}`;
    const tip = git(bare, "rev-parse", ref);
    const message = (name: string, id: string): string => `${name}\n\nHoldfast-Object: ${id}\n`;
    const blob = git(bare, "rev-parse", `${tip}:snapshot`);
    const wrong = git(a.root, "write-tree");
    git(a.root, "push", "-q", "origin", "main:refs/heads/x");
    const tree = execFileSync("git", ["mktree"], {
      cwd: bare,
      input: `040000 tree ${wrong}\tfiles\n100644 blob ${blob}\tsnapshot\n`,
      encoding: "utf8",
    }).trim();
    for (const [of, text] of [
      [tree, message("1", one.snapshot)],
      [`${tip}^{tree}`, message("1", one.tree)],
      [`${tip}^{tree}`, message("../../heads/main", one.snapshot)],
      [wrong, message(`side/${one.tree}`, one.tree)],
      [wrong, "no commit of a run\n"],
    ] as const) {
      const bad = git(bare, "commit-tree", of, "-p", `${tip}^`, "-m", text);
      git(bare, "update-ref", ref, bad);
      const before = userState(join(b.root, ".git"));
      await expect(b.files.fetch({ run: "r-1" })).rejects.toMatchObject({ code: "FORMAT_DAMAGED" });
      expect(refsOf(b)).toBe("");
      expect(userState(join(b.root, ".git"))).toEqual(before);
    }
  });
});
