import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { join } from "node:path";
import type { Adapters } from "@holdfast/core/adapters";
import { defineWorkflow } from "@holdfast/core/workflow";
import { createBenchAgent } from "@holdfast/test-support/core/work-bench";
import { createTestRepository } from "@holdfast/test-support/git/repository";
import { startProxy } from "@holdfast/test-support/postgres-proxy";
import { postgresMissing, sharedPostgres } from "@holdfast/test-support/postgres-server";
import { scratchDirectory } from "@holdfast/test-support/scratch-directory";
import { expect, onTestFinished, test, vi } from "vitest";
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

test("a run of one step on PostgreSQL asks the server seven times", async ({ skip }) => {
  const missing = postgresMissing();
  skip(missing !== null, missing ?? "");
  const url = (await sharedPostgres()).url();
  const proxy = await startProxy(url, onTestFinished);
  // Heartbeats and the poll for signals would ask more, on a slow machine.
  vi.useFakeTimers({ toFake: ["setInterval"] });
  onTestFinished(() => void vi.useRealTimers());
  await using holdfast = await openHoldfast({ cwd: scratchDirectory(onTestFinished), store: proxy.url(url) });
  const start = async (id: string) => await holdfast.start({ workflow: oneStep, work: { kind: "none" }, id });
  await start("first");
  proxy.cut({ statement: 0, when: "after", stay: false });
  expect(await start("second")).toMatchObject({ outcome: { kind: "done", reason: "hello" } });
  // Whether the id is free, twice because it ends its transaction; three to create the run; its step; its end.
  expect(proxy.asked()).toBe(7);
});

const CALL = { role: "impl", prompt: "do it", model: null, yolo: false, changesFiles: false };

/** Calls its agent before and after a question. */
const threeCalls = defineWorkflow({
  name: "three-calls",
  initial: "work",
  stages: {
    work: async ({ agent, decide }) => {
      await agent({ ...CALL, name: "one" });
      await decide({ name: "look", question: "Continue?", options: ["yes"] });
      await agent({ ...CALL, name: "two" });
      await agent({ ...CALL, name: "three" });
      return { event: "worked", reason: "all three" };
    },
  },
  transitions: { work: { worked: "done" } },
  ends: { done: "done" },
  initialState: () => ({}),
});

test("the library refuses a limit on money with an agent of unknown price, and creates no run", async () => {
  const cwd = scratchDirectory(onTestFinished);
  await using holdfast = await openHoldfast({ cwd, store: join(cwd, "store") });
  const work = { kind: "none" } as const;
  const start = holdfast.start({ workflow: threeCalls, work, agent: "command:cat", limit: { microUsd: 1 } });
  await expect(start).rejects.toMatchObject({ code: "NEEDS_DECISION", hint: expect.stringContaining("prices: {") });
  expect(await holdfast.listRuns()).toEqual([]);
});

test("the library refuses a limit on tokens below what a call of an agent that never reports them counts as", async () => {
  const repository = createTestRepository();
  onTestFinished(() => repository.dispose());
  repository.git("commit", "--quiet", "--allow-empty", "--message", "first");
  await using holdfast = await openHoldfast({ cwd: repository.root, assumedTokens: 200 });
  const given = { workflow: threeCalls, work: { kind: "none" }, agent: "command:cat" } as const;
  await expect(holdfast.start({ ...given, limit: { tokens: 199 } })).rejects.toMatchObject({
    code: "NEEDS_DECISION",
    message: expect.stringContaining("limit of 199 tokens"),
    hint: expect.stringContaining("--max-tokens 200"),
  });
  expect(await holdfast.listRuns()).toEqual([]);
  const { run, outcome } = await holdfast.start({ ...given, limit: { tokens: 200 } });
  expect(outcome).toMatchObject({ kind: "waiting", for: "you" });
  await expect(holdfast.resume({ run, workflow: threeCalls, limit: { tokens: 100 } })).rejects.toMatchObject({
    code: "NEEDS_DECISION",
  });
  // The first call counts as 200 tokens, so the second one does not fit.
  await holdfast.work.approve({ run, answer: "yes", by: "tester" });
  expect((await holdfast.resume({ run, workflow: threeCalls })).outcome).toMatchObject({ for: "budget" });
  const calls = (await holdfast.store.latest(run))?.planes.position.budget.spent.uncounted;
  expect(calls).toBe(1);
});

