import { expect, test } from "vitest";
import { HoldfastError } from "@holdfast/platform/error";
import { sampleBySeed } from "@holdfast/test-support/sample-by-seed";
import { type Bench, inTurn, makeBench, writes } from "./bench.ts";

/** Prints as a test runner does, so that some answers are better than others. */
const GRADED = {
  until: 'n=$(cat answer.txt); echo "Tests  $((10 - n)) failed | $n passed (10)"; test $n = 10',
  detection: { stuck: null, oscillation: null },
};

test.concurrent("the limit is its own end: it holds on resume, the files are listed, and the loop continues when it is raised", async () => {
  await using bench = await makeBench({
    answers: inTurn("3\n", "7\n", "5\n", "10\n"),
    options: { ...GRADED, maxIterations: 3 },
  });
  expect(await bench.work()).toMatchObject({
    kind: "failed",
    reason: expect.stringMatching(/3 iterations, which is the limit.*those of iteration 2, the best/),
  });
  expect((await bench.planes()).position).toMatchObject({ stage: "limit", iteration: 3 });
  expect(await bench.read("answer.txt")).toBe("7\n");
  expect(await bench.git("worktree", "status", "--porcelain")).toBe("");
  expect(await bench.git("worktree", "log", "-1", "--format=%s")).toMatch(/^Back to iteration 2, the best so far/);
  expect(await bench.read(".tmp/ralph-report.md")).toMatch(/Iteration 2 failed: 3 of 10 tests fail/);
  await expect(bench.work()).rejects.toMatchObject({ code: "RUN_FAILED", hint: expect.stringContaining("--max N") });
  await expect(bench.raise(3)).rejects.toThrow(/iteration 3 already/);
  await bench.raise(4);
  expect(await bench.work()).toMatchObject({ kind: "done" });
  expect((await bench.state()).iterations.map(({ number }) => number)).toEqual([1, 2, 3, 4]);
  expect(await bench.calls()).toBe(4);

  // It is done: a new limit or check would be stored, and nothing would be executed.
  const before = (await bench.journal()).length;
  for (const limits of [{ max: 9 }, { until: ["true"] }])
    await expect(bench.work({ limits })).rejects.toMatchObject({
      code: "USAGE",
      hint: expect.stringContaining(`holdfast resume ${bench.run()}@SEQUENCE --force`),
    });
  expect(await bench.work({ limits: { max: 4 } })).toMatchObject({ kind: "done" });
  expect(await bench.journal()).toHaveLength(before);
  // From a checkpoint it is executed again, so the new limit counts.
  const { sequence = 0 } = (await (await bench.holdfast.run(bench.run())).list({ trigger: "iteration" })).at(0) ?? {};
  expect(await bench.work({ limits: { max: 9 }, from: sequence, force: true })).toMatchObject({ kind: "done" });
  expect((await bench.planes()).config.inputs).toMatchObject({ maxIterations: 9 });
});

test.concurrent("signals to a loop that reached its limit meanwhile are void when the limit is raised", async () => {
  await using bench = await makeBench({ answers: inTurn("1\n", "42\n"), options: { maxIterations: 1 } });
  expect(await bench.work()).toMatchObject({ kind: "failed" });
  // The process that sent the signal was killed before it saw that the run had ended.
  const { store } = bench.holdfast;
  const signal = { id: "s-1", run: bench.run(), by: "eva", at: new Date(0).toISOString(), reason: "", now: false };
  await store.putSignal({ ...signal, kind: "abort" });
  await bench.raise(2);
  expect(await bench.work()).toMatchObject({ kind: "done" });
  expect(await store.listSignals(bench.run())).toEqual([]);
});

test.concurrent("if the last iteration is as good as any, its files stay", async () => {
  await using bench = await makeBench({ answers: inTurn("3\n", "7\n"), options: { ...GRADED, maxIterations: 2 } });
  expect(await bench.work()).toMatchObject({ reason: expect.stringContaining("those of the last iteration") });
  expect(await bench.read("answer.txt")).toBe("7\n");
});

test.concurrent("a limit may be raised while the loop works, and other runs have none", async () => {
  await using bench = await makeBench({
    answers: inTurn("1\n"),
    options: { maxIterations: 2 },
    limit: { tokens: 400 },
  });
  expect(await bench.work()).toMatchObject({ kind: "waiting", for: "budget" });
  await bench.raise(3);
  expect(await bench.work({ limit: { tokens: 4000 } })).toMatchObject({
    reason: expect.stringContaining("3 iterations"),
  });
});

