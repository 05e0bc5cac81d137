import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join, relative } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import type { PushRefusal, PushResult } from "@holdfast/core/branch";
import { type BranchScene, countGit, createBranchScene } from "@holdfast/test-support/git/repository";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { createGitBranches } from "./branches.ts";

describe("push", () => {
  const AT = "2026-03-01T12:00:00Z";

  let scene: BranchScene;
  beforeEach(async () => {
    scene = await createBranchScene();
    await work("two\n");
  });
  afterEach(() => scene.dispose());

  test("a branch is opened with at most one query of its repository", async () => {
    const { calls } = countGit();
    await scene.reopen();
    expect(calls().filter((call) => call.includes("rev-parse") && call.includes("bare")).length).toBeLessThan(2);
  });

  test("a setting of one worktree counts there, in its own file or in one that is included for it", async () => {
    const { user, tree, branch } = scene;
    const pushName = async () => (await branch.pushRemote())?.name;
    user.git("remote", "add", "mine", "/mine.git");
    expect(await pushName()).toBe("origin");
    user.git("config", "extensions.worktreeConfig", "true");
    tree.git("config", "--worktree", "remote.pushDefault", "mine");
    expect(await pushName()).toBe("mine");
    tree.git("config", "--worktree", "--unset", "remote.pushDefault");
    expect(await pushName()).toBe("origin");
    user.git("config", "--remove-section", "extensions");
    user.write("included", "[remote]\n\tpushDefault = mine\n");
    user.git("config", `includeIf.gitdir:${user.root}/.git/worktrees/.path`, user.path("included"));
    expect(await pushName()).toBe("mine");
  });

  test("a remote is asked what it has, and fetched from only if something of it is missing here", async () => {
    const { user, bare, branch } = scene;
    expect(await branch.fetch()).toEqual({ kind: "fetched" });
    const { calls } = countGit();
    const fetches = () => calls().filter((call) => call.includes(" fetch ")).length;
    expect(await branch.fetch()).toEqual({ kind: "fetched" });
    expect(fetches()).toBe(0);
    const moved = scene.moveBase({ "moved.txt": "1" });
    bare.git("tag", "v9", moved);
    user.git("update-ref", "refs/remotes/origin/main", "main~1");
    expect(await branch.fetch()).toEqual({ kind: "fetched" });
    expect([await branch.remoteBranch("main"), fetches()]).toEqual([moved, 1]);
    bare.git("branch", "other", moved);
    user.git("pack-refs", "--all");
    expect(await branch.fetch()).toEqual({ kind: "fetched" });
    expect([await branch.remoteBranch("other"), fetches()]).toEqual([moved, 2]);
    // Tags belong to the user; a plan of a run must not create any.
    expect(user.git("tag")).toBe("");
  });

  test("a fetch is repeated while another process adds a worktree", async () => {
    const { user, branch } = scene;
    user.git("worktree", "add", "--quiet", "--detach", join(scratchDirectory(onTestFinished), "beside"));
    const head = user.path(".git/worktrees/beside/HEAD");
    const commit = readFileSync(head);
    // git writes zeros there first, and a fetch fails on them.
    writeFileSync(head, `${"0".repeat(40)}\n`);
    scene.moveBase({ "moved.txt": "1" });
    user.git("update-ref", "refs/remotes/origin/main", "main~1");
    const { calls } = countGit();
    const fetching = branch.fetch();
    const isRepeated = () => calls().filter((call) => call.includes(" fetch ")).length > 1;
    const ended = fetching.then(() => true);
    while (!isRepeated() && !(await Promise.race([ended, sleep(20, false)])));
    writeFileSync(head, commit);
    expect(await fetching).toEqual({ kind: "fetched" });
  });

  describe("push", () => {
    test("the first push is new, the same again is up to date, the next is added on top", async () => {
      const first = scene.tip();
      expect(await scene.branch.push({ expected: null })).toEqual({ kind: "pushed", commit: first, forced: false });
      expect(await scene.branch.push({ expected: null })).toEqual({ kind: "up_to_date", commit: first });
      expect(await scene.branch.lookUpRemote("holdfast/issue-42")).toEqual({ kind: "known", commit: first });
      await work("three\n");
      expect(await scene.branch.push({ expected: first })).toEqual({
        kind: "pushed",
        commit: scene.tip(),
        forced: false,
      });
      expect(remoteTip()).toBe(scene.tip());
    });

    test("a relative remote is resolved from the main worktree", async () => {
      const { user, bare, branch } = scene;
      user.git("remote", "set-url", "origin", relative(user.root, bare.root));
      expect(await branch.fetch()).toEqual({ kind: "fetched" });
      expect(await branch.push({ expected: null })).toMatchObject({ kind: "pushed" });
      expect(await branch.lookUpRemote(branch.name)).toEqual({ kind: "known", commit: scene.tip() });
    });

    test("a branch that was deleted on the remote is missing after a fetch, keeps its tracking ref, and can be pushed again", async () => {
      const { user, bare, branch } = scene;
      await branch.push({ expected: null });
      bare.git("branch", "-D", branch.name);
      expect(await branch.remoteBranch(branch.name)).toBe(scene.tip());
      expect(await branch.fetch()).toEqual({ kind: "fetched" });
      expect(await branch.remoteBranch(branch.name)).toBeNull();
      expect(user.git("rev-parse", `refs/remotes/origin/${branch.name}`).trim()).toBe(scene.tip());
      expect(await branch.push({ expected: null })).toMatchObject({ kind: "pushed" });
      expect(await branch.remoteBranch(branch.name)).toBe(scene.tip());
    });

    test("no livelock after a rebase: the next push replaces the last pushed commit, and nothing else", async () => {
      await scene.branch.push({ expected: null });
      const pushed = scene.tip();
      const onto = scene.moveBase({ "c.txt": "base\n" });
      await scene.branch.fetch();
      expect(await scene.branch.rebase({ onto, at: AT })).toMatchObject({ kind: "rebased", from: pushed });
      // A plain push, which the seed system retries, is refused each time.
      expect(() => scene.tree.git("push", "-q", "origin", "HEAD:refs/heads/holdfast/issue-42")).toThrow(
        /non-fast-forward/,
      );
      expect(await scene.branch.push({ expected: pushed })).toEqual({
        kind: "pushed",
        commit: scene.tip(),
        forced: true,
      });
      expect(remoteTip()).toBe(scene.tip());
      const again = await scene.branch.rebase({ onto, at: "2026-03-01T13:00:00Z" });
      expect(again).toEqual({ kind: "up_to_date", commit: scene.tip() });

      // Another user pushed meanwhile: their commits are never overwritten.
      const other = pushByOther("theirs\n");
      const next = scene.moveBase({ "d.txt": "base\n" });
      await scene.branch.rebase({ onto: next, at: AT });
      expect(
        refusal(await scene.branch.push({ expected: again.kind === "up_to_date" ? again.commit : "" })).cause,
      ).toBe("stale_lease");
      expect(remoteTip()).toBe(other);
    });

    test("pre-push hooks run and get the same input as from git", async () => {
      const seen = join(scene.user.root, "..", "seen");
      hook(scene.user.path(".git"), "pre-push", `cat > '${seen}'; echo "$1" >> '${seen}'`);
      await scene.branch.push({ expected: null });
      const text = scene.user.read("../seen");
      expect(text).toContain(`refs/heads/holdfast/issue-42 ${scene.tip()} refs/heads/holdfast/issue-42`);
      expect(text).toContain("origin");
    });
  });

  describe("a refusal has its real cause, although all of them print 'failed to push some refs'", () => {
    test("non_fast_forward: the remote has commits of another user and none of ours", async () => {
      pushByOther("theirs\n");
      const { cause, message } = refusal(await scene.branch.push({ expected: null }));
      expect(cause).toBe("non_fast_forward");
      expect(message).not.toContain("failed to push some refs");
    });

    test("stale_lease: the expected commit was replaced by another one", async () => {
      await scene.branch.push({ expected: null });
      const pushed = scene.tip();
      pushByOther("theirs\n");
      await work("three\n");
      expect(refusal(await scene.branch.push({ expected: pushed })).cause).toBe("stale_lease");
    });

    test("stale_lease: no commit was expected and an older commit of ours is there", async () => {
      await scene.branch.push({ expected: null });
      await work("three\n");
      expect(refusal(await scene.branch.push({ expected: null })).cause).toBe("stale_lease");
    });

    test("hook: a local pre-push hook, without a connection to the remote", async () => {
      hook(scene.user.path(".git"), "pre-push", "echo 'lint: 3 errors' >&2; exit 3");
      const { cause, message } = refusal(await scene.branch.push({ expected: null }));
      expect(cause).toBe("local_hook");
      expect(message).toContain("pre-push");
      expect(message).toContain("lint: 3 errors");
    });

    test.each(["pre-receive", "update"])("hook: %s on the remote", async (name) => {
      hook(scene.bare.root, name, "echo 'no non-fast-forward jokes today' >&2; exit 1");
      const { cause, message } = refusal(await scene.branch.push({ expected: null }));
      expect(cause).toBe("hook");
      expect(message).toContain("no non-fast-forward jokes today");
    });

    test("protected: the remote accepts no forced push", async () => {
      await scene.branch.push({ expected: null });
      const pushed = scene.tip();
      scene.bare.git("config", "receive.denyNonFastForwards", "true");
      await scene.branch.rebase({ onto: scene.moveBase({ "c.txt": "base\n" }), at: AT });
      expect(refusal(await scene.branch.push({ expected: pushed })).cause).toBe("protected");
    });

    test("protected: a forge that says GH006", async () => {
      hook(scene.bare.root, "update", "echo 'error: GH006: Protected branch update failed' >&2; exit 1");
      expect(refusal(await scene.branch.push({ expected: null })).cause).toBe("protected");
    });

    test("auth: ssh is denied; the token in the URL is not printed", async () => {
      scene.user.git(
        "config",
        "core.sshCommand",
        "sh -c 'echo \"git@host: Permission denied (publickey).\" >&2; exit 255'",
      );
      scene.user.git("remote", "set-url", "origin", "ssh://git@host.invalid/x.git");
      expect(refusal(await scene.branch.push({ expected: null })).cause).toBe("auth");
      expect(await scene.branch.lookUpRemote("main")).toMatchObject({ kind: "unknown" });
    });

    test("auth: a server asks for a password without a terminal", async () => {
      const server = createServer((_request, response) => {
        response.writeHead(401, { "www-authenticate": 'Basic realm="x"' }).end();
      });
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      try {
        const address = server.address();
        const port = typeof address === "object" && address !== null ? address.port : 0;
        scene.user.git("remote", "set-url", "origin", `http://ada:s3cret@127.0.0.1:${port}/x.git`);
        const { cause, message } = refusal(await scene.branch.push({ expected: null }));
        expect(cause).toBe("auth");
        expect(message).not.toContain("s3cret");
        expect((await scene.branch.remote())?.url).not.toContain("s3cret");
      } finally {
        server.close();
      }
    });

    test("network: no server listens; a look-up is unknown, never 'absent'", async () => {
      scene.user.git("remote", "set-url", "origin", "http://127.0.0.1:9/x.git");
      expect(refusal(await scene.branch.push({ expected: null })).cause).toBe("network");
      expect(await scene.branch.fetch()).toMatchObject({ kind: "failed", refusal: { cause: "network" } });
      expect(await scene.branch.lookUpRemote("main")).toMatchObject({ kind: "unknown" });
    });

    test("missing_remote: no such repository, or no remote at all", async () => {
      scene.user.git("remote", "set-url", "origin", "/nowhere/x.git");
      expect(refusal(await scene.branch.push({ expected: null })).cause).toBe("missing_remote");
      scene.user.git("remote", "remove", "origin");
      expect(refusal(await scene.branch.push({ expected: null })).cause).toBe("missing_remote");
      expect(await scene.branch.remote()).toBeNull();
      expect(await scene.branch.fetch()).toMatchObject({ kind: "failed", refusal: { cause: "missing_remote" } });
    });

    test("other: an unknown failure keeps its message", async () => {
      scene.user.git("config", "core.sshCommand", "sh -c 'echo \"the hamster is asleep\" >&2; exit 1'");
      scene.user.git("remote", "set-url", "origin", "ssh://host.invalid/x.git");
      const { cause, message } = refusal(await scene.branch.push({ expected: null }));
      expect([cause, message.includes("hamster")]).toEqual(["other", true]);
    });
  });

  async function work(text: string): Promise<void> {
    scene.tree.write("a.txt", text);
    await scene.branch.commit({ message: `Work: ${text}`, at: AT, exclude: [] });
  }

  function remoteTip(): string {
    return scene.bare.git("rev-parse", "refs/heads/holdfast/issue-42").trim();
  }

  function pushByOther(text: string): string {
    scene.user.git("checkout", "-q", "-B", "other", "main");
    scene.user.write("theirs.txt", text);
    scene.user.git("add", "-A");
    scene.user.git("commit", "-qm", "theirs");
    scene.user.git("push", "-q", "--force", "origin", "other:holdfast/issue-42");
    scene.user.git("checkout", "-q", "main");
    return scene.user.git("rev-parse", "other").trim();
  }

  function hook(gitDir: string, name: string, script: string): void {
    const path = join(gitDir, "hooks", name);
    mkdirSync(join(gitDir, "hooks"), { recursive: true });
    writeFileSync(path, `#!/bin/sh\n${script}\n`);
    chmodSync(path, 0o755);
  }

  function refusal(result: PushResult): PushRefusal {
    if (result.kind !== "refused") throw new Error(`expected a refusal, got ${JSON.stringify(result)}`);
    return result.refusal;
  }
});

