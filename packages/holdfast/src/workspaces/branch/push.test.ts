import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join, relative } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { PushResult, Refusal } from "../../ports/branch.ts";
import { countGit } from "../../testing/counted-git.ts";
import { createBranchScene, type BranchScene } from "../../testing/scenes/branch-scene.ts";

const AT = "2026-03-01T12:00:00Z";

let scene: BranchScene;
beforeEach(async () => {
  scene = await createBranchScene();
  await work("two\n");
});
afterEach(() => scene.dispose());

test("a branch is opened with one look at its repository", async () => {
  const { calls } = countGit();
  await scene.reopen();
  expect(calls().filter((call) => call.includes("rev-parse") && call.includes("bare"))).toHaveLength(1);
});

describe("push", () => {
  test("the first one is new, the same again is up to date, the next goes on top", async () => {
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

  test("a relative remote starts at the main worktree", async () => {
    const { user, bare, branch } = scene;
    user.git("remote", "set-url", "origin", relative(user.root, bare.root));
    expect(await branch.fetch()).toEqual({ kind: "fetched" });
    expect(await branch.push({ expected: null })).toMatchObject({ kind: "pushed" });
    expect(await branch.lookUpRemote(branch.name)).toEqual({ kind: "known", commit: scene.tip() });
  });

  test("a branch that is gone from the remote is not there after a fetch, keeps its tracking ref, and can be pushed again", async () => {
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

  test("no livelock after a rebase: the next push is forced over the last pushed commit, and over nothing else", async () => {
    await scene.branch.push({ expected: null });
    const pushed = scene.tip();
    const onto = scene.moveBase({ "c.txt": "base\n" });
    await scene.branch.fetch();
    expect(await scene.branch.rebase({ onto, at: AT })).toMatchObject({ kind: "rebased", from: pushed });
    // The plain push that the seed system tries again and again is refused each time:
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

    // Somebody else pushed meanwhile: never forced over.
    const other = pushByOther("theirs\n");
    const next = scene.moveBase({ "d.txt": "base\n" });
    await scene.branch.rebase({ onto: next, at: AT });
    expect(refusal(await scene.branch.push({ expected: again.kind === "up_to_date" ? again.commit : "" })).cause).toBe(
      "stale_lease",
    );
    expect(remoteTip()).toBe(other);
  });

  test("pre-push hooks run and are told what git tells them", async () => {
    const seen = join(scene.user.root, "..", "seen");
    hook(scene.user.path(".git"), "pre-push", `cat > '${seen}'; echo "$1" >> '${seen}'`);
    await scene.branch.push({ expected: null });
    const text = scene.user.read("../seen");
    expect(text).toContain(`refs/heads/holdfast/issue-42 ${scene.tip()} refs/heads/holdfast/issue-42`);
    expect(text).toContain("origin");
  });
});

describe("a refusal is told by its real cause, though every one of them prints 'failed to push some refs'", () => {
  test("non_fast_forward: nothing of ours was there, somebody else's commits are", async () => {
    pushByOther("theirs\n");
    const { cause, message } = refusal(await scene.branch.push({ expected: null }));
    expect(cause).toBe("non_fast_forward");
    expect(message).not.toContain("failed to push some refs");
  });

  test("stale_lease: it was there and is another one now", async () => {
    await scene.branch.push({ expected: null });
    const pushed = scene.tip();
    pushByOther("theirs\n");
    await work("three\n");
    expect(refusal(await scene.branch.push({ expected: pushed })).cause).toBe("stale_lease");
  });

  test("stale_lease: nothing was expected and an older commit of ours is there", async () => {
    await scene.branch.push({ expected: null });
    await work("three\n");
    expect(refusal(await scene.branch.push({ expected: null })).cause).toBe("stale_lease");
  });

  test("hook: pre-push here, though the remote is never asked", async () => {
    hook(scene.user.path(".git"), "pre-push", "echo 'lint: 3 errors' >&2; exit 3");
    const { cause, message } = refusal(await scene.branch.push({ expected: null }));
    expect(cause).toBe("local_hook");
    expect(message).toContain("pre-push");
    expect(message).toContain("lint: 3 errors");
  });

  test.each(["pre-receive", "update"])("hook: %s there", async (name) => {
    hook(scene.bare.root, name, "echo 'no non-fast-forward jokes today' >&2; exit 1");
    const { cause, message } = refusal(await scene.branch.push({ expected: null }));
    expect(cause).toBe("hook");
    expect(message).toContain("no non-fast-forward jokes today");
  });

  test("protected: the remote takes no forced push at all", async () => {
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

  test("auth: ssh is not let in; the token in the URL is not told", async () => {
    scene.user.git(
      "config",
      "core.sshCommand",
      "sh -c 'echo \"git@host: Permission denied (publickey).\" >&2; exit 255'",
    );
    scene.user.git("remote", "set-url", "origin", "ssh://git@host.invalid/x.git");
    expect(refusal(await scene.branch.push({ expected: null })).cause).toBe("auth");
    expect(await scene.branch.lookUpRemote("main")).toMatchObject({ kind: "unknown" });
  });

  test("auth: a server that wants a password nobody can type", async () => {
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

  test("network: nobody listens there; a look-up is unknown, never 'absent'", async () => {
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

  test("other: what nobody foresaw stays itself", async () => {
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

function refusal(result: PushResult): Refusal {
  if (result.kind !== "refused") throw new Error(`expected a refusal, got ${JSON.stringify(result)}`);
  return result.refusal;
}
