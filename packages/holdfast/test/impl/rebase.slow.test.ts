import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import type { JsonObject } from "@holdfast/core/json";
import { finish, pass } from "./answers.ts";
import { makeBench } from "./bench.ts";
import type { Answer, Bench } from "./bench.ts";

const HEAD = "holdfast/issue-1-bench";

/** CI that moves the base while it checks the first commit: the branch has been pushed by then. */
async function withMovingBase(
  params: {
    readonly answers: readonly Answer[];
    readonly path: string;
    readonly text: string;
    readonly options?: JsonObject;
  },
  use: (bench: Bench) => Promise<void>,
): Promise<void> {
  const options = { waitForCi: true, ci: { rebaseWhenBehind: true }, ...params.options };
  await using bench = await makeBench({ answers: params.answers, options });
  const ci = await bench.moveBaseOnce(params.path, params.text);
  await writeFile(join(bench.root, "remote.git/holdfast-forge/forge.yaml"), `ci: ${JSON.stringify(ci)}\n`);
  await use(bench);
}

describe("the base moves after the branch was pushed", () => {
  test("livelock after a rebase: it is pushed over its own last push, reviewed again, and implemented once", async () => {
    await withMovingBase({ answers: [finish(), pass], path: "other.txt", text: "other\n" }, async (bench) => {
      expect(await bench.work()).toMatchObject({ kind: "done" });
      const trail = (await bench.trail()).join(" ");
      expect(trail).toContain("ci:ci_conflict rebase:rebase_ok review:review_pass pr:pr_pass");
      expect(trail.split("impl:")).toHaveLength(2);
      expect(await bench.pulls()).toBe(1);
      expect(await bench.git("remote", "ls-tree", "--name-only", HEAD)).toBe("greeting.txt\nother.txt\nreadme.md");
      const base = await bench.git("remote", "rev-parse", "main");
      expect(await bench.git("remote", "merge-base", "main", HEAD)).toBe(base);
      expect((await bench.state()).base?.commit).toBe(base);
      expect((await bench.planes()).position).toMatchObject({ iteration: 1, attempts: { rebase: 1 } });
    });
  });

  test("afterRebase: impl, as in the seed: another iteration on the new base, and one pull request", async () => {
    const answers = [finish({ iteration: 1 }), finish({ iteration: 2, text: "hello again\n" }), pass];
    const options = { afterRebase: "impl" };
    await withMovingBase({ answers, path: "other.txt", text: "other\n", options }, async (bench) => {
      expect(await bench.work()).toMatchObject({ kind: "done" });
      expect((await bench.trail()).join(" ")).toContain(
        "rebase:rebase_ok impl:impl_done review:review_pass pr:pr_pass",
      );
      expect(await bench.pulls()).toBe(1);
      expect(await bench.git("remote", "show", `${HEAD}:greeting.txt`)).toBe("hello again");
      const base = await bench.git("remote", "rev-parse", "main");
      expect(await bench.git("remote", "merge-base", "main", HEAD)).toBe(base);
      expect((await bench.planes()).position).toMatchObject({ iteration: 2, attempts: { rebase: 1 } });
    });
  });

  test("conflict state misread: a conflict goes to the agent once, and its resolution is pushed", async () => {
    const resolve: Answer = {
      when: { role: "rebase" },
      edits: [{ do: "write", path: "greeting.txt", text: "hello\nbase\n" }],
    };
    await withMovingBase(
      { answers: [finish(), pass, resolve], path: "greeting.txt", text: "base\n" },
      async (bench) => {
        expect(await bench.work()).toMatchObject({ kind: "done" });
        expect(await bench.trail()).toContain("ci:ci_conflict");
        expect(await bench.git("remote", "show", `${HEAD}:greeting.txt`)).toBe("hello\nbase");
        expect(await bench.git("worktree", "status", "--porcelain")).toBe("");
      },
    );
  });

  test("an unresolved conflict ends the run with its files listed and nothing half-done", async () => {
    const idle: Answer = { when: { role: "rebase" }, reply: "I do not know." };
    await withMovingBase({ answers: [finish(), pass, idle], path: "greeting.txt", text: "base\n" }, async (bench) => {
      const outcome = await bench.work();
      expect(outcome).toMatchObject({ kind: "failed", reason: expect.stringMatching(/greeting\.txt.*marks are left/) });
      expect(await bench.read("greeting.txt")).toBe("hello\n");
      expect(await bench.git("worktree", "status", "--porcelain")).toBe("");
      expect(await bench.git("worktree", "rev-parse", "HEAD")).toBe(await bench.git("remote", "rev-parse", HEAD));
      expect(JSON.parse((await bench.read(".tmp/rebase-iter-1.json")) ?? "{}")).toMatchObject({
        event: "rebase_conflict",
        pass: false,
      });
    });
  });
});

describe("an existing branch", () => {
  /** Another user's commit on the run's branch at the remote. */
  async function pushTheirs(bench: Bench): Promise<void> {
    await bench.git("clone", "checkout", "-q", "-b", "theirs");
    await writeFile(join(bench.root, "clone/theirs.txt"), "theirs\n");
    await bench.git("clone", "add", "-A");
    await bench.git("clone", "commit", "-qm", "theirs");
    await bench.git("clone", "push", "-q", "origin", `theirs:${HEAD}`);
  }

  test("one that conflicts with its base ends in setup, with the files named and nothing changed", async () => {
    await using bench = await makeBench({ answers: [finish(), pass] });
    await pushTheirs(bench);
    await bench.git("clone", "checkout", "-q", "main");
    await promisify(execFile)("sh", ["-c", await bench.moveBaseOnce("theirs.txt", "base\n")]);
    const theirs = await bench.git("remote", "rev-parse", HEAD);
    expect(await bench.work()).toMatchObject({ kind: "waiting", for: "you" });
    await bench.answer("theirs");
    const reason = expect.stringMatching(/does not go onto .* without conflicts in theirs\.txt; nothing was changed/);
    expect(await bench.work()).toMatchObject({ kind: "failed", reason });
    expect(await bench.calls("agent")).toBe(0);
    expect(await bench.git("remote", "rev-parse", HEAD)).toBe(theirs);
    expect(await bench.git("worktree", "status", "--porcelain")).toBe("");
  });

  test("existing pull request not adopted: after the answer to build on it, the run keeps its commits and opens no other one", async () => {
    await using bench = await makeBench({ answers: [finish(), pass] });
    await pushTheirs(bench);
    const words = { title: "By hand", body: "See #1.", draft: false, key: "by-hand" };
    const made = await bench.forge.createPullRequest({ ...words, head: HEAD, base: "main" });
    const theirs = await bench.git("clone", "rev-parse", "theirs");
    expect(await bench.work()).toMatchObject({ kind: "waiting", for: "you", reason: expect.stringContaining(theirs) });
    expect(await bench.calls("agent")).toBe(0);
    await bench.answer("theirs");
    expect(await bench.work()).toMatchObject({ kind: "done" });
    expect(await bench.pulls()).toBe(1);
    expect((await bench.state()).pullRequest?.number).toBe(made.number);
    const pull = await bench.forge.getPullRequest(made.number);
    expect(pull).toMatchObject({ title: "By hand", body: expect.stringMatching(/See #1\.[^]*Closes #1/) });
    expect(await bench.git("remote", "ls-tree", "--name-only", HEAD)).toBe("greeting.txt\nreadme.md\ntheirs.txt");
  });
});
