import { execFile } from "node:child_process";
import { readFileSync, readdirSync } from "node:fs";
import { mkdir, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { GOOD, workSuite } from "@holdfast/test-support/cli-repositories";

const work = workSuite();

describe("the remote is used, whatever is checked out here", () => {
  test("with one commit only: a run starts, and continues", async () => {
    const place = await work.begin();
    await place.git("checkout", "-q", "--detach");
    const agent = await place.agent([{ ...GOOD, fail: { cause: "auth", message: "no key", times: 1 } }]);
    expect(await place.run("run", "1", "--no-review", "--agent", agent)).toMatchObject({ status: 4 });
    await place.agent([GOOD]);
    const done = await place.run("resume", "1");
    expect(done.status, done.stdout + done.stderr).toBe(0);
  });

  test("a relative remote is resolved from the main worktree, in the run's worktree too", async () => {
    const place = await work.begin();
    await place.git("remote", "set-url", "origin", "../shop.git");
    const agent = await place.agent([GOOD]);
    const done = await place.run("run", "1", "--no-review", "--agent", agent);
    expect(done.status, done.stdout + done.stderr).toBe(0);
    expect(await place.git("ls-remote", place.remote, "refs/heads/holdfast/issue-1")).not.toBe("");
  });

  test("a repository and a temporary folder reached through links, as /tmp is on macOS", async () => {
    const place = await work.begin();
    const parent = dirname(place.clone);
    const link = `${parent}-link`;
    await symlink(parent, link);
    await mkdir(join(parent, "tmp"));
    const shop = join(link, "shop");
    const env = { TMPDIR: join(link, "tmp"), PWD: shop };
    const linked = (...args: readonly string[]) => place.holdfast.run(args, { cwd: shop, env });
    const agent = await place.agent([{ ...GOOD, fail: { cause: "auth", message: "no key", times: 1 } }]);
    expect(await linked("run", "1", "--no-review", "--agent", agent)).toMatchObject({ status: 4 });
    const statuses = await Promise.all([
      linked("status", "1"),
      place.run("status", "1"),
      place.run("--cwd", shop, "status", "1"),
    ]);
    expect(statuses.map(({ status }) => status)).toEqual([0, 0, 0]);
    expect(new Set(statuses.map(({ stdout }) => stdout)).size, statuses.map(({ stdout }) => stdout).join()).toBe(1);
    await place.agent([GOOD]);
    const done = await linked("resume", "1");
    expect(done.status, done.stdout + done.stderr).toBe(0);
    for (const restore of [linked, place.run]) {
      const restored = await restore("restore", "issue-1@2", "--yes");
      expect(restored.status, restored.stdout + restored.stderr).toBe(0);
    }
    expect((await place.json("list")).runs).toHaveLength(1);
  });

  test("a clone of another checkout: a dry run of a task shows the issue, the push and the earlier run", async () => {
    const place = await work.begin();
    const copy = `${place.clone}.copy`;
    await promisify(execFile)("git", ["clone", "-q", place.clone, copy]);
    const agent = await place.agent([{ ...GOOD, fail: { cause: "auth", message: "no key", times: 1 } }]);
    const words = ["--cwd", copy, "run", "--task", "Answer", "--no-review", "--agent", agent];
    const first = await place.run(...words, "--dry-run");
    expect(first.status, first.stderr).toBe(0);
    expect(first.stdout).toMatch(/^Would start issue-N /);
    expect(first.stdout).toMatch(/^issue +files a new one with this text; N is its number$/m);
    expect(first.stdout).toMatch(/^branch +holdfast\/issue-N$/m);
    expect(first.stdout).toMatch(/^result +pushes the branch and opens a pull request$/m);
    const notice = `The run pushes its branch to ${place.clone}, another checkout on this machine`;
    expect(first.stderr.replaceAll(/\s+/g, " ")).toContain(notice);
    const document = await place.holdfast.run([...words, "--dry-run", "--json"], { cwd: copy });
    expect(JSON.parse(document.stdout).plan).toMatchObject({ id: "issue-N", filesIssue: true });
    expect(readdirSync(join(place.clone, ".git"))).not.toContain("holdfast-forge");
    const waiting = await place.run(...words);
    expect(waiting.stdout.replaceAll(/\s+/g, " ")).toContain(notice);
    const unfinished = await place.run(...words, "--dry-run");
    expect(unfinished.status).toBe(4);
    expect(unfinished.stderr).toContain("This work already has a run: issue-1");
    await place.agent([GOOD]);
    const done = await place.run("--cwd", copy, "resume", "issue-1");
    expect(done.status, done.stdout + done.stderr).toBe(0);
    expect((await place.run(...words, "--dry-run")).stdout).toContain("Nothing would be done: issue-1 has ended");
  });

  test("a bare repository", async () => {
    const place = await work.begin();
    const bare = `${place.clone}.bare`;
    await promisify(execFile)("git", ["clone", "-q", "--bare", place.remote, bare]);
    await place.git("-C", bare, "config", "user.name", "A");
    await place.git("-C", bare, "config", "user.email", "a@example.com");
    const agent = await place.agent([GOOD]);
    const done = await place.run("--cwd", bare, "run", "1", "--no-review", "--agent", agent);
    expect(done.status, done.stdout + done.stderr).toBe(0);
  });
});

describe("impl without a forge ends with a branch to push", () => {
  test("without a remote, after a failed call and with CI to wait for", async () => {
    const place = await work.begin();
    await place.git("remote", "remove", "origin");
    const failing = { ...GOOD, fail: { cause: "auth", message: "no key", times: 1 } };
    const agent = await place.agent([failing]);
    const words = ["--task", "Answer the question\nin a file", "--no-review", "--wait-for-ci", "--agent", agent];
    const waiting = await place.run("run", ...words);
    expect(waiting.status, waiting.stdout + waiting.stderr).toBe(4);
    const [{ id }] = (await place.json("list")).runs;
    await place.agent([GOOD]);
    const done = await place.run("resume", id);
    expect(done.status, done.stdout + done.stderr).toBe(0);
    const said = done.stdout.replaceAll(/\s+/g, " ");
    const merge = `git merge holdfast/${id}`;
    expect(said).toContain(`The branch holdfast/${id} is ready. Merge it with: ${merge}`);
    expect(await place.git("show", `holdfast/${id}:answer.txt`)).toBe("42");
    expect(await place.git("log", "-1", "--format=%s", `holdfast/${id}`)).toBe(
      "Task, iteration 1: Answer the question",
    );
    // The proposed command works.
    await promisify(execFile)("sh", ["-c", merge], { cwd: place.clone });
    expect(await place.git("show", "HEAD:answer.txt")).toBe("42");
  });

  test("with a remote at a host that is not known, which does not answer", async () => {
    const place = await work.begin();
    await place.git("remote", "set-url", "origin", "https://code.example.invalid/octo/app.git");
    const words = ["run", "--task", "Answer", "--agent", await place.agent([GOOD, PASSES])];
    const done = await place.run(...words);
    expect(done.status, done.stdout + done.stderr).toBe(0);
    const said = done.stdout.replaceAll(/\s+/g, " ");
    expect(said).toMatch(/is ready\. Push it with: git push -u origin holdfast\/answer-\w+/);
    expect(said).toContain("is not known to be at GitHub or GitLab: the run ends with a branch to push");
    const [{ id }] = (await place.json("list")).runs;
    const tree = join(place.clone, "../shop-worktrees", id, ".tmp");
    expect(readFileSync(join(tree, "task.md"), "utf8")).toContain("# Answer");
    for (const name of readdirSync(tree).filter((each) => /input|output/.test(each)))
      expect(readFileSync(join(tree, name), "utf8"), name).not.toMatch(/#0|issue_no/);
  });
});

const PASSES = { when: { role: "review" }, scores: { faithful: 95, style: 95, docs: 95, corner_cases: 95 } };
