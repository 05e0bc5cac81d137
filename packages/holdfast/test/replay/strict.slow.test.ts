import { appendFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Holdfast } from "../../src/holdfast.ts";
import { HoldfastError } from "@holdfast/platform/error";
import type { Workflow } from "@holdfast/core/workflow";
import { type Scene, type LoopState, loopWorkflow, makeScene, runLoop } from "./recorded-loop.ts";

const RUN = "loop";
const LOOPS = 3;

let scene: Scene;
let holdfast: Holdfast;
beforeEach(async () => {
  scene = await makeScene();
  holdfast = await scene.open();
});
afterEach(async () => {
  await holdfast.close();
  await scene[Symbol.asyncDispose]();
});

/** Interrupted after so many checkpoints, as Ctrl+C does. */
async function begun(mode: "strict" | "logged", checkpoints: number): Promise<void> {
  const stop = new AbortController();
  let seen = 0;
  await holdfast.start({
    workflow: loopWorkflow(LOOPS),
    work: { kind: "task", text: "count" },
    agent: scene.agent,
    id: RUN,
    mode,
    signal: stop.signal,
    listen: ({ kind }) => {
      if (kind === "checkpoint" && (seen += 1) === checkpoints) stop.abort();
    },
  });
}

async function refusal(workflow: Workflow<LoopState> = loopWorkflow(LOOPS)): Promise<HoldfastError> {
  const entries = (await Array.fromAsync(holdfast.store.readJournal({ run: RUN }))).length;
  const started = await scene.started();
  const error = await holdfast.resume({ run: RUN, workflow }).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(await Array.fromAsync(holdfast.store.readJournal({ run: RUN }))).toHaveLength(entries);
  expect(await scene.started()).toBe(started);
  if (error instanceof HoldfastError) return error;
  throw new Error("it continued", { cause: error });
}

describe("a strict run that continues", () => {
  test("continues if everything equals the record, and its record covers the interruption", async () => {
    await begun("strict", 4);
    const { outcome } = await holdfast.resume({ run: RUN, workflow: loopWorkflow(LOOPS) });
    expect(outcome.kind).toBe("done");
    expect(await scene.started()).toBe(LOOPS);
    const report = await holdfast.work.replay({ run: RUN, workflow: loopWorkflow(LOOPS) });
    expect(report).toMatchObject({ verdict: "identical", outcome: "done", agents: LOOPS });
  });

  test("keeps its limit if it refuses to continue", async () => {
    const { outcome } = await holdfast.start({
      workflow: "ralph",
      work: { kind: "task", text: "count" },
      agent: scene.agent,
      id: RUN,
      mode: "strict",
      options: { task: "Count", until: ["false"], maxIterations: 1 },
    });
    expect(outcome.kind).toBe("failed");
    const before = await Array.fromAsync(holdfast.store.readJournal({ run: RUN }));
    const worktree = await (await holdfast.run(RUN)).workspace();
    await appendFile(join(worktree?.root ?? "", "log.txt"), "by hand\n");
    await expect(holdfast.work.changeLimits({ run: RUN, limits: { max: 2 } })).rejects.toThrow("log.txt");
    expect(await Array.fromAsync(holdfast.store.readJournal({ run: RUN }))).toHaveLength(before.length);
  });

  test("refuses another prompt, and names it and its position", async () => {
    await begun("strict", 4);
    const error = await refusal(loopWorkflow(LOOPS, { prompt: (part) => `Do the part ${part}` }));
    expect(error.code).toBe("REPLAY_DIVERGED");
    expect(error.message).toMatch(
      /step agent, entry \d+: the agent's prompt: recorded "Do part 1", now "Do the part 1"/,
    );
  });

  test("refuses another environment, and names the variable", async () => {
    await begun("strict", 4);
    process.env["REPLAY_TEST_VARIABLE"] = "new";
    try {
      const error = await refusal();
      expect(error.message).toContain('the environment\'s $REPLAY_TEST_VARIABLE: recorded nothing, now "new"');
    } finally {
      delete process.env["REPLAY_TEST_VARIABLE"];
    }
  });

  test("refuses files that a user changed, and names one", async () => {
    await begun("strict", 4);
    const worktree = await (await holdfast.run(RUN)).workspace();
    await appendFile(join(worktree?.root ?? "", "log.txt"), "by hand\n");
    const error = await refusal();
    expect(error.message).toContain("the worktree's log.txt");
  });
});

