import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type TestWorktree, startTestRunInWorktree } from "@holdfast/test-support/core/toy-worktree";
import { type BenchOutcome, ID, type State, begin, define } from "@holdfast/test-support/core/work-bench";
import type { AgentTask } from "./agent.ts";
import { sendSignal } from "./control-run.ts";
import { type ErrorPolicy, type ErrorRule, defaultErrorPolicy } from "./error-policy.ts";
import type { ProgressEvent } from "./progress.ts";
import type { AgentCall, StageFunction } from "./workflow.ts";

const CALL: AgentCall = { name: "edit", role: "impl", prompt: "do it", model: null, yolo: false };
const OVERLOADED = { kind: "failed", cause: "overload", message: "busy" } as const;
const usage = (inputTokens: number) => ({ inputTokens, outputTokens: 0, microUsd: null });

const calling =
  (call: Partial<AgentCall> = {}): StageFunction<State> =>
  async ({ agent }) => {
    await agent({ ...CALL, ...call });
    return { event: "worked", reason: "did it" };
  };

function rule(given: Partial<ErrorRule>): ErrorRule {
  const any = { id: "mine", causes: null, types: null, pattern: null, exhausted: "wait", action: "retry" } as const;
  return { ...any, retry: { delaysMs: [1_000, 5_000], jitter: 0 }, ...given };
}

/** A test run whose agent answers by its model, under this policy. */
async function start(
  given: Partial<ErrorPolicy>,
  run: (task: AgentTask, root: string) => BenchOutcome,
  capabilities = {},
): Promise<TestWorktree> {
  const toy = await startTestRunInWorktree(run, capabilities);
  Object.assign(toy.adapters, { errorPolicy: { ...defaultErrorPolicy, ...given } });
  return toy;
}

async function verdictsOf({ store }: TestWorktree): Promise<readonly unknown[]> {
  const journal = await Array.fromAsync(store.readJournal({ run: ID }));
  return journal.filter(({ kind }) => kind === "step.failed").map(({ body }) => body["verdict"]);
}

test("another agent takes over from the beginning of the call, in its own session; the usage of each is counted", async () => {
  const seen: unknown[] = [];
  const toy = await start(
    { exhausted: "fallback", retry: { delaysMs: [], jitter: 0 }, fallback: { agents: ["toy:b"], tries: 1 } },
    (task, root) => {
      seen.push([task.model, task.session, task.attempt, existsSync(join(root, "half.txt"))]);
      if (task.model === "b") {
        task.onEvent({ kind: "session", id: "s-b" });
        writeFileSync(join(root, "whole.txt"), "whole");
        return { session: "s-b", usage: usage(5) };
      }
      task.onEvent({ kind: "session", id: "s-a" });
      writeFileSync(join(root, "half.txt"), "half");
      return { ...OVERLOADED, session: "s-a", usage: usage(7) };
    },
    { resume: true },
  );
  const events: ProgressEvent[] = [];
  const workflow = define({ work: calling({ session: "s-stage" }) });
  await begin(toy.adapters, workflow, toy.workspace);
  expect(await toy.go(workflow, { listen: (event) => void events.push(event) })).toMatchObject({ kind: "done" });
  expect(seen).toEqual([
    [null, "s-stage", 1, false],
    ["b", null, 2, false],
  ]);
  expect([toy.file("half.txt"), toy.file("whole.txt")]).toEqual([false, true]);
  const { planes } = (await toy.store.latest(ID)) ?? {};
  expect(planes?.position.budget.spent.tokens).toBe(12);
  expect(planes?.conversation).toMatchObject({ agent: "toy", session: "s-b" });
  expect(planes?.position.stageAttempt.errors).toBeUndefined();
  const verdict = { rule: "provider", action: "fallback", why: "toy:b takes over from toy" };
  expect(await verdictsOf(toy)).toEqual([verdict]);
  expect(events.filter(({ kind }) => kind === "step_failed")).toMatchObject([{ reason: "overload: busy", verdict }]);
  const saved = await toy.store.listCheckpoints({ run: ID, trigger: "error_recovery" });
  expect(saved).toMatchObject([{ name: "edit failed" }]);
});

