import { describe, expect, onTestFinished, test } from "vitest";
import { ID, begin, define, startToy, worked, TOY_CONFIG, TOY_INPUTS } from "../../testing/toy-run.ts";
import { WORK_STORES } from "../../testing/work-stores.ts";
import { beginRun } from "./begin-run.ts";
import type { ProgressEvent } from "../progress-event.ts";

describe.each(WORK_STORES)("over the $name store", (kind) => {
  const start = () => startToy(kind, onTestFinished);

  test("stage is saved: every transition is one commit with the next stage in it", async () => {
    const { parts, store, go, kinds } = await start();
    const workflow = define({ work: worked });
    await begin(parts, workflow);
    expect(await go(workflow)).toEqual({ kind: "done", reason: "fine" });
    const stages = (await store.listCheckpoints({ run: ID })).map(({ stage, trigger }) => `${stage} ${trigger}`);
    expect(stages).toEqual(["done stage", "check stage", "work stage"]);
    expect((await kinds()).filter((kind) => !kind.startsWith("lease.")).join(" ")).toBe(
      "run.created stage.entered checkpoint stage.ended stage.entered checkpoint stage.ended stage.entered run.ended checkpoint",
    );
    expect(await store.getLease(ID)).toBeUndefined();
  });

  test("done resumed is a no-op", async () => {
    const { parts, go, kinds } = await start();
    const workflow = define({ work: worked });
    await begin(parts, workflow);
    await go(workflow);
    const before = await kinds();
    expect(await go(workflow)).toEqual({ kind: "done", reason: "fine" });
    expect(await kinds()).toEqual(before);
  });

  test("fatal keeps its reason, however often it is resumed", async () => {
    const { parts, go } = await start();
    const workflow = define({ work: async () => ({ event: "fatal", reason: "Max iteration limit (7) reached" }) });
    await begin(parts, workflow);
    expect(await go(workflow)).toEqual({ kind: "fatal", reason: "Max iteration limit (7) reached" });
    for (let i = 0; i < 2; i += 1) {
      await expect(go(workflow)).rejects.toThrow(
        expect.objectContaining({
          code: "RUN_FATAL",
          message: expect.stringContaining("Max iteration limit (7) reached"),
        }),
      );
    }
  });

  test("an end with a function runs it, and the reason for coming there stands", async () => {
    const { parts, go } = await start();
    const seen: (string | null)[] = [];
    const workflow = define(
      {
        work: async () => ({ event: "fatal", reason: "the true reason" }),
        fatal: async ({ position }) => {
          seen.push(position.reason);
          return { event: "reported", reason: "report written" };
        },
      },
      { ends: { done: "done", fatal: "fatal" } },
    );
    await begin(parts, workflow);
    expect(await go(workflow)).toEqual({ kind: "fatal", reason: "the true reason" });
    expect(seen).toEqual(["the true reason"]);
  });

  test("a workflow that goes in circles ends fatal after its visits", async () => {
    const { parts, go } = await start();
    const workflow = define(
      { work: worked, check: async () => ({ event: "failed", reason: "again" }) },
      { maxVisits: 9 },
    );
    await begin(parts, workflow);
    expect(await go(workflow)).toEqual({ kind: "fatal", reason: "Max stage visits exceeded: 9" });
  });

  test("an event that the table does not have ends nothing: mended, the run goes on", async () => {
    const { parts, go } = await start();
    const wrong = define({ work: async () => ({ event: "wroked", reason: "typo" }) });
    await begin(parts, wrong);
    await expect(go(wrong)).rejects.toThrow('no event "wroked"');
    expect(await go(define({ work: worked }))).toMatchObject({ kind: "done" });
  });

  test("begun twice is begun once, also when the process died between run and checkpoint", async () => {
    const { parts, store, go } = await start();
    const workflow = define({ work: worked });
    await store.createRun({ id: ID, workflow: "toy", work: { kind: "none" } });
    await begin(parts, workflow);
    await begin(parts, workflow);
    expect(await store.listCheckpoints({ run: ID })).toHaveLength(1);
    await go(workflow);
    await begin(parts, workflow);
    expect((await store.getRun(ID))?.state.kind).toBe("done");
    const other = { kind: "task", text: "else" } as const;
    await expect(
      beginRun({ parts, workflow, id: ID, work: other, inputs: TOY_INPUTS, config: TOY_CONFIG, workspace: undefined }),
    ).rejects.toThrow(expect.objectContaining({ code: "RUN_EXISTS" }));
  });

  test("listeners hear what happens in order, and what they throw is theirs", async () => {
    const { parts, go } = await start();
    const heard: ProgressEvent[] = [];
    const workflow = define({
      work: async ({ step, note }) => {
        await step("a", () => 1);
        await note("half-way");
        return { event: "worked", reason: "did it", score: 80 };
      },
    });
    await begin(parts, workflow);
    await go(workflow, {
      listen: (event) => {
        heard.push(event);
        throw new Error("a front end's defect");
      },
    });
    expect(heard.map(({ kind }) => kind).join(" ")).toBe(
      "started stage_entered step_started step_finished note checkpoint stage_ended stage_entered checkpoint stage_ended ended",
    );
    expect(heard.find(({ kind }) => kind === "stage_ended")).toMatchObject({ score: 80, next: "check", run: ID });
  });

  test("the best score remembers the checkpoint that holds it", async () => {
    const { parts, go, store } = await start();
    const scores = [60, 75, 70];
    const workflow = define({
      work: worked,
      check: async ({ position }) => {
        const score = scores[Math.floor(position.visit.number / 2) - 1] ?? 0;
        return score === 70
          ? { event: "passed", reason: "enough", score }
          : { event: "failed", reason: "not yet", score };
      },
    });
    await begin(parts, workflow);
    await go(workflow);
    const latest = await store.latest(ID);
    const best = latest?.planes.position.best;
    expect(best?.score).toBe(75);
    expect((await store.getCheckpoint({ run: ID, sequence: best?.sequence ?? 0 })).score).toBe(75);
  });
});
