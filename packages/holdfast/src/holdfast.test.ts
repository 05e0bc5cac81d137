import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { join } from "node:path";
import { defineWorkflow } from "@holdfast/core/workflow";
import { createTestRepository } from "@holdfast/test-support/git/repository";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { expect, onTestFinished, test } from "vitest";
import { openHoldfast } from "./open.ts";

const oneStep = defineWorkflow({
  name: "one-step",
  initial: "work",
  stages: {
    work: async (context) => ({ event: "worked", reason: await context.step("greet", () => "hello") }),
  },
  transitions: { work: { worked: "done" } },
  ends: { done: "done" },
  initialState: () => ({}),
});

test("a workflow without repository, agent and forge starts no process from open to close", async () => {
  expect(await countedRun(scratchDirectory(onTestFinished))).toBe(0);
});

test("in a repository the count sees git", async () => {
  const repository = createTestRepository();
  onTestFinished(() => repository.dispose());
  expect(await countedRun(repository.root)).toBeGreaterThan(0);
});

/** Runs the workflow in this folder and returns the number of processes that were started. */
async function countedRun(cwd: string): Promise<number> {
  const started = countProcesses();
  await using holdfast = await openHoldfast({ cwd, store: join(scratchDirectory(onTestFinished), "store") });
  const { outcome } = await holdfast.start({
    workflow: oneStep,
    work: { kind: "none" },
    id: "one",
    workspace: "none",
  });
  expect(outcome).toMatchObject({ kind: "done", reason: "hello" });
  await holdfast.close();
  return started();
}

function countProcesses(): () => number {
  let count = 0;
  const add = (): void => {
    count += 1;
  };
  subscribe("child_process", add);
  onTestFinished(() => void unsubscribe("child_process", add));
  return () => count;
}