test("wherever the process dies, no attempt is lost or made under another rule, and the run ends with the same result", async () => {
  const rules = [
    rule({ causes: ["overload"], exhausted: "fallback" }),
    rule({ id: "late", causes: ["crash"], action: "abort" }),
  ];
  const policy = { rules, fallback: { agents: ["toy:b"], tries: 2 } };
  const agent = ({ model, attempt }: AgentTask): BenchOutcome =>
    model === "b" && attempt > 4 ? { kind: "failed", cause: "crash", message: "broken" } : OVERLOADED;
  const expected = [
    ["mine", "retry"],
    ["mine", "retry"],
    ["mine", "fallback"],
    ["mine", "retry"],
    ["late", "abort"],
  ];
  for (let at = 1; ; at += 1) {
    const tries: string[] = [];
    const toy = await start(policy, (task) => {
      tries.push(`${task.model}/${task.attempt}`);
      return agent(task);
    });
    const workflow = define({ work: calling({ changesFiles: false }) });
    await begin(toy.adapters, workflow, toy.workspace);
    const died = await toy.crash(workflow, at, "after");
    if (died === "died")
      expect(await toy.go(workflow).catch((error: unknown) => ({ kind: String(error) }))).toMatchObject({
        kind: expect.stringMatching(/failed|RUN_FAILED|ended at/),
      });
    const state = (await toy.store.getRun(ID))?.state;
    expect(state, `commit ${at}`).toMatchObject({
      kind: "failed",
      reason: "Rule late ends the run: toy, then toy:b failed, 5 times in all (crash): broken",
    });
    const verdicts = await verdictsOf(toy);
    expect(verdicts, `commit ${at}`).toEqual(
      expected.map(([name, action]) => expect.objectContaining({ rule: name, action })),
    );
    // Only the attempt that died with its process is repeated.
    expect([...new Set(tries)], `commit ${at}`).toEqual(["null/1", "null/2", "null/3", "b/4", "b/5"]);
    expect(tries.length, `commit ${at}`).toBeLessThanOrEqual(6);
    if (died === "ended") return;
  }
});

test("killed while it waits, it waits for the rest; never longer than planned, however the clock is set", async () => {
  const toy = await start({ rules: [rule({})] }, ({ attempt }) => (attempt === 1 ? OVERLOADED : {}));
  const workflow = define({ work: calling({ changesFiles: false }) });
  await begin(toy.adapters, workflow, toy.workspace);
  // step.started, step.failed.
  expect(await toy.crash(workflow, 2, "after")).toBe("died");
  toy.pass(400);
  const waits: number[] = [];
  const slow = {
    ...toy.adapters,
    wait: (milliseconds: number) => (waits.push(milliseconds), Promise.reject(new Error("cut"))),
  };
  await expect(toy.go(workflow, { adapters: slow })).rejects.toThrow("cut");
  toy.pass(-3_600_000);
  await expect(toy.go(workflow, { adapters: slow })).rejects.toThrow("cut");
  expect(waits).toEqual([600, 1_000]);
  toy.pass(3_600_000 + 600);
  expect(await toy.go(workflow, { adapters: slow })).toMatchObject({ kind: "done" });
});

test("an abort goes through the workflow's own fatal stage, and a failed run stays failed", async () => {
  const ends: string[] = [];
  const toy = await start({ rules: [rule({ action: "abort" })] }, () => ({ kind: "failed", cause: "crash" }));
  const workflow = define({
    work: calling(),
    fatal: async ({ position }) => {
      ends.push(position.reason ?? "");
      return { event: "fatal", reason: "reported" };
    },
  });
  await begin(toy.adapters, workflow, toy.workspace);
  expect(await toy.go(workflow)).toMatchObject({
    kind: "failed",
    reason: expect.stringContaining("Rule mine ends the run"),
  });
  expect(ends).toEqual([expect.stringContaining("Rule mine ends the run")]);
  await expect(toy.go(workflow)).rejects.toMatchObject({ code: "RUN_FAILED" });
});

test("escalated: a person gets a list of the attempts, and a resume grants new attempts", async () => {
  let broken = true;
  const toy = await start({ rules: [rule({ exhausted: "escalate" })] }, () =>
    broken ? { kind: "failed", cause: "crash", message: "no space", hint: "Free some." } : {},
  );
  const workflow = define({ work: calling() });
  await begin(toy.adapters, workflow, toy.workspace);
  const reason = "Rule mine asks for you: toy failed 3 times (crash): no space. Free some.";
  expect(await toy.go(workflow)).toMatchObject({ kind: "waiting", for: "you", reason });
  broken = false;
  expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
});

test("of two processes that wake a run one succeeds, also when it waits for something else by the time of the second", async () => {
  let calls = 0;
  const toy = await start({}, () => {
    calls += 1;
    const until = new Date(toy.adapters.clock.now() + 60_000).toISOString();
    return calls === 1 ? { kind: "failed", cause: "rate_limit", until } : { kind: "failed", cause: "auth" };
  });
  const workflow = define({ work: calling() });
  await begin(toy.adapters, workflow, toy.workspace);
  const waiting = await toy.go(workflow);
  const wakes = waiting.kind === "waiting" && waiting.until !== null ? waiting.until : "";
  expect(await toy.go(workflow, { wakes }), "too early").toMatchObject({ kind: "waiting", for: "quota" });
  toy.pass(60_000);
  expect(await toy.go(workflow, { wakes })).toMatchObject({ kind: "waiting", for: "you" });
  await expect(toy.go(workflow, { wakes })).rejects.toMatchObject({ code: "LEASE_HELD" });
  expect(calls).toBe(2);
  expect((await toy.kinds()).filter((kind) => kind === "run.continued")).toHaveLength(1);
});

