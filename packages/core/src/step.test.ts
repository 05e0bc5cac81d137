import { describe, expect, onTestFinished, test } from "vitest";
import { ID, type State, WORK_STORES, begin, define, startTestRun } from "@holdfast/test-support/core/work-bench";
import { raiseLimits } from "./control-run.ts";
import type { Json } from "./json.ts";
import { RunHandle } from "./run-handle.ts";
import type { StageFunction } from "./workflow.ts";

const reduce = (state: State, event: Json): State => ({ seen: [...state.seen, String(event)] });

describe.each(WORK_STORES)("over the $name store", (kind) => {
  const start = () => startTestRun(kind, onTestFinished);
  const valuesOf = async ({ store }: Awaited<ReturnType<typeof start>>) =>
    (await store.latest(ID))?.planes.context.values;

  test("each event is in the values once, wherever the process dies, with checkpoints and without", async () => {
    for (const every of [1, 99]) {
      for (let at = 1, how = "died"; how === "died"; at += 1) {
        for (const moment of ["before", "after"] as const) {
          const toy = await start();
          const work: StageFunction<State> = async (context) => {
            for (let n = 1; n <= 4; n += 1) {
              const said = await context.record(`r${n}`, `event ${n}`);
              expect(said).toBe(`event ${n}`);
              expect(context.state.seen).toContain(`event ${n}`);
              if (n % every === 0) await context.checkpoint({ trigger: "automatic" });
            }
            return { event: "worked", reason: "did it" };
          };
          const workflow = define({ work }, { reduce });
          await begin(toy.adapters, workflow);
          how = await toy.crash(workflow, at, moment);
          expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
          expect(await valuesOf(toy)).toEqual({ seen: ["event 1", "event 2", "event 3", "event 4"] });
          const [saved] = await toy.store.listCheckpoints({ run: ID, trigger: "automatic" });
          expect(saved === undefined).toBe(every !== 1);
        }
      }
    }
  });

  test("a checkpoint in the middle shows the values as they are; a restored one records the rest again", async () => {
    const toy = await start();
    let stop = true;
    const work: StageFunction<State> = async (context) => {
      await context.record("a", "a");
      await context.checkpoint({ trigger: "manual" });
      await context.record("b", "b");
      if (stop) throw new Error("stop here");
      return { event: "worked", reason: "did it" };
    };
    const workflow = define({ work }, { reduce });
    await begin(toy.adapters, workflow);
    await expect(toy.go(workflow)).rejects.toThrow("stop here");
    const [saved] = await toy.store.listCheckpoints({ run: ID, trigger: "manual" });
    const sequence = saved?.sequence ?? 0;
    const { planes } = await toy.store.getCheckpoint({ run: ID, sequence });
    expect(planes.context.values).toEqual({ seen: ["a"] });
    const summary = await toy.store.getRun(ID);
    if (summary === undefined) throw new Error("no run");
    await using handle = new RunHandle(toy.adapters, summary);
    await handle.restore({ sequence });
    await handle.close();
    stop = false;
    expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
    expect(await valuesOf(toy)).toEqual({ seen: ["a", "b"] });
  });

  test("a checkpoint by a caller without the workflow keeps the events that are not reduced yet", async () => {
    const toy = await start();
    let stop = true;
    const work: StageFunction<State> = async (context) => {
      await context.record("a", "a");
      if (stop) throw new Error("stop here");
      await context.record("b", "b");
      return { event: "worked", reason: "did it" };
    };
    const workflow = define({ work }, { reduce });
    await begin(toy.adapters, workflow);
    await expect(toy.go(workflow)).rejects.toThrow("stop here");
    await raiseLimits({ adapters: toy.adapters, run: ID, limit: { tokens: 10 } });
    expect((await toy.store.latest(ID))?.planes.position.stageAttempt.unreduced).toEqual(["a"]);
    stop = false;
    expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
    expect(await valuesOf(toy)).toEqual({ seen: ["a", "b"] });
    expect((await toy.store.latest(ID))?.planes.position.stageAttempt.unreduced).toBeUndefined();
  });

  test("a checkpoint taken by hand between two processes, and a restore's own, keep the work finished since the one before", async () => {
    for (const how of ["save", "restore"] as const) {
      const toy = await start();
      let stop = true;
      let ran = 0;
      const work: StageFunction<State> = async (context) => {
        await context.step("once", () => (ran += 1));
        await context.record("a", "a");
        if (stop) throw new Error("stop here");
        return { event: "worked", reason: "did it" };
      };
      const workflow = define({ work }, { reduce });
      await begin(toy.adapters, workflow);
      await expect(toy.go(workflow)).rejects.toThrow("stop here");
      const summary = await toy.store.getRun(ID);
      if (summary === undefined) throw new Error("no run");
      await using handle = new RunHandle(toy.adapters, summary);
      const saved = await handle.save({ name: "by hand" });
      if (how === "restore") await handle.restore({ sequence: saved.sequence });
      await handle.close();
      stop = false;
      expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
      expect(ran).toBe(1);
      expect(await valuesOf(toy)).toEqual({ seen: ["a"] });
    }
  });

  test("after a fallback from a damaged checkpoint, values and steps are consistent again", async () => {
    const toy = await start();
    let stop = true;
    const work: StageFunction<State> = async (context) => {
      await context.record("a", "a");
      await context.checkpoint({ trigger: "manual" });
      await context.record("b", "b");
      await context.checkpoint({ trigger: "manual" });
      await context.record("c", "c");
      if (stop) throw new Error("stop here");
      return { event: "worked", reason: "did it" };
    };
    const workflow = define({ work }, { reduce });
    await begin(toy.adapters, workflow);
    await expect(toy.go(workflow)).rejects.toThrow("stop here");
    const [newest] = await toy.store.listCheckpoints({ run: ID, trigger: "manual" });
    await toy.store.quarantine({ run: ID, sequences: [newest?.sequence ?? 0], reason: "damaged" });
    stop = false;
    expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
    expect(await valuesOf(toy)).toEqual({ seen: ["a", "b", "c"] });
  });

  test("events of one turn are all recorded, in their order", async () => {
    const toy = await start();
    const names = Array.from({ length: 20 }, (_, n) => `n${n}`);
    const workflow = define(
      {
        work: async (context) => {
          await Promise.all(names.map((name) => context.record(name, name)));
          return { event: "worked", reason: "did it" };
        },
      },
      { reduce },
    );
    await begin(toy.adapters, workflow);
    await toy.go(workflow);
    expect(await valuesOf(toy)).toEqual({ seen: names });
  });

  test("without a reducer it is refused; with the reducer removed, the run is not continued", async () => {
    const toy = await start();
    const work: StageFunction<State> = async (context) => {
      await context.record("a", "a");
      throw new Error("stop here");
    };
    const without = define({ work });
    await begin(toy.adapters, without);
    await expect(toy.go(without)).rejects.toThrow(/has no reducer/);
    await expect(toy.go(define({ work }, { reduce }))).rejects.toThrow("stop here");
    await expect(toy.go(without)).rejects.toThrow(expect.objectContaining({ code: "WORKFLOW_CHANGED" }));
  });
});