test.concurrent("of two exhausted limits, the reason names the one that is left when the other is raised", async () => {
  await using bench = await makeBench({ answers: inTurn("1\n"), limit: { microUsd: 5000 } });
  expect(await bench.work()).toMatchObject({ for: "budget", reason: expect.stringMatching(/up: \$0\.01 of \$0\.01$/) });
  const reason = "The budget is used up: 400 of 300 tokens";
  expect(await bench.work({ limit: { microUsd: 9_000_000, tokens: 300 } })).toMatchObject({ for: "budget", reason });
  expect(await bench.work()).toMatchObject({ for: "budget", reason });
  expect(await bench.calls()).toBe(1);
});

test.concurrent("an exhausted budget stays exhausted on resume, until it is raised", async () => {
  await using bench = await makeBench({ answers: inTurn("1\n", "2\n", "42\n"), limit: { tokens: 800 } });
  expect(await bench.work()).toMatchObject({ kind: "waiting", for: "budget" });
  expect(await bench.work()).toMatchObject({ kind: "waiting", for: "budget" });
  expect(await bench.work({ limit: { tokens: 800 } })).toMatchObject({ kind: "waiting", for: "budget" });
  expect(await bench.calls()).toBe(2);
  expect(await bench.work({ limit: { tokens: 2000 } })).toMatchObject({ kind: "done" });
  expect(await bench.calls()).toBe(3);
  expect((await bench.planes()).position.budget.spent).toMatchObject({ tokens: 1200, microUsd: 15_000 });
});

const STUCK = { until: "echo no; exit 1", detection: { stuck: 2, oscillation: null } };

test.concurrent("stuck: it stops, with the evidence", async () => {
  await using bench = await makeBench({ answers: inTurn("1\n"), options: STUCK });
  const outcome = await bench.work();
  expect(outcome).toMatchObject({ kind: "failed" });
  expect(await bench.calls()).toBe(2);
  const { findings } = await bench.state();
  expect(findings).toMatchObject([{ kind: "stuck", iteration: 2, evidence: { iterations: [1, 2] } }]);
  const status = await bench.holdfast.status(bench.run());
  expect(status.loop).toMatchObject({ findings, totals: { iterations: 2 }, iterations: [{ verdict: "failed" }, {}] });
});

test.concurrent.each([
  ["the same failure with other files each time", { until: STUCK.until, answers: ["1\n", "2\n", "3\n", "4\n", "5\n"] }],
  ["a silent check that never passes", { until: "exit 1", answers: ["1\n"] }],
])("not stuck: %s uses all of --max 5", async (_, { until, answers }) => {
  await using bench = await makeBench({ answers: inTurn(...answers), options: { ...STUCK, until, maxIterations: 5 } });
  expect(await bench.work()).toMatchObject({ kind: "failed", reason: expect.stringContaining("5 iterations") });
  expect(await bench.calls()).toBe(5);
  expect((await bench.state()).iterations.map(({ verdict }) => verdict)).toEqual(Array(5).fill("failed"));
});

const again = async (bench: Bench, from: number) =>
  (await bench.holdfast.resume({ run: bench.run(), from, force: true })).outcome;

test.concurrent.for(sampleBySeed([["iterate"], ["reflect"], ["latest"]], 1))(
  "stuck: resumed by force from its checkpoint in %s it continues, and is stuck again only after as many failures",
  async ([stage]) => {
    await using bench = await makeBench({
      answers: inTurn("1\n"),
      options: { ...STUCK, maxIterations: 5 },
      mode: "logged",
    });
    expect(await bench.work()).toMatchObject({ kind: "failed" });
    await expect(bench.work()).rejects.toMatchObject({
      code: "RUN_FAILED",
      hint: expect.stringContaining(`\`holdfast resume ${bench.run()}@latest --force\``),
    });
    const checkpoints = await (await bench.holdfast.run(bench.run())).list();
    const there = checkpoints.filter((one) => stage === "latest" || (one.stage === stage && one.iteration === 2));
    // The oldest in `iterate` is the one at which the iteration begins.
    const from = there.at(stage === "iterate" ? -1 : 0)?.sequence ?? 0;
    expect(await again(bench, from)).toMatchObject({ kind: "failed", reason: expect.stringContaining("Stuck") });
    const { iterations, interventions, refused } = await bench.state();
    // Where iteration 2 itself is repeated, it counts as the first of them.
    const numbers = stage === "iterate" ? [1, 2, 3] : [1, 2, 3, 4];
    expect(iterations.map(({ number }) => number)).toEqual(numbers);
    expect(await bench.calls()).toBe(4);
    expect(interventions).toEqual([{ kind: "answered", at: stage === "iterate" ? 1 : 2, answer: "continue" }]);
    expect(refused).toEqual([]);
    expect(await bench.holdfast.work.replay({ run: bench.run() })).toMatchObject({
      verdict: "identical",
      divergence: null,
    });
  },
);

