import { execFileSync, spawn } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { startTestRunInWorktree } from "@holdfast/test-support/core/toy-worktree";
import { ID, begin, define } from "@holdfast/test-support/core/work-bench";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";

const CALL = { role: "worker", prompt: "do", model: null, yolo: true } as const;
const DONE = { event: "worked", reason: "did it" } as const;

type Toy = Awaited<ReturnType<typeof startTestRunInWorktree>>;

function git(root: string, ...args: readonly string[]): string {
  const who = ["-c", "user.name=A", "-c", "user.email=a@example.com"];
  return execFileSync("git", [...who, ...args], { cwd: root, encoding: "utf8", stdio: "pipe" }).trim();
}

async function notesOf({ store }: Toy): Promise<readonly string[]> {
  const entries = await Array.fromAsync(store.readJournal({ run: ID }));
  return entries.filter(({ kind }) => kind === "note").map(({ body }) => String(body["text"]));
}

const LOOKS = define({
  work: async (context) => {
    await context.agent({ ...CALL, name: "look", changesFiles: false });
    return DONE;
  },
});

const USES_SIDE_WORKTREE = define({
  work: async (context) => {
    const sideWorktree = await context.sideWorktree("x");
    await context.agent({ ...CALL, name: "work x", sideWorktree });
    return DONE;
  },
});

test("an agent that commits existing uncommitted files has its commit reverted once, and the others are not blamed", async () => {
  const heads: string[] = [];
  const toy = await startTestRunInWorktree((task, root) => {
    heads.push(git(root, "rev-parse", "HEAD"));
    if (task.role === "one") {
      git(root, "add", "-A");
      git(root, "commit", "-qm", "stray");
    }
    return { text: "ok" };
  });
  const write = (): true => {
    writeFileSync(join(toy.workspace.root, "w.txt"), "work\n");
    return true;
  };
  const workflow = define({
    work: async (context) => {
      await context.step("write", write, { changesFiles: true });
      for (const role of ["one", "two", "three"])
        await context.agent({ ...CALL, name: role, role, changesFiles: false });
      return DONE;
    },
  });
  const tip = git(toy.workspace.root, "rev-parse", "HEAD");
  await begin(toy.adapters, workflow, toy.workspace);
  await toy.go(workflow);
  expect([...heads, git(toy.workspace.root, "rev-parse", "HEAD")]).toEqual([tip, tip, tip, tip]);
  expect(existsSync(join(toy.workspace.root, "w.txt"))).toBe(true);
  const saved = await toy.store.listCheckpoints({ run: ID, limit: 30 });
  expect(saved.filter(({ trigger }) => trigger === "error_recovery")).toHaveLength(1);
});

test("killed when a checkpoint held unexpected changes: the resume reverts and reports them", async () => {
  let save = (): Promise<void> => Promise.resolve();
  let calls = 0;
  const toy = await startTestRunInWorktree(async (_task, root) => {
    calls += 1;
    if (calls === 1) {
      writeFileSync(join(root, "stray.txt"), "stray\n");
      await save();
    }
    return { text: "ok" };
  });
  const workflow = define({
    work: async (context) => {
      save = () => context.checkpoint({ trigger: "manual" });
      const sideWorktree = await context.sideWorktree("x");
      await context.agent({ ...CALL, name: "work x", sideWorktree });
      return DONE;
    },
  });
  await begin(toy.adapters, workflow, toy.workspace);
  expect(await toy.crash(workflow, 3, "after")).toBe("died");
  await toy.go(workflow);
  expect(existsSync(join(toy.workspace.root, "stray.txt"))).toBe(false);
  expect((await notesOf(toy)).join("\n")).toContain("stray.txt");
});

// Commit 3 is `restore.started`: a resume finishes that restore like any other; see restore.slow.test.ts.
const COMMITS = [2, 4, 5, 6, 7].map((at) => ({ name: `${at}`, at }));
test.each(sampleBySeed(COMMITS, 2))("killed after commit $at of the revert: reverted, and reported", async ({ at }) => {
  let calls = 0;
  const toy = await startTestRunInWorktree((_task, root) => {
    calls += 1;
    if (calls === 1) writeFileSync(join(root, "stray.txt"), "stray\n");
    return { text: "ok" };
  });
  await begin(toy.adapters, LOOKS, toy.workspace);
  await toy.crash(LOOKS, at, "after");
  await toy.go(LOOKS);
  expect(existsSync(join(toy.workspace.root, "stray.txt"))).toBe(false);
  expect((await notesOf(toy)).join("\n")).toContain("stray.txt");
});

describe("a process keeps writing there", () => {
  function keepWriting({ workspace }: Toy): () => void {
    const line = "while :; do date +%N >> dev.log; sleep 0.005; done";
    const writer = spawn("sh", ["-c", line], { cwd: workspace.root, stdio: "ignore" });
    const stop = (): void => void writer.kill("SIGKILL");
    onTestFinished(stop);
    return stop;
  }

  test("a call that ends is recorded as well, and not repeated", async () => {
    let calls = 0;
    const toy = await startTestRunInWorktree(() => {
      calls += 1;
      return { text: "ok" };
    });
    await begin(toy.adapters, USES_SIDE_WORKTREE, toy.workspace);
    const stop = keepWriting(toy);
    expect(await toy.go(USES_SIDE_WORKTREE)).toMatchObject({ kind: "done" });
    stop();
    expect(calls).toBe(1);
  });

  test("stopped work is saved as stopped", async () => {
    const stop = new AbortController();
    const toy = await startTestRunInWorktree(async (task) => {
      setTimeout(() => stop.abort(), 50);
      await new Promise<void>((resolve) => task.signal.addEventListener("abort", () => resolve()));
      throw new Error("ended");
    });
    await begin(toy.adapters, USES_SIDE_WORKTREE, toy.workspace);
    keepWriting(toy);
    expect(await toy.go(USES_SIDE_WORKTREE, { signal: stop.signal })).toMatchObject({ kind: "interrupted" });
  });
});