test("stopped while it waits for the next attempt, it makes no further attempt: that would cost, and nothing is running", async () => {
  let tries = 0;
  const toy = await start({}, () => {
    tries += 1;
    return tries === 1 ? OVERLOADED : {};
  });
  const request = { run: ID, kind: "pause", by: "eva", reason: "lunch", now: false } as const;
  let given: Promise<unknown> | undefined;
  const adapters = {
    ...toy.adapters,
    wait: async (_: number, signal: AbortSignal) => {
      given ??= sendSignal({ adapters, request, signal: new AbortController().signal });
      await new Promise<void>((resolve, reject) => {
        const later = setTimeout(resolve, 300_000);
        signal.addEventListener("abort", () => (clearTimeout(later), reject(signal.reason)), { once: true });
      });
    },
  };
  const workflow = define({ work: calling() });
  await begin(adapters, workflow, toy.workspace);
  expect(await toy.go(workflow, { adapters })).toMatchObject({ kind: "paused" });
  expect(tries).toBe(1);
  expect(await given).toMatchObject({ kind: "done" });
  expect(await toy.go(workflow, { adapters: { ...adapters, wait: () => Promise.resolve() } })).toMatchObject({
    kind: "done",
  });
  expect(tries).toBe(2);
  expect(await verdictsOf(toy)).toMatchObject([{ action: "retry" }]);
});

test("an agent that is killed alone continues its session, with its files, and costs no iteration", async () => {
  const seen: unknown[] = [];
  const toy = await start(
    {},
    (task, root) => {
      seen.push([task.session, task.iteration, existsSync(join(root, "half.txt"))]);
      task.onEvent({ kind: "session", id: "s-1" });
      writeFileSync(join(root, "half.txt"), "half");
      return seen.length === 3
        ? { session: "s-1", usage: usage(5) }
        : { kind: "failed", cause: "killed", message: "ended by SIGKILL", session: "s-1", usage: usage(7) };
    },
    { resume: true },
  );
  const workflow = define({ work: calling() });
  await begin(toy.adapters, workflow, toy.workspace);
  expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
  expect(seen).toEqual([
    [null, 0, false],
    ["s-1", 0, true],
    ["s-1", 0, true],
  ]);
  expect((await toy.store.latest(ID))?.planes.position.budget.spent.tokens).toBe(19);
  expect(await verdictsOf(toy)).toMatchObject([{ action: "retry" }, { action: "retry" }]);
});

test("an agent that is killed each time makes the run wait after its attempts, and a resume grants new ones", async () => {
  let calls = 0;
  const policy = { retry: { delaysMs: [1_000, 1_000], jitter: 0 } };
  const toy = await start(policy, () => {
    calls += 1;
    return calls === 4 ? {} : { kind: "failed", cause: "killed", message: "ended by SIGKILL" };
  });
  const workflow = define({ work: calling() });
  await begin(toy.adapters, workflow, toy.workspace);
  expect(await toy.go(workflow)).toMatchObject({ kind: "waiting", reason: expect.stringContaining("SIGKILL") });
  expect(calls).toBe(3);
  expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
});

test.each(["crash", "timeout", "killed", "session_lost"] as const)(
  "a call whose answer is needed is retried after a %s, then the run waits; it is never reported to the stage",
  async (cause) => {
    let calls = 0;
    const policy = { retry: { delaysMs: [1_000], jitter: 0 } };
    const toy = await start(policy, () => {
      calls += 1;
      return calls === 3 ? {} : { kind: "failed", cause, message: "no" };
    });
    const workflow = define({ work: calling({ mustAnswer: true, changesFiles: false }) });
    await begin(toy.adapters, workflow, toy.workspace);
    expect(await toy.go(workflow)).toMatchObject({ kind: "waiting" });
    expect(calls).toBe(2);
    expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
  },
);

test("a call whose answer is needed and that would fail the same way again waits for a person at once", async () => {
  const toy = await start({}, () => ({ kind: "failed", cause: "context_too_long", message: "too long" }));
  const workflow = define({ work: calling({ mustAnswer: true, changesFiles: false }) });
  await begin(toy.adapters, workflow, toy.workspace);
  expect(await toy.go(workflow)).toMatchObject({ kind: "waiting", for: "you" });
  const ignoring = await start({ rules: [rule({ action: "ignore" })] }, () => ({
    kind: "failed",
    cause: "crash",
    message: "no",
  }));
  await begin(ignoring.adapters, workflow, ignoring.workspace);
  expect(await ignoring.go(workflow)).toMatchObject({ kind: "waiting" });
});