test.concurrent("out of attempts: resumed by force it has as many again", async () => {
  await using bench = await makeBench({
    answers: inTurn("1\n", "2\n", "3\n"),
    options: { ...STUCK, workflowType: "agent_task", attempts: 1, detection: { stuck: null, oscillation: null } },
  });
  expect(await bench.work()).toMatchObject({ kind: "failed", reason: expect.stringContaining("in 1 try") });
  const newest = (await bench.holdfast.store.latest(bench.run()))?.sequence ?? 0;
  expect(await again(bench, newest)).toMatchObject({ kind: "failed", reason: expect.stringContaining("in 1 try") });
  expect(await bench.calls()).toBe(2);
});

test.concurrent("stuck: the user is asked, and the answer counts for as many iterations again", async () => {
  await using bench = await makeBench({
    answers: inTurn("1\n"),
    options: { ...STUCK, onStuck: "ask" },
  });
  expect(await bench.work()).toMatchObject({ kind: "waiting", for: "you" });
  expect(await bench.work()).toMatchObject({ kind: "waiting", for: "you" });
  await bench.answer("continue");
  expect(await bench.work()).toMatchObject({ kind: "waiting", for: "you" });
  expect(await bench.calls()).toBe(4);
  await bench.answer("stop");
  expect(await bench.work()).toMatchObject({ kind: "failed", reason: expect.stringContaining("Stopped by the user") });
  expect((await bench.state()).interventions).toMatchObject([{ kind: "answered", at: 2, answer: "continue" }]);
});

test.concurrent("stuck: back to the best once with another prompt, then it stops", async () => {
  await using bench = await makeBench({
    answers: inTurn("7\n", "5\n", "5\n", "5\n", "5\n"),
    options: { ...GRADED, detection: { stuck: 2, oscillation: null, regression: null }, onStuck: "rollback" },
  });
  const outcome = await bench.work();
  const trail = await bench.trail();
  expect(trail.filter((one) => one === "rollback:went_back")).toHaveLength(1);
  const at = trail.slice(0, trail.indexOf("rollback:went_back")).filter((one) => one.startsWith("iterate")).length;
  expect(await bench.read(`.tmp/ralph-prompt-${at + 1}.md`)).toMatch(/put back to those of iteration 1.*another way/s);
  expect(outcome).toMatchObject({ kind: "failed", reason: expect.stringMatching(/those of iteration 1, the best/) });
  expect(await bench.read("answer.txt")).toBe("7\n");
});

test.concurrent("interrupted in the middle of an iteration, it repeats that one, and skips none", async () => {
  const edits = [
    { do: "write", path: "answer.txt", text: "half\n" },
    { do: "wait", ms: 1500 },
    { do: "write", path: "answer.txt", text: "42\n" },
  ];
  await using bench = await makeBench({
    answers: [writes("1\n", { when: { iteration: 1 } }), writes("", { edits })],
  });
  const stop = new AbortController();
  let iteration = 0;
  const outcome = await bench.work({
    signal: stop.signal,
    listen: (event) => {
      if (event.kind === "stage_entered") ({ iteration } = event);
      if (iteration === 2 && event.kind === "agent" && event.event.kind === "tool") stop.abort();
    },
  });
  expect(outcome).toEqual({ kind: "interrupted" });
  expect((await bench.planes()).position).toMatchObject({ stage: "iterate", iteration: 2 });
  expect(await bench.work()).toMatchObject({ kind: "done" });
  expect((await bench.state()).iterations.map(({ number }) => number)).toEqual([1, 2]);
  expect(await bench.calls()).toBe(3);
});

test.concurrent("a loop that died while it was created is reported as not begun, not as without a criterion", async () => {
  await using bench = await makeBench({ answers: [] });
  const { holdfast } = bench;
  await holdfast.store.createRun({ id: "unbegun", workflow: "ralph", work: { kind: "task", text: "x" } });
  const refusal = { code: "NOTHING_TO_RESUME", message: "Run unbegun has not begun: it has no checkpoint" };
  await expect(holdfast.resume({ run: "unbegun" })).rejects.toMatchObject(refusal);
  await expect(holdfast.work.changeLimits({ run: "unbegun", limits: { max: 3 } })).rejects.toMatchObject(refusal);
});

test.concurrent("only a loop has such a limit", async () => {
  await using bench = await makeBench({ answers: [] });
  await bench.holdfast.createRun({ id: "by-hand", workflow: "manual" });
  const handle = await bench.holdfast.run("by-hand");
  await handle.save({ values: {} });
  const refused = bench.holdfast.work.changeLimits({ run: "by-hand", limits: { max: 9 } });
  await expect(refused).rejects.toThrow(HoldfastError);
  await expect(refused).rejects.toThrow(/which has no --max/);
});
