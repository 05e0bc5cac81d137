import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Holdfast } from "../../src/holdfast.ts";
import type { RunReport } from "../../src/start-run.ts";
import { ALL_CHECKPOINTS } from "@holdfast/core/checkpoint";
import { type ErrorPolicy, type ErrorRule, defaultErrorPolicy } from "@holdfast/core/error-policy";
import type { JsonObject } from "@holdfast/core/json";
import { defineWorkflow } from "@holdfast/core/workflow";
import type { AgentTask } from "@holdfast/core/agent";
import { type BenchOutcome, createBenchAgent } from "@holdfast/test-support/core/work-bench";
import { type Scene, loopWorkflow, makeScene, runLoop } from "./recorded-loop.ts";

const RUN = "loop";
const OVERLOADED = { kind: "failed", cause: "overload", message: "busy" } as const;
const usage = (inputTokens: number) => ({ inputTokens, outputTokens: 0, microUsd: 7 });

/** Agents with the test's answers, under this policy; waits take no time. */
async function open(
  scene: Scene,
  run: (task: AgentTask, provider: string) => BenchOutcome,
  policy: Partial<ErrorPolicy> = {},
  capabilities = {},
): Promise<Holdfast> {
  return await scene.open({
    adapters: (adapters) => ({
      ...adapters,
      agent: (provider) => createBenchAgent(`the ${provider}`, (task) => run(task, provider), capabilities),
      errorPolicy: { ...defaultErrorPolicy, ...policy },
      wait: () => Promise.resolve(),
    }),
  });
}

function count(task: AgentTask): BenchOutcome {
  const part = Number(task.env?.["HOLDFAST_PART"] ?? task.iteration);
  writeFileSync(join(task.cwd, "log.txt"), "line\n".repeat(part));
  return { text: `did ${part}`, usage: usage(3) };
}

const half = (task: AgentTask): void => writeFileSync(join(task.cwd, "half.txt"), "half");

async function loop(scene: Scene, holdfast: Holdfast): Promise<RunReport> {
  return await runLoop({ ...scene, agent: "a" }, holdfast, { iterations: 2, mode: "logged" });
}

test("failed attempts, and the agent that took over, are not part of the record of the workflow: the run replays completely", async () => {
  await using scene = await makeScene();
  const tries: string[] = [];
  const holdfast = await open(
    scene,
    (task, provider) => {
      tries.push(`${provider}:${task.model ?? ""}/${task.attempt}`);
      half(task);
      return provider === "b" ? count(task) : { ...OVERLOADED, usage: usage(5) };
    },
    { exhausted: "fallback", retry: { delaysMs: [1], jitter: 0 }, fallback: { agents: ["b:small"], tries: 1 } },
  );
  expect((await loop(scene, holdfast)).outcome).toMatchObject({ kind: "done" });
  expect(tries.slice(0, 3)).toEqual(["a:/1", "a:/2", "b:small/3"]);
  const report = await holdfast.work.replay({ run: RUN, workflow: loopWorkflow(2) });
  expect(report).toMatchObject({ verdict: "identical", divergence: null, outcome: "done" });
  expect(report.to).toBe((await holdfast.store.latest(RUN))?.sequence);
  await holdfast.close();
});

test("a run that a rule ended is replayed to that end", async () => {
  await using scene = await makeScene();
  const rule: ErrorRule = {
    id: "over",
    causes: ["crash"],
    types: null,
    pattern: null,
    action: "abort",
    retry: { delaysMs: [], jitter: 0 },
    exhausted: "wait",
  };
  const holdfast = await open(
    scene,
    (task) => {
      const isBroken = task.env?.["HOLDFAST_PART"] === "2";
      return isBroken ? { kind: "failed", cause: "crash", message: "broken", usage: usage(4) } : count(task);
    },
    { rules: [rule] },
  );
  const { outcome } = await loop(scene, holdfast);
  expect(outcome).toMatchObject({ kind: "failed", reason: expect.stringContaining("Rule over") });
  const report = await holdfast.work.replay({ run: RUN, workflow: loopWorkflow(2) });
  expect(report).toMatchObject({ verdict: "identical", divergence: null, outcome: "failed" });
  await holdfast.close();
});

test("a lost session, and the fresh one that replaced it, replay completely", async () => {
  await using scene = await makeScene();
  let calls = 0;
  const holdfast = await open(
    scene,
    (task) => {
      calls += 1;
      task.onEvent({ kind: "session", id: `s-${calls}` });
      half(task);
      if (calls === 1) return { ...OVERLOADED, session: "s-1", usage: usage(5) };
      if (calls === 2)
        return { kind: "failed", cause: "session_lost", message: "gone", session: "s-1", usage: usage(1) };
      return { ...count(task), session: `s-${calls}` };
    },
    {},
    { resume: true },
  );
  expect((await loop(scene, holdfast)).outcome).toMatchObject({ kind: "done" });
  const report = await holdfast.work.replay({ run: RUN, workflow: loopWorkflow(2) });
  expect(report).toMatchObject({ verdict: "identical", divergence: null, outcome: "done" });
  await holdfast.close();
});