describe("a replay", () => {
  test("of a run that was not recorded is refused", async () => {
    await runLoop(scene, holdfast, { iterations: 1 });
    await expect(holdfast.work.replay({ run: RUN, workflow: loopWorkflow(1) })).rejects.toMatchObject({
      code: "NOT_RECORDED",
    });
  });

  test("names the first checkpoint with other values", async () => {
    await runLoop(scene, holdfast, { iterations: LOOPS, mode: "logged" });
    const original = loopWorkflow(LOOPS);
    const changed: Workflow<LoopState> = {
      ...original,
      stages: {
        ...original.stages,
        verify: async (context) => {
          const result = await original.stages["verify"]?.(context);
          if (result === undefined) throw new Error("no such stage");
          return context.state.left === 2 ? { ...result, state: { ...context.state, left: 7 } } : result;
        },
      },
    };
    const report = await holdfast.work.replay({ run: RUN, workflow: changed });
    expect(report).toMatchObject({
      verdict: "diverged",
      divergence: { what: "checkpoint", field: "/values/left", expected: 1, actual: 7 },
    });
    expect(report.divergence?.where.checkpoint).toBe((report.to ?? 0) + 1);
  });

  test("names an event, a new step, and a missing one", async () => {
    await runLoop(scene, holdfast, { iterations: 1, mode: "logged" });
    const original = loopWorkflow(1);
    const { iterate } = original.stages;
    if (iterate === undefined) throw new Error("no such stage");
    const replayed = async (stage: typeof iterate) =>
      (
        await holdfast.work.replay({
          run: RUN,
          workflow: { ...original, stages: { ...original.stages, iterate: stage } },
        })
      ).divergence;
    expect(
      await replayed((context) => iterate({ ...context, record: (name, event) => context.record(name, event) })),
    ).toBeNull();
    expect(
      await replayed(async (context) => {
        await context.step("new", () => 1);
        return await iterate(context);
      }),
    ).toMatchObject({ what: "step", expected: "agent", actual: "new" });
    expect(await replayed(async () => ({ event: "tried", reason: "as asked" }))).toMatchObject({
      what: "missing",
      expected: "agent",
    });
    expect(
      await replayed(async (context) => {
        await context.agent({
          name: "agent",
          role: "impl",
          prompt: "Do part 1",
          model: null,
          yolo: true,
          env: { HOLDFAST_PART: "1" },
        });
        await context.record("learnt", "another thing");
        return { event: "tried", reason: "as asked" };
      }),
    ).toMatchObject({ what: "event", expected: "did 1", actual: "another thing", where: { step: "learnt" } });
  });

  test("replays a run that was restored on the way", async () => {
    await begun("logged", 6);
    const handle = await holdfast.run(RUN);
    await handle.restore({ sequence: 3 });
    await handle.close();
    const { outcome } = await holdfast.resume({ run: RUN, workflow: loopWorkflow(LOOPS) });
    expect(outcome.kind).toBe("done");
    const report = await holdfast.work.replay({ run: RUN, workflow: loopWorkflow(LOOPS) });
    expect(report).toMatchObject({ verdict: "identical", outcome: "done" });
    expect(report.to).toBe((await holdfast.store.latest(RUN))?.sequence);
  });

  test("of a fork starts with its origin", async () => {
    await runLoop(scene, holdfast, { iterations: LOOPS, mode: "logged" });
    const prefix = await holdfast.work.replay({ run: RUN, to: 4, workflow: loopWorkflow(LOOPS) });
    expect(prefix).toMatchObject({ verdict: "identical", to: 4 });
    const forked = await (await holdfast.run(RUN)).fork({ sequence: 4, id: "other" });
    await forked.close();
    expect((await holdfast.resume({ run: "other", workflow: loopWorkflow(LOOPS) })).outcome.kind).toBe("done");
    const report = await holdfast.work.replay({ run: "other", workflow: loopWorkflow(LOOPS) });
    expect(report).toMatchObject({ verdict: "identical", outcome: "done" });
  });
});

describe("a run executed again", () => {
  test("is the same if the agent is, and reports a divergence if not", async () => {
    await runLoop(scene, holdfast, { iterations: 2, mode: "seeded", seed: 5 });
    const workflow = loopWorkflow(2);
    const again = async (id: string) =>
      await holdfast.work.rerun({ of: RUN, plan: await holdfast.work.planRerun({ run: RUN, id, workflow }) });
    const same = await again("second");
    expect(same).toMatchObject({ of: RUN, run: "second", outcome: { kind: "done" }, ended: { a: "done", b: "done" } });
    expect(same.compared).toMatchObject({ step: null, files: null, verdict: null });
    expect((await holdfast.store.latest("second"))?.planes.config).toMatchObject({ mode: "seeded", seed: 5 });
    const lines = ["#!/bin/sh", "cat >/dev/null", 'echo "$HOLDFAST_PART" >> log.txt', 'echo "did $HOLDFAST_PART"'];
    await writeFile(scene.agent.replace("command:", ""), `${lines.join("\n")}\n`);
    const other = await again("third");
    expect(other.compared.step).toBeNull();
    expect(other.compared.files).toMatchObject({ a: { stage: "iterate", step: "agent" }, field: "" });
  });
});
