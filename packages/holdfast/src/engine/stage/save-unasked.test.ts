import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { ID, begin, define, startToy, worked } from "../../testing/toy-run.ts";
import { createRequestFiles } from "../../system/request-files.ts";
import { WORK_STORES } from "../../testing/work-stores.ts";
import { askCheckpoint } from "../orders/ask-checkpoint.ts";
import type { AskParams } from "../orders/ask-checkpoint.ts";
import { RunHandle } from "../run-handle.ts";

function requestsHere() {
  const directory = mkdtempSync(join(tmpdir(), "requests-"));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  return createRequestFiles(directory);
}

const asking = { run: ID, signal: new AbortController().signal, patienceMs: 60_000 };

describe.each(WORK_STORES)("over the $name store", (kind) => {
  const start = async () => {
    const toy = await startToy(kind, onTestFinished);
    let random = 0;
    const parts = { ...toy.parts, requests: requestsHere(), random: () => `r${(random += 1)}` };
    const ask = (more: Partial<AskParams> = {}) => askCheckpoint({ parts, name: null, ...asking, ...more });
    return { ...toy, parts, ask };
  };

  test("whoever asks while a stage works gets a checkpoint with all that is finished by then, once a request", async () => {
    const { parts, go, store, ask } = await start();
    const answers: unknown[] = [];
    const workflow = define({
      work: async ({ step }) => {
        await step("a", () => 1);
        await step("b", async () => {
          answers.push(...(await Promise.all([ask({ name: "one" }), ask({ name: "two" })])));
          return 2;
        });
        return { event: "worked", reason: "did it" };
      },
    });
    await begin(parts, workflow);
    expect(await ask()).toEqual({ kind: "free" });
    expect(await go(workflow, { parts })).toMatchObject({ kind: "done" });
    const manual = await store.listCheckpoints({ run: ID, trigger: "manual" });
    expect(manual.map(({ name }) => name).toSorted()).toEqual(["one", "two"]);
    const sequences = manual.map(({ sequence }) => sequence);
    expect(answers).toEqual(
      expect.arrayContaining(sequences.map((sequence) => expect.objectContaining({ kind: "saved", sequence }))),
    );
    for (const sequence of sequences)
      expect((await store.getCheckpoint({ run: ID, sequence })).planes.position.visit.steps).toEqual({ a: 1 });
    expect(await parts.requests.waiting(ID)).toEqual([]);
  });

  test("a holder on another host, one that answers nobody and one that cannot save are told apart", async () => {
    const { parts, store, ask } = await start();
    await begin(parts, define({ work: worked }));
    const lease = await store.takeLease({ run: ID, label: "somebody" });
    expect(await ask({ parts: { ...parts, liveness: () => "unknown" } })).toMatchObject({ kind: "elsewhere" });
    expect(await ask({ patienceMs: 0 })).toMatchObject({ kind: "silent" });
    expect(await ask({ parts: { ...parts, requests: null }, patienceMs: 0 })).toMatchObject({ kind: "silent" });
    const failing = ask();
    for (;;) {
      const [request] = await parts.requests.waiting(ID);
      if (request === undefined) await new Promise((resolve) => setTimeout(resolve, 5));
      else {
        await parts.requests.take(request);
        await parts.requests.finish(request);
        break;
      }
    }
    expect(await failing).toMatchObject({ kind: "failed" });
    const left = ask();
    await store.releaseLease(lease);
    expect(await left).toEqual({ kind: "free" });
    expect(await ask({ parts: { ...parts, liveness: () => "dead" } })).toEqual({ kind: "free" });
  });

  test("whoever gives up withdraws the request", async () => {
    const { parts, store, ask } = await start();
    await begin(parts, define({ work: worked }));
    await store.takeLease({ run: ID, label: "somebody" });
    const controller = new AbortController();
    const asked = ask({ signal: controller.signal });
    while ((await parts.requests.waiting(ID)).length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    controller.abort(new Error("no more"));
    await expect(asked).rejects.toThrow("no more");
    expect(await parts.requests.waiting(ID)).toEqual([]);
  });

  test("saved by hand after a kill, what was finished since the last checkpoint stays finished", async () => {
    const { parts, go, crash, store } = await start();
    const runs: string[] = [];
    const workflow = define({
      work: async ({ step }) => {
        await step("a", () => runs.push("a"));
        await step("b", () => runs.push("b"));
        return { event: "worked", reason: "did it" };
      },
    });
    await begin(parts, workflow);
    // The first commit is step a's: killed right after it, no checkpoint has it.
    expect(await crash(workflow, 1, "after")).toBe("died");
    const dead = await store.getLease(ID);
    if (dead !== undefined) await store.releaseLease(dead);
    const run = await store.getRun(ID);
    if (run === undefined) return expect.unreachable();
    await using handle = new RunHandle(parts, run);
    await handle.save({ trigger: "manual" });
    await handle.close();
    expect(await go(workflow)).toMatchObject({ kind: "done" });
    expect(runs).toEqual(["a", "b"]);
  });

  test("by the clock: also between steps, and not when nothing has happened since", async () => {
    const { parts, go, store } = await start();
    const timers = async () => (await store.listCheckpoints({ run: ID, trigger: "timer" })).length;
    const until = async (count: number) => {
      while ((await timers()) < count) await new Promise((resolve) => setTimeout(resolve, 5));
    };
    let idle = 0;
    const workflow = define({
      work: async ({ step }) => {
        await step("a", () => 1);
        await until(1);
        await step("b", () => 2);
        await until(2);
        await new Promise((resolve) => setTimeout(resolve, 200));
        idle = await timers();
        return { event: "worked", reason: "did it" };
      },
    });
    await begin(parts, workflow);
    expect(await go(workflow, { parts: { ...parts, checkpointEveryMs: 20 } })).toMatchObject({ kind: "done" });
    expect(idle).toBe(2);
  });

  test("a session that is over is parked with its checkpoint, and the next one goes on", async () => {
    const { parts, go, store } = await start();
    const runs: string[] = [];
    const workflow = define({
      work: async ({ step }) => {
        await step("a", () => runs.push("a"));
        await step("b", async ({ signal }) => {
          if (runs.length > 1) return runs.push("b");
          runs.push("half");
          if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
          signal.throwIfAborted();
          return 0;
        });
        return { event: "worked", reason: "did it" };
      },
    });
    await begin(parts, workflow);
    const over = { kind: "parked", on: "session", until: null };
    expect(await go(workflow, { sessionMs: 50 })).toMatchObject(over);
    expect((await store.getRun(ID))?.state).toMatchObject(over);
    expect(await store.listCheckpoints({ run: ID, limit: 1 })).toMatchObject([{ trigger: "session_end" }]);
    expect(await go(workflow, { sessionMs: 60_000 })).toMatchObject({ kind: "done" });
    expect(runs).toEqual(["a", "half", "b"]);
  });
});
