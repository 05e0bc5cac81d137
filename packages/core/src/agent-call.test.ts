import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createGitBranches } from "@holdfast/git/branches";
import { type TestWorktree, sessionsIn, startTestRunInWorktree } from "@holdfast/test-support/core/toy-worktree";
import { ID, TOY_CONFIG, begin, define } from "@holdfast/test-support/core/work-bench";
import type { ResultFile } from "./agent-log.ts";
import { defaultFindingPolicy } from "./findings.ts";
import { applyResumeCheck, checkResume } from "./resume.ts";

const CALL = { role: "worker", prompt: "do", model: null, yolo: true } as const;

/** A call, in a side worktree or in the run's own, had ended, and Holdfast died before the journal had its result. */
async function diedAfterCall(where: "sideWorktree" | "own") {
  let calls = 0;
  const toy = await startTestRunInWorktree((task) => {
    calls += 1;
    writeFileSync(join(task.cwd, "made.txt"), `call ${calls}\n`);
    return { text: `call ${calls}` };
  });
  let kept: string | null = null;
  const answer: ResultFile = {
    read: () => kept,
    write: (text) => void (kept = text),
    remove: () => void (kept = null),
  };
  Object.assign(toy.adapters, { logs: { ...toy.adapters.logs, result: () => answer } });
  const merges: unknown[] = [];
  const roots: string[] = [];
  const workflow = define({
    work: async ({ sideWorktree, agent, mergeSideWorktree }) => {
      if (where === "own") {
        await agent({ ...CALL, name: "work" });
        return { event: "worked", reason: "did it" };
      }
      const side = await sideWorktree("x");
      roots.push(side.root);
      const { commit } = await agent({ ...CALL, name: "work", sideWorktree: side });
      merges.push(await mergeSideWorktree("merge", { sideWorktree: side, commit: commit ?? "" }));
      return { event: "worked", reason: "did it" };
    },
  });
  await begin(toy.adapters, workflow, toy.workspace);
  // Commits: the side worktree is opened, the call starts, the third would be its result.
  expect(await toy.crash(workflow, where === "own" ? 2 : 3, "before")).toBe("died");
  expect(kept).not.toBeNull();
  return { toy, workflow, merges, root: roots[0] ?? "", calls: () => calls };
}

test("a result that is adopted in a side worktree comes with the files of its call", async () => {
  const { toy, workflow, merges, calls } = await diedAfterCall("sideWorktree");
  await expect(toy.go(workflow)).resolves.toMatchObject({ kind: "done" });
  expect(merges).toEqual([{ kind: "merged", files: ["made.txt"] }]);
  expect(toy.tree.read("made.txt")).toBe("call 1\n");
  expect(calls()).toBe(1);
});

test("no result is adopted when the side worktree with its files is gone: the call runs again", async () => {
  const { toy, workflow, merges, root, calls } = await diedAfterCall("sideWorktree");
  rmSync(root, { recursive: true });
  await expect(toy.go(workflow)).resolves.toMatchObject({ kind: "done" });
  expect(merges).toEqual([{ kind: "merged", files: ["made.txt"] }]);
  expect(toy.tree.read("made.txt")).toBe("call 2\n");
  expect(calls()).toBe(2);
  expect((await toy.store.getRun(ID))?.state.kind).toBe("done");
});

test("no result is adopted when the run's own worktree had to be made again: the call runs again", async () => {
  const { toy, workflow, calls } = await diedAfterCall("own");
  await loseWorktree(toy, workflow);
  await expect(toy.go(workflow)).resolves.toMatchObject({ kind: "done" });
  expect(calls()).toBe(2);
  expect(toy.tree.read("made.txt")).toBe("call 2\n");
});

test("a turn that only the agent's own record shows is not adopted either", async () => {
  const record = new Map<string, string>();
  let calls = 0;
  const sessions = sessionsIn(record);
  const toy = await startTestRunInWorktree(
    (task, root) => {
      calls += 1;
      task.onEvent({ kind: "session", id: "s-1" });
      writeFileSync(join(root, "made.txt"), `call ${calls}\n`);
      record.set("s-1", `${task.prompt}>call ${calls}`);
      if (calls === 1) throw new Error("the process dies here");
      return { text: `call ${calls}`, session: "s-1" };
    },
    { resume: true },
    sessions,
  );
  Object.assign(toy.adapters, { logs: { ...toy.adapters.logs, result: memoryAnswer() } });
  const workflow = define({
    work: async ({ agent }) => {
      await agent({ ...CALL, name: "work" });
      return { event: "worked", reason: "did it" };
    },
  });
  await begin(toy.adapters, workflow, toy.workspace);
  expect(await toy.crash(workflow, 3, "before")).toBe("died");
  await loseWorktree(toy, workflow);
  await expect(toy.go(workflow)).resolves.toMatchObject({ kind: "done" });
  expect(calls).toBe(2);
  expect(toy.tree.read("made.txt")).toBe("call 2\n");
});

/** The worktree is deleted, and a resume makes it again from the newest checkpoint. */
async function loseWorktree(toy: TestWorktree, workflow: ReturnType<typeof define>): Promise<void> {
  rmSync(toy.workspace.root, { recursive: true });
  const adapters = { ...toy.adapters, branches: createGitBranches() };
  const planned = await checkResume({
    adapters,
    run: ID,
    current: { definition: workflow.definition, config: TOY_CONFIG },
    policy: defaultFindingPolicy,
    answers: {},
    force: false,
  });
  const lease = await toy.store.takeLease({ run: ID, label: "test" });
  await applyResumeCheck({ adapters, lease, planned });
  await toy.store.releaseLease(lease);
}

function memoryAnswer(): () => ResultFile {
  let kept: string | null = null;
  const file = { read: () => kept, write: (text: string) => void (kept = text), remove: () => void (kept = null) };
  return () => file;
}
