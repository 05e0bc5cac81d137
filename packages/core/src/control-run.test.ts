import { describe, expect, onTestFinished, test } from "vitest";
import {
  ID,
  type State,
  WORK_STORES,
  begin,
  createCrashingStore,
  define,
  startTestRun,
} from "@holdfast/test-support/core/work-bench";
import { HoldfastError } from "@holdfast/platform/error";
import { type SignalParams, sendSignal } from "./control-run.ts";
import { pendingSignal } from "./signals.ts";
import type { StageContext } from "./workflow.ts";

const live = new AbortController().signal;

describe.each(WORK_STORES)("signals over the $name store", (kind) => {
  const start = async () => {
    const toy = await startTestRun(kind, onTestFinished);
    let random = 0;
    const adapters = { ...toy.adapters, random: () => `r${(random += 1)}` };
    const send = (more: Partial<SignalParams["request"]> = {}) =>
      sendSignal({
        adapters,
        signal: live,
        request: { run: ID, kind: "pause", by: "eva", reason: "lunch", now: false, ...more },
      });
    return { ...toy, adapters, send };
  };
  const working = (work: (context: StageContext<State>) => Promise<void>) =>
    define({
      work: async (context) => {
        await work(context);
        return { event: "worked", reason: "did it" };
      },
    });
  /** Adapters that count how often the run's own process has read a signal, and a wait until it has handled one: when it reads again. */
  const watched = (adapters: Awaited<ReturnType<typeof start>>["adapters"]) => {
    const read: string[] = [];
    const listSignals: typeof adapters.store.listSignals = async (run) => {
      const signals = await adapters.store.listSignals(run);
      read.push(...signals.map(({ id }) => id));
      return signals;
    };
    const handled = async (): Promise<void> => {
      while (read.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
    };
    return { handled, adapters: { ...adapters, store: { ...adapters.store, listSignals } } };
  };

  test("a pause lets running steps finish and stops before the next one; resumed, no step is repeated", async () => {
    const { go, send, store, ...toy } = await start();
    const { adapters, handled } = watched(toy.adapters);
    const done: string[] = [];
    let asked: ReturnType<typeof send> | undefined;
    const workflow = working(async ({ step }) => {
      await step("a", async () => {
        asked ??= send();
        await handled();
        done.push("a");
        return 1;
      });
      await step("b", async () => {
        // A crash from here on is shown as a crash, not as the earlier pause.
        expect((await store.getRun(ID))?.state).toEqual({ kind: "active" });
        done.push("b");
        return 2;
      });
    });
    await begin(adapters, workflow);
    expect(await go(workflow, { adapters })).toMatchObject({
      kind: "paused",
      reason: "paused by eva: lunch",
    });
    expect(done).toEqual(["a"]);
    expect(await asked).toMatchObject({ kind: "done", run: { state: { kind: "paused" } } });
    expect(await pendingSignal(store, ID)).toBeNull();
    const latest = await store.latest(ID);
    expect(latest?.planes.position.stageAttempt.steps).toEqual({ a: 1 });
    expect(await go(workflow, { adapters })).toMatchObject({ kind: "done" });
    expect(done).toEqual(["a", "b"]);
  });

  test("a pause ends a sleep, and a pause with now interrupts the step", async () => {
    const { adapters, go, send, store } = await start();
    const patient = {
      ...adapters,
      wait: (_: number, signal: AbortSignal) =>
        new Promise<void>((_resolve, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason), { once: true });
        }),
    };
    const sleeper = working(async ({ sleep }) => await sleep("nap", 3_600_000));
    await begin(patient, sleeper);
    const sleeping = go(sleeper, { adapters: patient });
    expect(await send()).toMatchObject({ kind: "done" });
    expect(await sleeping).toMatchObject({ kind: "paused" });
    const busy = working(async ({ step, signal }) => {
      await step("long", async () => {
        void send({ now: true });
        await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
        signal.throwIfAborted();
        return 1;
      });
    });
    const other = await start();
    await begin(other.adapters, busy);
    const going = other.go(busy, { adapters: other.adapters });
    await other.send({ now: true });
    expect(await going).toMatchObject({ kind: "paused" });
    expect(await pendingSignal(store, ID)).toBeNull();
  });

  test("an abort ends the run permanently, with the reason; it cannot be continued", async () => {
    const { adapters, go, send, store } = await start();
    let asked: ReturnType<typeof send> | undefined;
    const workflow = working(async ({ step, signal }) => {
      await step("a", () => 1);
      await step("b", async () => {
        asked = send({ kind: "abort", now: true, reason: "not needed" });
        await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
        return 2;
      });
    });
    await begin(adapters, workflow);
    const reason = "aborted by eva: not needed";
    expect(await go(workflow, { adapters })).toEqual({ kind: "aborted", reason });
    expect(await asked).toMatchObject({ kind: "done" });
    expect((await store.getRun(ID))?.state).toMatchObject({ kind: "aborted", reason });
    await expect(go(workflow, { adapters })).rejects.toMatchObject({ code: "RUN_FAILED" });
    expect(await send()).toMatchObject({ kind: "ended" });
  });

  test("a run that no process executes is paused at once, and a waiting run keeps what it waits for", async () => {
    const { adapters, go, send, store } = await start();
    const workflow = working(async ({ decide }) => {
      await decide({ name: "go", question: "Go?", options: ["yes"] });
    });
    await begin(adapters, workflow);
    expect(await send()).toMatchObject({ kind: "done", run: { state: { kind: "paused" } } });
    // A resume has nothing to withdraw, because the signal was handled.
    expect(await go(workflow, { adapters })).toMatchObject({ kind: "waiting", for: "you" });
    expect(await send()).toMatchObject({ kind: "pending", run: { state: { kind: "waiting", for: "you" } } });
    expect(await go(workflow, { adapters })).toMatchObject({ kind: "paused" });
    expect((await store.getRun(ID))?.state).toMatchObject({ for: "you", decision: { name: "go" } });
    expect(await send({ kind: "abort" })).toMatchObject({ kind: "done", run: { state: { kind: "aborted" } } });
    expect(await pendingSignal(store, ID)).toBeNull();
  });

  test("on a full disk a signal is sent with the help of the reserve; without one, another way to stop is named", async () => {
    for (const reserve of [4096, 0]) {
      const { adapters, send, store } = await start();
      await begin(
        adapters,
        working(async () => undefined),
      );
      let isFull = true;
      const putSignal: typeof store.putSignal = (signal) =>
        isFull ? Promise.reject(new HoldfastError({ code: "DISK_FULL", message: "no room" })) : store.putSignal(signal);
      const makeRoom = (): Promise<number> => {
        isFull = reserve === 0;
        return Promise.resolve(reserve);
      };
      Object.assign(adapters, { store: { ...store, putSignal, makeRoom } });
      const result = await send().catch((error: unknown) => error);
      expect(result).toMatchObject(
        reserve > 0 ? { kind: "done" } : { code: "DISK_FULL", hint: expect.stringContaining(`holdfast stop ${ID}`) },
      );
      expect((await store.getRun(ID))?.state.kind).toBe(reserve > 0 ? "paused" : "active");
    }
  });

  test("killed before or after each commit, a run that was sent a pause has paused or pauses when it is resumed", async () => {
    for (const moment of ["before", "after"] as const)
      for (let at = 1; ; at += 1) {
        const { adapters, go, send, store } = await start();
        const ran: string[] = [];
        const workflow = working(async ({ step }) => {
          await step("a", () => ran.push("a"));
          await step("b", () => ran.push("b"));
        });
        await begin(adapters, workflow);
        await store.putSignal({ id: "x", run: ID, kind: "pause", by: "eva", reason: "", now: false, at: "2026-01-01" });
        const { promise, resolve } = Promise.withResolvers<"died">();
        const dying = createCrashingStore(store, { at, moment, die: () => resolve("died") });
        const first = await Promise.race([promise, go(workflow, { adapters: { ...adapters, store: dying } })]);
        if (first !== "died") break;
        const lease = await store.getLease(ID);
        if (lease !== undefined) await store.releaseLease(lease);
        expect(await send().catch((error: unknown) => error)).toMatchObject({ kind: "done" });
        expect((await store.getRun(ID))?.state).toMatchObject({ kind: "paused" });
        expect(ran).toEqual([]);
      }
  });
});