async function ralph(holdfast: Holdfast, options: JsonObject = {}, signal?: AbortSignal): Promise<RunReport> {
  return await holdfast.start({
    ...(signal === undefined ? {} : { signal }),
    workflow: "ralph",
    id: RUN,
    work: { kind: "task", text: "count" },
    agent: "a",
    mode: "logged",
    options: {
      task: "Count",
      until: ["test $(wc -l < log.txt) -ge 4"],
      detection: { stuck: null, oscillation: null, regression: null, burn: null },
      ...options,
    },
  });
}

test("a loop whose limit was raised is replayed with the limit of each time", async () => {
  await using scene = await makeScene();
  const holdfast = await open(scene, count);
  expect((await ralph(holdfast, { maxIterations: 2 })).outcome).toMatchObject({ kind: "failed" });
  await holdfast.work.changeLimits({ run: RUN, limits: { max: 5 } });
  expect((await holdfast.resume({ run: RUN })).outcome).toMatchObject({ kind: "done" });
  const report = await holdfast.work.replay({ run: RUN });
  expect(report).toMatchObject({ verdict: "identical", divergence: null, outcome: "done" });
  expect(report.to).toBe((await holdfast.store.latest(RUN))?.sequence);
  await holdfast.close();
});

test("a loop whose limit was raised while it waited is replayed with the limit of each time", async () => {
  await using scene = await makeScene();
  let calls = 0;
  const holdfast = await open(scene, (task) => {
    calls += 1;
    return calls === 2 ? { kind: "failed", cause: "auth", message: "sign in" } : count(task);
  });
  expect((await ralph(holdfast, { maxIterations: 5 })).outcome).toMatchObject({ kind: "waiting" });
  await holdfast.work.changeLimits({ run: RUN, limits: { max: 6 } });
  expect((await holdfast.resume({ run: RUN })).outcome).toMatchObject({ kind: "done" });
  const report = await holdfast.work.replay({ run: RUN });
  expect(report).toMatchObject({ verdict: "identical", divergence: null, outcome: "done" });
  expect(report.to).toBe((await holdfast.store.latest(RUN))?.sequence);
  await holdfast.close();
});

test("a call that was interrupted after it had cost something: the replay's account is the live one", async () => {
  await using scene = await makeScene();
  const stop = new AbortController();
  let calls = 0;
  const holdfast = await open(scene, (task) => {
    calls += 1;
    if (calls !== 2) return count(task);
    stop.abort();
    return { kind: "failed", cause: "interrupted", message: "stopped", usage: usage(5) };
  });
  expect((await ralph(holdfast, {}, stop.signal)).outcome).toMatchObject({ kind: "interrupted" });
  expect((await holdfast.resume({ run: RUN })).outcome).toMatchObject({ kind: "done" });
  const latest = await holdfast.store.latest(RUN);
  expect(latest?.planes.position.budget.spent).toMatchObject({ tokens: 3 * 4 + 5, microUsd: 7 * 5 });
  const report = await holdfast.work.replay({ run: RUN });
  expect(report).toMatchObject({ verdict: "identical", divergence: null, outcome: "done", to: latest?.sequence });
  await holdfast.close();
});

test("a loop that another agent continued is replayed with each of them", async () => {
  await using scene = await makeScene();
  let calls = 0;
  const holdfast = await open(scene, (task) => {
    calls += 1;
    return calls === 2 ? { kind: "failed", cause: "auth", message: "sign in" } : count(task);
  });
  expect((await ralph(holdfast)).outcome).toMatchObject({ kind: "waiting" });
  expect((await holdfast.resume({ run: RUN, agent: "c" })).outcome).toMatchObject({ kind: "done" });
  const report = await holdfast.work.replay({ run: RUN });
  expect(report).toMatchObject({ verdict: "identical", divergence: null, outcome: "done" });
  await holdfast.close();
});

test("a checkpoint before a risky operation is replayed at its position, whatever the current switches are", async () => {
  await using scene = await makeScene();
  const workflow = defineWorkflow<{ readonly left: number }>({
    name: "risky",
    initial: "work",
    transitions: { work: { again: "work", worked: "done" } },
    ends: { done: "done" },
    initialState: () => ({ left: 1 }),
    reduce: (state) => ({ ...state }),
    stages: {
      work: async ({ step, record, workspace, state }) => {
        const edit = (name: string): null => {
          writeFileSync(join(workspace?.root ?? "", name), `${state.left}`);
          return null;
        };
        await step("edit", () => edit("a.txt"), { changesFiles: true });
        await record("learnt", 1);
        await step("risky", () => edit("b.txt"), { changesFiles: true, risk: "rebase" });
        await step("after", () => 2);
        return { event: state.left > 0 ? "again" : "worked", reason: "did it", state: { left: state.left - 1 } };
      },
    },
  });
  const work = { kind: "task", text: "t" } as const;
  for (const then of [true, false]) {
    const id = `risky-${then}`;
    const at = (beforeRisky: boolean) => scene.open({ checkpoints: { ...ALL_CHECKPOINTS, beforeRisky } });
    const first = await at(then);
    await first.start({ workflow, work, id, agent: scene.agent, mode: "logged" });
    await first.close();
    const later = await at(!then);
    const report = await later.work.replay({ run: id, workflow });
    const latest = await later.store.latest(id);
    expect(report).toMatchObject({ verdict: "identical", divergence: null, to: latest?.sequence, filled: 0 });
    expect(report.compared).toBe((latest?.sequence ?? 0) - 1);
    await later.close();
  }
});