test("a resume that raised a limit can be repeated after the run is done; another limit is refused", async () => {
  const repository = createTestRepository();
  onTestFinished(() => repository.dispose());
  repository.git("commit", "--quiet", "--allow-empty", "--message", "first");
  const counting = createBenchAgent("counting", () => ({ usage: { inputTokens: 4, outputTokens: 0, microUsd: 1 } }));
  const adapters = (given: Adapters): Adapters => ({ ...given, agent: () => counting });
  await using holdfast = await openHoldfast({ cwd: repository.root, adapters });
  const given = { workflow: threeCalls, work: { kind: "none" }, agent: "counting" } as const;
  const { run } = await holdfast.start({ ...given, limit: { tokens: 5 } });
  await holdfast.work.approve({ run, answer: "yes", by: "tester" });
  expect((await holdfast.resume({ run, workflow: threeCalls })).outcome).toMatchObject({ for: "budget" });
  const resume = { run, workflow: threeCalls, limit: { tokens: 500 } };
  for (const time of ["first", "second"])
    expect({ time, ...(await holdfast.resume(resume)).outcome }).toMatchObject({ time, kind: "done" });
  await expect(holdfast.resume({ ...resume, limit: { tokens: 600 } })).rejects.toMatchObject({
    code: "USAGE",
    message: expect.stringContaining("is done, so --max-tokens would change nothing"),
  });
});

test("a fork starts with the usage of its parent up to the fork, and each counts its own after that", async () => {
  const repository = createTestRepository();
  onTestFinished(() => repository.dispose());
  repository.git("commit", "--quiet", "--allow-empty", "--message", "first");
  const usage = { inputTokens: 4, outputTokens: 0, microUsd: 1 };
  const counting = createBenchAgent("counting", () => ({ usage }));
  const adapters = (given: Adapters): Adapters => ({ ...given, agent: () => counting });
  await using holdfast = await openHoldfast({ cwd: repository.root, adapters });
  const spent = async (run: string) => (await holdfast.store.latest(run))?.planes.position.budget.spent.tokens;
  const given = { workflow: threeCalls, work: { kind: "none" }, agent: "command:cat" } as const;
  await holdfast.start({ ...given, id: "first", limit: { tokens: 8 } });
  {
    await using handle = await holdfast.run("first");
    await handle.save({});
    await handle.fork({ sequence: (await handle.latest())?.sequence ?? 0, id: "second" });
  }
  expect([await spent("first"), await spent("second")]).toEqual([4, 4]);
  for (const run of ["first", "second"]) {
    if (run === "second") await holdfast.resume({ run, workflow: threeCalls });
    await holdfast.work.approve({ run, answer: "yes", by: "tester" });
    const { outcome } = await holdfast.resume({ run, workflow: threeCalls });
    expect(outcome).toMatchObject({ kind: "waiting", for: "budget" });
    expect([await spent("first"), await spent("second")]).toEqual([8, run === "first" ? 4 : 8]);
  }
});

test("a run saved by hand is not resumed, and the error asks for no workflow", async () => {
  await using holdfast = await openHoldfast({ cwd: scratchDirectory(onTestFinished), store: "store" });
  {
    await using run = await holdfast.createRun({ id: "by-hand" });
    await run.save({ values: {} });
  }
  await expect(holdfast.resume({ run: "by-hand" })).rejects.toMatchObject({
    code: "NOTHING_TO_RESUME",
    message: "Run by-hand was saved by hand: no workflow executes it",
  });
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

test("a run may be closed after its store, whose end has released the lease", async () => {
  const store = join(scratchDirectory(onTestFinished), "store");
  const first = await openHoldfast({ store });
  const run = await first.createRun({ id: "r" });
  await run.save({ values: { page: 1 } });
  await first.close();
  await run.close();
  await run.close();
  await using second = await openHoldfast({ store });
  expect(await (await second.run("r")).holder()).toBeUndefined();
});

test("runs that were saved by hand are compared by their values", async () => {
  const store = scratchDirectory(onTestFinished);
  await using holdfast = await openHoldfast({ cwd: store, store, create: true });
  for (const [id, count] of [
    ["one", 1],
    ["two", 2],
  ] as const)
    await (await holdfast.createRun({ id, workspace: "none" })).save({ values: { count, same: true } });
  const { pairs } = await holdfast.compare(["one", "two"]);
  expect(pairs).toMatchObject([{ a: "one@1", b: "two@1", values: [{ path: "/count", from: 1, to: 2 }] }]);
});
