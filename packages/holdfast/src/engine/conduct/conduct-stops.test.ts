import { describe, expect, onTestFinished, test, vi } from "vitest";
import { bump } from "../../core/position/counters.ts";
import { HoldfastError } from "../../core/error.ts";
import type { Store } from "../../ports/store.ts";
import { ID, TOY_CONFIG, TOY_INPUTS, begin, define, startToy, worked } from "../../testing/toy-run.ts";
import type { State } from "../../testing/toy-run.ts";
import { WORK_STORES } from "../../testing/work-stores.ts";
import { answerDecision, raiseLimits } from "./answer.ts";
import { beginRun } from "./begin-run.ts";
import { findRunFor } from "../resume/find-run.ts";
import { RunHandle } from "../run-handle.ts";
import type { WorkflowParams } from "../define-workflow.ts";

describe.each(WORK_STORES)("over the $name store", (kind) => {
  const start = () => startToy(kind, onTestFinished);

  test("counters survive resume: a limit cannot be got round by dying", async () => {
    const guard: WorkflowParams<State>["guard"] = ({ position, result }) => {
      if (result.event !== "failed") return { position, result };
      const attempts = bump(position.attempts, "check");
      if ((attempts["check"] ?? 0) < 3)
        return { position: { ...position, attempts, iteration: position.iteration + 1 }, result };
      return { position: { ...position, attempts }, result: { event: "fatal", reason: "Check failed 3 times" } };
    };
    const workflow = define({ work: worked, check: async () => ({ event: "failed", reason: "no" }) }, { guard });
    for (let at = 1; at < 12; at += 1) {
      const { parts, store, go, crash } = await start();
      await begin(parts, workflow);
      const how = await crash(workflow, at, at % 2 === 0 ? "before" : "after");
      const state = (await store.getRun(ID))?.state.kind;
      if (state !== "fatal") expect(await go(workflow)).toEqual({ kind: "fatal", reason: "Check failed 3 times" });
      const summaries = await store.listCheckpoints({ run: ID });
      expect(summaries.map(({ stage }) => stage)).toEqual(["fatal", "check", "work", "check", "work", "check", "work"]);
      expect(summaries.filter(({ trigger }) => trigger === "iteration")).toHaveLength(2);
      if (how === "ended") return;
    }
    expect.unreachable("the run never ended by itself");
  });

  test("a question parks the run; its answer is the step's result for ever, and it is unparked once", async () => {
    const { parts, go, kinds, store } = await start();
    const answers: string[] = [];
    const workflow = define({
      work: async ({ decide, park, step }) => {
        answers.push(await decide({ name: "ship", question: "Ship it?", options: ["yes", "no"] }));
        const before = await step("before", () => answers.length);
        if (before === answers.length) await park({ on: "person", reason: "look at it" });
        return { event: "worked", reason: "did it" };
      },
    });
    await begin(parts, workflow);
    const parked = { kind: "parked", on: "person", reason: "Ship it?", until: null };
    expect(await go(workflow)).toEqual(parked);
    expect(await go(workflow)).toEqual(parked);
    expect((await store.getRun(ID))?.state).toMatchObject({ decision: { name: "ship", options: ["yes", "no"] } });
    await expect(answerDecision({ parts, run: ID, answer: "maybe" })).rejects.toThrow(/Ship it/);
    await answerDecision({ parts, run: ID, answer: "yes" });
    await expect(answerDecision({ parts, run: ID, answer: "yes" })).rejects.toThrow(/waits for no answer/);
    expect(await go(workflow)).toMatchObject({ kind: "parked", reason: "look at it" });
    expect(await go(workflow)).toMatchObject({ kind: "done" });
    expect(answers).toEqual(["yes", "yes"]);
    expect((await kinds()).filter((kind) => kind === "run.unparked")).toHaveLength(2);
  });

  test("parked until a time: not before it, and unparked once after it", async () => {
    const { parts, go, kinds, pass } = await start();
    let parks = 0;
    const workflow = define({
      work: async ({ park, now }) => {
        if (parks++ === 0)
          await park({ on: "quota", reason: "rate limit", until: new Date(now() + 60_000).toISOString() });
        return { event: "worked", reason: "did it" };
      },
    });
    await begin(parts, workflow);
    expect(await go(workflow)).toMatchObject({ kind: "parked", on: "quota" });
    pass(59_999);
    expect(await go(workflow)).toMatchObject({ kind: "parked", on: "quota" });
    pass(1);
    expect(await go(workflow)).toMatchObject({ kind: "done" });
    expect((await kinds()).filter((kind) => kind === "run.unparked")).toHaveLength(1);
  });

  test("a limit can be raised while nobody works, and what is parked on it goes on", async () => {
    const { parts, go, store } = await start();
    const workflow = define({
      work: async ({ park, position }) => {
        if (position.budget.limit.tokens === null) await park({ on: "budget", reason: "nothing is allowed" });
        return { event: "worked", reason: "did it" };
      },
    });
    await begin(parts, workflow);
    await go(workflow);
    expect(await raiseLimits({ parts, run: ID, limit: { tokens: 10 } })).toMatchObject({ limit: { tokens: 10 } });
    expect((await store.getRun(ID))?.state.kind).toBe("open");
    expect(await go(workflow)).toMatchObject({ kind: "done" });
  });

  test("interrupted: the running step is told, what is finished is kept, and it is resumed as after a crash", async () => {
    const { parts, go, store, ended } = await start();
    const controller = new AbortController();
    const runs: string[] = [];
    const workflow = define({
      work: async ({ step }) => {
        await step("a", () => runs.push("a"));
        await step("b", async ({ signal }) => {
          runs.push("b");
          if (runs.length > 2) return 1;
          controller.abort();
          if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
          signal.throwIfAborted();
          return 0;
        }).catch(() => null);
        // A stage that swallows the stop gets nowhere with it.
        return { event: "worked", reason: "wrongly" };
      },
    });
    await begin(parts, workflow);
    expect(await go(workflow, { signal: controller.signal })).toEqual({ kind: "interrupted" });
    const [newest] = await store.listCheckpoints({ run: ID, limit: 1 });
    expect(newest).toMatchObject({ trigger: "interrupt", stage: "work" });
    // All of the run when it is taken up, the steps of the visit when it stops.
    expect(ended).toEqual([`${store.id}/${ID}`, `${store.id}/${ID}/1`]);
    expect(await store.getLease(ID)).toBeUndefined();
    expect(await go(workflow)).toMatchObject({ kind: "done" });
    expect(runs).toEqual(["a", "b", "b"]);
  });

  test("a lost lease: work stops, nothing more is written, and LEASE_LOST says so", async () => {
    const { parts, store, go, kinds } = await start();
    let stopped = false;
    const workflow = define({
      work: async ({ step, signal }) => {
        await step("a", () => 1);
        const lease = await store.getLease(ID);
        if (lease !== undefined) await store.releaseLease(lease);
        await step("b", () => 2).catch(() => null);
        stopped = signal.aborted;
        await step("c", () => 3);
        return { event: "worked", reason: "did it" };
      },
    });
    await begin(parts, workflow);
    await expect(go(workflow)).rejects.toThrow(expect.objectContaining({ code: "LEASE_LOST" }));
    expect(stopped).toBe(true);
    expect((await kinds()).slice(-2)).toEqual(["step.finished", "lease.released"]);
  });

  test("a lost lease: what was done since is kept aside as a run that can be forked, and the issue's run is found alone", async () => {
    const { parts, store, go } = await start();
    const workflow = define({
      work: async ({ step }) => {
        await step("a", () => 1);
        const lease = await store.getLease(ID);
        if (lease !== undefined) await store.releaseLease(lease);
        await step("b", () => 2);
        return { event: "worked", reason: "did it" };
      },
    });
    const work = { kind: "issue", number: 42 } as const;
    await beginRun({ parts, workflow, id: ID, work, inputs: TOY_INPUTS, config: TOY_CONFIG, workspace: undefined });
    const error = await go(workflow).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "LEASE_LOST", data: { aside: expect.stringMatching(/^run-1-aside-\d+@1$/) } });
    const [, aside] = (await store.listRuns()).map(({ id }) => id).toSorted();
    const kept = await store.latest(aside ?? "");
    expect(kept?.planes.position.visit.steps).toEqual({ a: 1, b: 2 });
    expect(kept?.parent?.id).toBe(`${ID}@1`);
    expect(await findRunFor({ parts, issue: 42 })).toMatchObject({
      kind: "one",
      run: { id: ID, state: { kind: "open" } },
    });
    const handle = new RunHandle(parts, (await store.getRun(aside ?? "")) ?? expect.fail());
    expect((await handle.fork({ sequence: 1, worktree: false })).id).not.toBe(aside);
  });

  test("a full disk parks the run where an entry still fits, says so where none does, and resume goes on once there is room", async () => {
    for (const fits of [true, false]) {
      const { parts, store, go } = await start();
      const full = fullStore(store, { entries: fits });
      let runs = 0;
      const workflow = define({
        work: async ({ step }) => ({ event: "worked", reason: String(await step("a", () => ++runs)) }),
      });
      await begin(parts, workflow);
      const outcome = await go(workflow, { parts: { ...parts, store: full } }).catch((thrown: unknown) => thrown);
      if (fits) expect(outcome).toMatchObject({ kind: "parked", on: "disk", reason: "The disk is full: no room" });
      else expect(outcome).toMatchObject({ code: "DISK_FULL", hint: expect.stringContaining(`holdfast resume ${ID}`) });
      expect((await store.getRun(ID))?.state.kind).toBe(fits ? "parked" : "open");
      expect(await go(workflow)).toMatchObject({ kind: "done" });
      expect(runs).toBe(fits ? 1 : 2);
    }
  });

  test("where no entry fits, the store's reserve is released for it; without room nothing is done again", async () => {
    const { parts, store, go } = await start();
    let isFull = true;
    let free = 0;
    const commit: Store["commit"] = (request) =>
      isFull
        ? Promise.reject(new HoldfastError({ code: "DISK_FULL", message: "no room", data: { path: "/full" } }))
        : store.commit(request);
    const makeRoom = async (): Promise<number> => {
      isFull = false;
      return 4096;
    };
    const full = new Proxy(store, {
      get: (target, key) => (key === "commit" ? commit : key === "makeRoom" ? makeRoom : Reflect.get(target, key)),
    });
    const measured = { ...parts, freeBytes: async () => free };
    let runs = 0;
    const workflow = define({
      work: async ({ step }) => ({ event: "worked", reason: String(await step("a", () => ++runs)) }),
    });
    await begin(parts, workflow);
    const outcome = await go(workflow, { parts: { ...measured, store: full } });
    const reason = "The disk is full: no room. /full needs at least 8.0 MiB, and 0.0 MiB are free.";
    expect(outcome).toMatchObject({ kind: "parked", on: "disk", reason });
    expect((await store.getRun(ID))?.state).toMatchObject({ kind: "parked", on: "disk", reason });
    const before = runs;
    expect(await go(workflow, { parts: measured })).toMatchObject({ kind: "parked", on: "disk" });
    expect(runs).toBe(before);
    free = 2 ** 30;
    expect(await go(workflow, { parts: measured })).toMatchObject({ kind: "done" });
  });

  test("one call at a time carries a run in a process", async () => {
    const { parts, go } = await start();
    const { promise, resolve } = Promise.withResolvers<void>();
    const workflow = define({
      work: async () => {
        await promise;
        return { event: "worked", reason: "did it" };
      },
    });
    await begin(parts, workflow);
    const first = go(workflow);
    await expect(go(workflow)).rejects.toThrow(expect.objectContaining({ code: "LEASE_HELD" }));
    resolve();
    expect(await first).toMatchObject({ kind: "done" });
  });

  test("a lost lease is noticed by the heartbeat, also while a long step writes nothing", async () => {
    vi.useFakeTimers({ toFake: ["setInterval"] });
    onTestFinished(() => void vi.useRealTimers());
    const { parts, store, go } = await start();
    const workflow = define({
      work: async ({ step }) => {
        await step("long", async ({ signal }) => {
          const lease = await store.getLease(ID);
          if (lease !== undefined) await store.releaseLease(lease);
          vi.advanceTimersByTime(30_000);
          await new Promise((resolve) => signal.addEventListener("abort", resolve));
          return 1;
        });
        return { event: "worked", reason: "did it" };
      },
    });
    await begin(parts, workflow);
    await expect(go(workflow)).rejects.toThrow(expect.objectContaining({ code: "LEASE_LOST" }));
  });
});

/** Files and checkpoints do not fit any more; small entries may. */
function fullStore(store: Store, fits: { readonly entries: boolean }): Store {
  const commit: Store["commit"] = (request) =>
    request.checkpoint === undefined && fits.entries
      ? store.commit(request)
      : Promise.reject(new HoldfastError({ code: "DISK_FULL", message: "no room", hint: "Free some." }));
  return new Proxy(store, { get: (target, key) => (key === "commit" ? commit : Reflect.get(target, key)) });
}