describe("inspect push", () => {
  // The tokens are assembled here, so that no scanner reports this file as a leak.
  const TOKEN = ["ghp", "_AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"].join("");
  const OLD = ["glpat-", "AbCdEfGhIjKlMnOpQrSt"].join("");

  function repository() {
    const folder = scratchDirectory(onTestFinished);
    const git = (...args: readonly string[]): string =>
      execFileSync("git", ["-c", "user.name=A", "-c", "user.email=a@example.org", ...args], {
        cwd: folder,
        encoding: "utf8",
      });
    const write = (path: string, text: string | Uint8Array): void => writeFileSync(join(folder, path), text);
    const commit = (message: string): void => {
      git("add", "-A");
      git("commit", "-qm", message);
    };
    git("init", "-q", "-b", "main");
    write("old.txt", `here since long: ${OLD}\n`);
    commit("base");
    const remote = scratchDirectory(onTestFinished);
    git("init", "-q", "--bare", remote);
    git("remote", "add", "origin", remote);
    git("push", "-q", "origin", "main");
    git("switch", "-qc", "work");
    const branch = async () => await createGitBranches().of(folder);
    const look = async () => await (await branch()).inspectPush({ issue: 42 });
    /** Creates a commit object with exactly these bytes as the new tip of the branch. */
    const commitBytes = (headers: string, message: string | Uint8Array): void => {
      const tree = git("rev-parse", "HEAD^{tree}").trim();
      const parent = git("rev-parse", "HEAD").trim();
      const who = "A <a@example.org> 1700000000 +0000";
      const head = `tree ${tree}\nparent ${parent}\nauthor ${who}\ncommitter ${who}\n${headers}\n`;
      const id = execFileSync("git", ["hash-object", "-t", "commit", "--literally", "-w", "--stdin"], {
        cwd: folder,
        input: Buffer.concat([Buffer.from(head), Buffer.from(message)]),
        encoding: "utf8",
      });
      git("update-ref", "refs/heads/work", id.trim());
    };
    return { folder, remote, git, write, commit, commitBytes, branch, look };
  }

  test("clean commits, and commits that the remote has, do not stop a push", async () => {
    const { write, commit, look } = repository();
    write("old.txt", `here since long: ${OLD}\nand a line more\n`);
    write("code.ts", "const token = process.env.GITHUB_TOKEN;\nconst sum = 'sha512-abc';\n");
    commit("work");
    expect(await look()).toEqual({ secrets: [], unsearched: [], references: [] });
  });

  test("a secret is named by file, line, kind and commit, and never shown", async () => {
    const { write, commit, look, git } = repository();
    write("a b.txt", `one\ntwo\nuse ${TOKEN} here\n`);
    commit("work");
    const { secrets: found } = await look();
    expect(found).toEqual([
      { commit: git("rev-parse", "HEAD").trim(), path: "a b.txt", line: 3, kind: "GitHub token" },
    ]);
    expect(JSON.stringify(found)).not.toContain(TOKEN);
  });

  test("a later commit that removes it does not remove it from the history", async () => {
    const { write, commit, look } = repository();
    write("a.txt", `${TOKEN}\n`);
    commit("adds it");
    write("a.txt", "gone\n");
    commit("removes it");
    expect((await look()).secrets).toMatchObject([{ path: "a.txt", line: 1, kind: "GitHub token" }]);
  });

  test("binary files, private keys, values of the environment, and lines that look like headers of a patch", async () => {
    const { write, commit, look } = repository();
    process.env["PUSHED_TEST_TOKEN"] = "a value of my own";
    onTestFinished(() => void delete process.env["PUSHED_TEST_TOKEN"]);
    write("binary", Buffer.concat([Buffer.from([0, 1, 2, 0xff]), Buffer.from(TOKEN), Buffer.from([0])]));
    write("key.pem", ["-----BEGIN RSA PRIVATE ", "KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\n"].join(""));
    write("own.txt", "it is a value of my own\n");
    write("patch.txt", `++ b/elsewhere\n${TOKEN}\n`);
    write("wide.txt", Buffer.from(`\uFEFFone\n${TOKEN}\n`, "utf16le"));
    commit("work");
    const found = (await look()).secrets.map(({ path, line, kind }) => `${path}:${line} ${kind}`).toSorted();
    expect(found).toEqual([
      "binary:1 GitHub token",
      "key.pem:1 private key",
      "own.txt:1 value of PUSHED_TEST_TOKEN",
      "patch.txt:2 GitHub token",
      "wide.txt:2 GitHub token",
    ]);
  });

  test("a commit message is searched too", async () => {
    const { write, commit, look } = repository();
    write("a.txt", "a\n");
    commit(`adds a\n\nwith ${TOKEN}`);
    expect((await look()).secrets).toMatchObject([{ path: "commit message", kind: "GitHub token" }]);
  });

  test("examples of documentation are not secrets", async () => {
    const { write, commit, look } = repository();
    write("README.md", "AKIAIOSFODNN7EXAMPLE\npassword: hunter2000\npostgres://me:secret99@localhost/db\n");
    commit("docs");
    expect((await look()).secrets).toEqual([]);
  });

  test("content that only a merge commit adds is found, and content of its parents is not", async () => {
    const { write, commit, look, git } = repository();
    git("switch", "-q", "main");
    write("theirs.txt", `published: ${OLD}\n`);
    commit("theirs");
    git("push", "-q", "origin", "main");
    git("switch", "-q", "work");
    write("a.txt", "a\n");
    commit("work");
    git("merge", "-q", "--no-commit", "--no-ff", "main");
    git("commit", "-qm", "clean merge");
    expect(await look()).toEqual({ secrets: [], unsearched: [], references: [] });
    git("reset", "-q", "--hard", "HEAD^");
    git("merge", "-q", "--no-commit", "--no-ff", "main");
    write("b.bin", Buffer.from(`\0${TOKEN}\n`));
    write("a.txt", `a\n${TOKEN}\n`);
    commit("merge");
    expect((await look()).secrets.map(({ path, line, kind }) => `${path}:${line} ${kind}`)).toEqual([
      "a.txt:2 GitHub token",
      "b.bin:1 GitHub token",
    ]);
  });

  test("a line that is too long, and content after too many changes, are named as not searched", async () => {
    const { write, commit, look } = repository();
    write("long.txt", `${"a ".repeat(2_500_000)}${TOKEN}${" b".repeat(500_000)}\n`);
    commit("long");
    expect(await look()).toMatchObject({
      secrets: [],
      unsearched: [{ path: "long.txt", line: 1, kind: "not searched: a line of more than 4 MB" }],
    });
    write("long.txt", `${`${"0123456789 ".repeat(1000)}\n`.repeat(6500)}${TOKEN}\n`);
    commit("much");
    expect((await look()).unsearched).toMatchObject([
      { path: "long.txt", kind: "not searched: all that follows the first 64 MB of changes" },
    ]);
  });

  test("names of files and of people are searched, and a name is never shown with its secret", async () => {
    const { write, commit, look, git } = repository();
    write(`${TOKEN}.txt`, "");
    commit("empty file");
    git("-c", `user.name=${OLD}`, "-c", "user.email=a@example.org", "commit", "-q", "--allow-empty", "-m", "by");
    const { secrets: found } = await look();
    expect(found.map(({ path, kind }) => `${path} ${kind}`).toSorted()).toEqual([
      expect.stringMatching(/\.txt GitHub token$/),
      "commit author GitLab token",
      "committer GitLab token",
    ]);
    expect(JSON.stringify(found)).not.toContain(TOKEN);
  });

  test("a remote-tracking ref that exists only locally hides no commit", async () => {
    const { write, commit, look, git } = repository();
    write("a.txt", `${TOKEN}\n`);
    commit("work");
    git("update-ref", "refs/remotes/origin/cache", "HEAD");
    git("update-ref", "refs/remotes/origin/main", "HEAD");
    expect((await look()).secrets).toMatchObject([{ path: "a.txt", line: 1 }]);
  });

  test("a remote branch that was never fetched is not a problem", async () => {
    const { write, commit, look, git } = repository();
    write("b.txt", "b\n");
    commit("other");
    git("push", "-q", "origin", "work:other");
    git("reset", "-q", "--hard", "HEAD^");
    git("update-ref", "-d", "refs/remotes/origin/other");
    git("reflog", "expire", "--expire=now", "--all");
    git("gc", "-q", "--prune=now");
    write("a.txt", "a\n");
    commit("work");
    expect(await look()).toEqual({ secrets: [], unsearched: [], references: [] });
  });

  test("a message that closes another issue or notifies a group is named line by line, the run's own issue is not", async () => {
    const { write, commit, look, git } = repository();
    write("a.txt", "a\n");
    commit("add @types/node\n\nCloses #42\nsee #7 and @param, mail a@example.org");
    expect((await look()).references).toEqual([]);
    write("a.txt", "b\n");
    commit(`resolves other/app#42\n\nthanks @everyone for ${TOKEN}`);
    const head = git("rev-parse", "HEAD").trim();
    expect((await look()).references).toEqual([
      { commit: head, text: "resolves other/app#42" },
      { commit: head, text: "thanks @everyone for ***" },
    ]);
  });

  test("a closing word and its reference on two lines are named", async () => {
    const { git, look } = repository();
    git("commit", "-q", "--allow-empty", "-m", "work\n\nCloses\n#77");
    expect((await look()).references).toMatchObject([{ text: "work Closes #77" }]);
  });

  const EFFECT = `work ${TOKEN}\n\nCloses #77 @everyone`;
  const IN_MESSAGE = {
    secrets: [{ path: "commit message", line: 1, kind: "GitHub token" }],
    references: [{ text: "Closes #77 @everyone" }],
  };

  test.each(["UTF-16LE", "UTF-16", "UTF-32", "IBM037"])(
    "a message is read as it is stored, though git prints it as %s",
    async (encoding) => {
      const { git, look } = repository();
      git("config", "i18n.logOutputEncoding", encoding);
      git("commit", "-q", "--allow-empty", "-m", EFFECT);
      expect(await look()).toMatchObject({ ...IN_MESSAGE, unsearched: [] });
    },
  );

  test.each(["IBM037", "UTF-16LE", "UTF-7", "no-such-encoding"])(
    "a commit that claims the encoding %s is read as it is stored, and named as not searched",
    async (encoding) => {
      const { git, look } = repository();
      git("-c", `i18n.commitEncoding=${encoding}`, "commit", "-q", "--allow-empty", "-m", EFFECT);
      expect(await look()).toMatchObject({
        ...IN_MESSAGE,
        unsearched: [{ path: "commit message", kind: "not searched: a commit in an encoding that cannot be read" }],
      });
    },
  );

  test("a commit in a single-byte encoding is searched, and is no reason to stop by itself", async () => {
    const { commitBytes, look } = repository();
    commitBytes("encoding ISO-8859-1\n", Buffer.from("Gr\u00fc\u00dfe\n", "latin1"));
    commitBytes("", Buffer.from("Gr\u00fc\u00dfe\n", "latin1"));
    expect(await look()).toEqual({ secrets: [], unsearched: [], references: [] });
    commitBytes("encoding ISO-8859-1\n", Buffer.from(`Gr\u00fc\u00dfe\n\nan @all, fixes #77: ${TOKEN}\n`, "latin1"));
    expect(await look()).toMatchObject({
      secrets: [{ path: "commit message", line: 3 }],
      unsearched: [],
      references: [{ text: "an @all, fixes #77: ***" }],
    });
  });

  test("a secret of the environment is found in the encoding that the commit names", async () => {
    const { commitBytes, look } = repository();
    process.env["PUSHED_TEST_TOKEN"] = "\u043f\u0430\u0440\u043e\u043b\u044c 2026";
    onTestFinished(() => void delete process.env["PUSHED_TEST_TOKEN"]);
    const bytes = Buffer.concat([Buffer.from([0xef, 0xe0, 0xf0, 0xee, 0xeb, 0xfc]), Buffer.from(" 2026\n")]);
    commitBytes("encoding windows-1251\n", bytes);
    expect((await look()).secrets).toMatchObject([{ path: "commit message", kind: "value of PUSHED_TEST_TOKEN" }]);
  });

  test.each([
    ["UTF-16LE with a header that says so", "encoding UTF-16LE\n"],
    ["UTF-16LE without a header", ""],
  ])("a message stored as %s is named as not searched", async (_name, headers) => {
    const { commitBytes, look } = repository();
    commitBytes(headers, Buffer.from(EFFECT, "utf16le"));
    expect((await look()).unsearched).toMatchObject([{ path: "commit message" }]);
  });

  test("content after a NUL in a message is read, and named as not searched", async () => {
    const { commitBytes, look } = repository();
    commitBytes("", `x\0${TOKEN}\ncloses #77\n`);
    expect(await look()).toMatchObject({
      secrets: [{ path: "commit message", kind: "GitHub token" }],
      unsearched: [{ path: "commit message", kind: "not searched: a commit that contains a NUL byte" }],
      references: [{ text: "closes #77" }],
    });
  });

  test("a commit that is too large is named as not searched", async () => {
    const { commitBytes, look, git } = repository();
    commitBytes("", Buffer.concat([Buffer.alloc(65 * 1024 * 1024, "a "), Buffer.from(TOKEN)]));
    const commit = git("rev-parse", "HEAD").trim();
    const kind = "not searched: all that follows the first 64 MB of commits";
    expect((await look()).unsearched).toMatchObject([{ commit, path: "commit message", kind }]);
  });

  test("headers that git does not print are searched, including continuation lines, and are not shown", async () => {
    const { commitBytes, look } = repository();
    commitBytes(`x-note ${TOKEN}\nmergetag object\n of another\n \n ${OLD}\n${TOKEN} x\n`, "work\n");
    const { secrets, unsearched } = await look();
    expect(secrets.map(({ path, kind }) => `${path} ${kind}`)).toEqual([
      "commit header GitHub token",
      "commit header GitLab token",
      "commit header GitHub token",
    ]);
    expect(unsearched).toEqual([]);
    expect(JSON.stringify(secrets)).not.toContain(TOKEN);
  });

  test("a merge of an orphan commit is searched, though log.showRoot is off", async () => {
    const { git, write, commit, look } = repository();
    git("config", "log.showRoot", "false");
    git("switch", "-q", "--orphan", "orphan");
    write("hidden.txt", `${TOKEN}\n`);
    commit("root");
    git("switch", "-q", "work");
    git("merge", "-q", "--allow-unrelated-histories", "-s", "ours", "-m", "merge", "orphan");
    expect((await look()).secrets).toMatchObject([{ path: "hidden.txt", line: 1 }]);
  });

  test("no configuration or attribute of the repository changes what is searched", async () => {
    const { folder, git, write, commit, look } = repository();
    const settings = {
      "color.ui": "always",
      "color.diff": "always",
      "core.attributesFile": join(folder, ".git", "attributes"),
      "core.bigFileThreshold": "1",
      "core.quotePath": "true",
      "diff.algorithm": "patience",
      "diff.colorMoved": "zebra",
      "diff.context": "7",
      "diff.dirstat": "files",
      "diff.external": "true",
      "diff.hide.binary": "true",
      "diff.hide.command": "true",
      "diff.hide.textconv": "true",
      "diff.hide.xfuncname": "^(.*)$",
      "diff.ignoreSubmodules": "all",
      "diff.interHunkContext": "9",
      "diff.mnemonicPrefix": "true",
      "diff.noprefix": "true",
      "diff.orderFile": join(folder, ".git", "order"),
      "diff.relative": "true",
      "diff.renames": "copies",
      "diff.submodule": "diff",
      "diff.suppressBlankEmpty": "true",
      "diff.wordRegex": ".",
      "diff.wsErrorHighlight": "all",
      "format.pretty": "%x00",
      "log.abbrevCommit": "true",
      "log.decorate": "full",
      "log.diffMerges": "off",
      "log.follow": "true",
      "log.showRoot": "false",
      "log.showSignature": "true",
    };
    write(".git/order", "z*\n");
    write(".git/attributes", "* diff=hide -text\n");
    write("plain.txt", "one\n\ntwo\nthree\n");
    write("hidden.bin", "a\n");
    commit("work");
    write(".gitattributes", "*.bin -diff binary\n");
    write("plain.txt", `one\n\ntwo\n${TOKEN}\n`);
    write("hidden.bin", Buffer.from(`a\n\0${TOKEN}\n`));
    write("copy.txt", "one\n\ntwo\nthree\n");
    commit("more");
    git("update-index", "--add", "--cacheinfo", `160000,${git("rev-parse", "HEAD").trim()},${TOKEN}`);
    git("commit", "-qm", "submodule");
    for (const [name, value] of Object.entries(settings)) git("config", name, value);
    const found = (await look()).secrets.map(({ path, line }) => `${path}:${line}`);
    expect(found.toSorted()).toEqual(["***:0", "hidden.bin:2", "plain.txt:4"]);
  });

  /** Writes a commit graph in which a commit has another parent, first (slot 0) or second (slot 1). Returns the file. */
  function forgeParent(params: {
    readonly folder: string;
    readonly git: (...args: readonly string[]) => string;
    readonly commit: string;
    readonly slot: 0 | 1;
    readonly parent: string;
  }): string {
    params.git("commit-graph", "write", "--reachable");
    const file = join(params.folder, ".git", "objects", "info", "commit-graph");
    const graph = readFileSync(file);
    const chunk = (name: string): number => Number(graph.readBigUInt64BE(graph.indexOf(name) + 4));
    const position = (id: string): number => (graph.indexOf(id, chunk("OIDL"), "hex") - chunk("OIDL")) / 20;
    // An entry is the tree (20 bytes), two parents (4 each), generation and date (8).
    const entry = chunk("CDAT") + 36 * position(params.commit);
    graph.writeUInt32BE(position(params.parent), entry + 20 + 4 * params.slot);
    // Git makes the file read-only.
    rmSync(file);
    writeFileSync(file, graph);
    return file;
  }

  test("grafts, replacements and a forged commit graph hide no commit", async () => {
    const { folder, git, write, commit, look } = repository();
    const base = git("rev-parse", "HEAD").trim();
    write("a.txt", `${TOKEN}\n`);
    commit("adds it");
    const adds = git("rev-parse", "HEAD").trim();
    write("a.txt", "gone\n");
    commit("removes it");
    const tip = git("rev-parse", "HEAD").trim();
    const file = forgeParent({ folder, git, commit: tip, slot: 0, parent: base });
    expect(git("rev-list", tip).trim().split("\n")).toEqual([tip, base]);
    expect((await look()).secrets).toMatchObject([{ commit: adds, path: "a.txt", line: 1 }]);
    rmSync(file);
    git("replace", "--graft", tip, base);
    expect((await look()).secrets).toMatchObject([{ commit: adds, path: "a.txt", line: 1 }]);
    write(".git/info/grafts", `${tip} ${base}\n`);
    expect((await look()).secrets).toMatchObject([{ commit: adds, path: "a.txt", line: 1 }]);
  });

  test.each(["graft", "forged commit graph"])(
    "a %s makes a push send no commit that was not searched",
    async (kind) => {
      const { folder, remote, git, write, commit, branch, look } = repository();
      git("switch", "-q", "--orphan", "orphan");
      write("hidden.txt", `${TOKEN}\n`);
      commit("root");
      const hidden = git("rev-parse", "HEAD").trim();
      git("switch", "-q", "work");
      write("a.txt", "a\n");
      commit("work");
      const tip = git("rev-parse", "HEAD").trim();
      if (kind === "graft") write(".git/info/grafts", `${tip} ${git("rev-parse", "main").trim()} ${hidden}\n`);
      else forgeParent({ folder, git, commit: tip, slot: 1, parent: hidden });
      expect(git("rev-list", tip)).toContain(hidden);
      expect((await look()).secrets).toEqual([]);
      expect(await (await branch()).push({ expected: null })).toMatchObject({ kind: "pushed" });
      expect(() => execFileSync("git", ["cat-file", "-e", hidden], { cwd: remote, stdio: "pipe" })).toThrow();
    },
  );
});
