import { describe, expect, onTestFinished, test, vi } from "vitest";
import { HoldfastError } from "@holdfast/platform/error";
import {
  ID,
  type State,
  TOY_CONFIG,
  TOY_INPUTS,
  WORK_STORES,
  begin,
  createCrashingStore,
  define,
  startTestRun,
} from "@holdfast/test-support/core/work-bench";
import type { Adapters } from "./adapters.ts";
import { answerDecision, beginRun } from "./control-run.ts";
import type { Lookup } from "./effects.ts";
import { executeRun } from "./execute.ts";
import { acquireLease } from "./hold-lease.ts";
import type { Json } from "./json.ts";
import { RunHandle } from "./run-handle.ts";
import { RERUN_OF } from "./run.ts";
import type { Store } from "./store.ts";
import type { EffectOutcome, EffectSpec, StageFunction } from "./workflow.ts";

/** A target outside that counts what was done to it, and can be made hard to reach. */
function createTarget() {
  const target = {
    made: [] as string[],
    lookUps: 0,
    reachable: true,
    refusal: null as string | null,
    async lookUp(key: string): Promise<Lookup> {
      target.lookUps += 1;
      if (!target.reachable) throw new Error("no route");
      return target.made.includes(key) ? { kind: "present", receipt: `receipt of ${key}` } : { kind: "absent" };
    },
    async act(key: string): Promise<EffectOutcome<string>> {
      if (target.refusal !== null) return { kind: "failed", reason: target.refusal, detail: { why: "rule 7" } };
      target.made.push(key);
      if (!target.reachable) throw new Error("connection reset");
      return { kind: "done", receipt: `receipt of ${key}` };
    },
  };
  return target;
}

const FIRST_KEY = [ID, "work", "open.1"].join("/");

function spec(
  target: ReturnType<typeof createTarget>,
  stageAttempt: number,
  more: Partial<EffectSpec<string>> = {},
): EffectSpec<string> {
  const key = more.per === "run" ? `${ID}/work/open` : `${ID}/work/open.${stageAttempt}`;
  return {
    purpose: "open",
    kind: "pull_request.create",
    target: "origin",
    payload: { title: "t" },
    lookUp: () => target.lookUp(key),
    act: (given) => target.act(given),
    ...more,
  };
}

async function undo(adapters: Adapters, store: Store): Promise<void> {
  await using held = await acquireLease(adapters, ID);
  const body = { key: FIRST_KEY, outcome: "undone", adopted: false, receipt: {} } as const;
  const { lease } = held;
  // An undo needs its own intent first.
  await expect(store.commit({ lease, entries: [{ kind: "effect.undone", body }] })).rejects.toMatchObject({
    code: "CONFLICT",
  });
  await store.commit({ lease, entries: [{ kind: "effect.undoing", body: { key: FIRST_KEY } }] });
  await store.commit({ lease, entries: [{ kind: "effect.undone", body }] });
}

describe.each(WORK_STORES)("over the $name store", (kind) => {
  const start = () => startTestRun(kind, onTestFinished);
  const doing =
    (
      target: ReturnType<typeof createTarget>,
      outcomes: EffectOutcome<Json>[],
      more: Partial<EffectSpec<string>> = {},
    ): StageFunction<State> =>
    async ({ effect, position }) => {
      outcomes.push(await effect(spec(target, position.stageAttempt.number, more)));
      return { event: "worked", reason: "did it" };
    };

  test("an effect is done once, wherever the process dies", async () => {
    for (let at = 1, how = "died"; how === "died"; at += 1) {
      for (const moment of ["before", "after"] as const) {
        const { adapters, store, go, crash } = await start();
        const target = createTarget();
        const outcomes: EffectOutcome<Json>[] = [];
        const workflow = define({ work: doing(target, outcomes) });
        await begin(adapters, workflow);
        how = await crash(workflow, at, moment);
        expect(await go(workflow)).toMatchObject({ kind: "done" });
        expect(target.made).toEqual([`${ID}/work/open.1`]);
        expect(outcomes.at(-1)).toEqual({ kind: "done", receipt: `receipt of ${ID}/work/open.1` });
        expect(await store.listEffects(ID)).toMatchObject([{ key: `${ID}/work/open.1`, state: { kind: "done" } }]);
      }
    }
  });

  test("an undone effect no longer counts, and happens again once, under its own key", async () => {
    const { adapters, store, go } = await start();
    const target = createTarget();
    const outcomes: EffectOutcome<Json>[] = [];
    const workflow = define({
      work: async (context) => {
        const { number } = context.position.stageAttempt;
        const key = outcomes.length === 0 ? FIRST_KEY : `${FIRST_KEY}-again-2`;
        outcomes.push(await context.effect(spec(target, number, { lookUp: () => target.lookUp(key) })));
        if ((await context.decide({ name: "look", question: "Continue?", options: ["yes"] })) !== "yes")
          throw new Error();
        return { event: "worked", reason: "did it" };
      },
    });
    await begin(adapters, workflow);
    expect(await go(workflow)).toMatchObject({ kind: "waiting" });
    await undo(adapters, store);
    await answerDecision({ adapters, run: ID, answer: "yes" });
    expect(await go(workflow)).toMatchObject({ kind: "done" });
    expect(target.made).toEqual([FIRST_KEY, `${FIRST_KEY}-again-2`]);
    expect(outcomes.at(-1)).toEqual({ kind: "done", receipt: `receipt of ${FIRST_KEY}-again-2` });
    expect((await store.listEffects(ID)).map(({ state }) => state.kind)).toEqual(["undone", "done"]);
  });

  test("a fork in the middle of a stage counts its parent's effect, unless the parent undid it: then it asks, and acts once", async () => {
    for (const undone of [false, true]) {
      const { adapters, store, go } = await start();
      const target = createTarget();
      const outcomes: EffectOutcome<Json>[] = [];
      const workflow = define({
        work: async (context) => {
          const key = `${context.run.id}/work/open.1`;
          outcomes.push(await context.effect(spec(target, 1, { lookUp: () => target.lookUp(key) })));
          await context.decide({ name: "look", question: "Continue?", options: ["yes"] });
          return { event: "worked", reason: "did it" };
        },
      });
      await begin(adapters, workflow);
      expect(await go(workflow)).toMatchObject({ kind: "waiting" });
      const handle = new RunHandle(adapters, (await store.getRun(ID)) ?? expect.fail());
      await handle.save({});
      await handle.fork({ sequence: (await store.latest(ID))?.sequence ?? 0, id: "forked", worktree: false });
      if (undone) await undo(adapters, store);
      const runs = () => executeRun({ adapters, run: "forked", workflow, signal: new AbortController().signal });
      const forked = await runs();
      if (!undone) {
        expect(forked).toMatchObject({ kind: "waiting", reason: expect.stringContaining("Continue?") });
        expect(target.made).toEqual([FIRST_KEY]);
        continue;
      }
      expect(forked).toMatchObject({ kind: "waiting", reason: expect.stringContaining("May it push and publish?") });
      await answerDecision({ adapters, run: "forked", answer: "publish" });
      expect(await runs()).toMatchObject({ kind: "waiting", reason: expect.stringContaining("Continue?") });
      await answerDecision({ adapters, run: "forked", answer: "yes" });
      expect(await runs()).toMatchObject({ kind: "done" });
      expect(target.made).toEqual([FIRST_KEY, "forked/work/open.1"]);
      expect(outcomes.at(-1)).toEqual({ kind: "done", receipt: "receipt of forked/work/open.1" });
    }
  });

  test("after an interrupted attempt, absence is trusted only when the target cannot act late any more", async () => {
    const { adapters, go, crash, waits, pass } = await start();
    const target = createTarget();
    let isLate = true;
    const outcomes: EffectOutcome<Json>[] = [];
    const late = {
      lateMs: 12_000,
      lookUp: async () => (isLate ? ({ kind: "absent" } as const) : target.lookUp(`${ID}/work/open.1`)),
    };
    const workflow = define({ work: doing(target, outcomes, late) });
    await begin(adapters, workflow);
    // The process dies after it acted and before it could record that.
    for (let at = 1; target.made.length === 0; at += 1) await crash(workflow, at, "before");
    expect(waits).toEqual([]);
    pass(2_000);
    const wait: typeof adapters.wait = async (milliseconds, signal) => {
      isLate = false;
      await adapters.wait(milliseconds, signal);
    };
    expect(await go(workflow, { adapters: { ...adapters, wait } })).toMatchObject({ kind: "done" });
    // The wait starts at the resume, not at the attempt, because the time of the earlier process's death is unknown.
    expect(waits).toEqual([12_000]);
    expect(target.made).toEqual([`${ID}/work/open.1`]);
  });

  test("the first attempt waits for nothing, and its children have a mark of the run that a stop ignores", async () => {
    const { adapters, store, go, waits } = await start();
    const target = createTarget();
    const marks: string[] = [];
    const act: EffectSpec<string>["act"] = (key, { mark }) => {
      marks.push(mark);
      return target.act(key);
    };
    const workflow = define({ work: doing(target, [], { lateMs: 12_000, act }) });
    await begin(adapters, workflow);
    expect(await go(workflow)).toMatchObject({ kind: "done" });
    expect(waits).toEqual([]);
    expect(marks).toEqual([`${store.id}/${ID}/effect/open`]);
  });

  test("an existing result is adopted, not created again", async () => {
    const { adapters, store, go } = await start();
    const target = createTarget();
    target.made.push(`${ID}/work/open.1`);
    const workflow = define({ work: doing(target, []) });
    await begin(adapters, workflow);
    await go(workflow);
    expect(target.made).toHaveLength(1);
    expect((await store.listEffects(ID))[0]?.state).toMatchObject({ kind: "done", adopted: true });
  });

  test("a refusal is a value with its detail, the same after a crash, and another stage attempt may try again", async () => {
    const { adapters, go, store } = await start();
    const target = createTarget();
    target.refusal = "protected";
    const outcomes: EffectOutcome<Json>[] = [];
    let died = false;
    const work: StageFunction<State> = async (context) => {
      await doing(target, outcomes)(context);
      if (!died) {
        died = true;
        throw new Error("died");
      }
      return { event: "worked", reason: "did it" };
    };
    const check: StageFunction<State> = async ({ position }) => {
      target.refusal = null;
      return position.stageAttempt.number < 4
        ? { event: "failed", reason: "again" }
        : { event: "passed", reason: "fine" };
    };
    const workflow = define({ work, check });
    await begin(adapters, workflow);
    await expect(go(workflow)).rejects.toThrow("died");
    expect((await store.listEffects(ID))[0]?.state).toMatchObject({ reason: "protected", detail: { why: "rule 7" } });
    await go(workflow);
    const refused = { kind: "failed", reason: "protected", detail: { why: "rule 7" } };
    expect(outcomes.slice(0, 2)).toEqual([refused, refused]);
    expect(outcomes[2]).toMatchObject({ kind: "done" });
    expect(target.made).toEqual([`${ID}/work/open.3`]);
  });

  test("a lost answer is looked up, and a target that cannot report asks a person", async () => {
    const { adapters, store, go, waits } = await start();
    const target = createTarget();
    target.reachable = false;
    const work = doing(target, [], {
      lookUp: async () => (target.made.length === 0 ? { kind: "absent" } : await target.lookUp(`${ID}/work/open.1`)),
    });
    const workflow = define({ work });
    await begin(adapters, workflow);
    const outcome = await go(workflow);
    expect(outcome).toMatchObject({
      kind: "waiting",
      for: "you",
      reason: expect.stringContaining("connection reset"),
    });
    expect(waits).toEqual([1_000, 5_000, 15_000]);
    expect((await store.listEffects(ID))[0]?.state.kind).toBe("unknown");
    expect((await store.latest(ID))?.planes.effects.pending).toEqual([`${ID}/work/open.1`]);
    target.reachable = true;
    expect(await go(workflow)).toMatchObject({ kind: "done" });
    expect(target.made).toHaveLength(1);
  });

  const failsLater = (data: Record<string, unknown> = {}) =>
    new HoldfastError({ code: "FORGE_FAILED", message: "status 502", retry: "later", data });

  test("a target that fails for now is looked up and tried again by the error policy, and the run then waits for it", async () => {
    const { adapters, store, go, waits, pass } = await start();
    const target = createTarget();
    let failing = 7;
    let tries = 0;
    const act: EffectSpec<string>["act"] = async (key) => {
      tries += 1;
      failing -= 1;
      if (failing >= 0) throw failsLater();
      return await target.act(key);
    };
    const outcomes: EffectOutcome<Json>[] = [];
    const workflow = define({ work: doing(target, outcomes, { act }) });
    await begin(adapters, workflow);
    const until = new Date(adapters.clock.now() + 462_000 + 300_000).toISOString();
    expect(await go(workflow)).toEqual({
      kind: "waiting",
      for: "forge",
      reason: expect.stringContaining("502"),
      until,
    });
    expect(waits).toEqual([2_000, 10_000, 30_000, 120_000, 300_000]);
    expect([tries, target.lookUps]).toEqual([6, 6]);
    expect(await go(workflow)).toMatchObject({ kind: "waiting", for: "forge" });
    pass(300_000);
    expect(await go(workflow)).toMatchObject({ kind: "done" });
    expect(target.made).toEqual([FIRST_KEY]);
    expect((await store.listEffects(ID))[0]?.state).toMatchObject({ kind: "done" });
  });

  test("a target that acted before it failed is adopted", async () => {
    const { adapters, go, store } = await start();
    const target = createTarget();
    const act: EffectSpec<string>["act"] = async (key) => {
      await target.act(key);
      throw failsLater();
    };
    const workflow = define({ work: doing(target, [], { act }) });
    await begin(adapters, workflow);
    expect(await go(workflow)).toMatchObject({ kind: "done" });
    expect(target.made).toHaveLength(1);
    expect((await store.listEffects(ID))[0]?.state).toMatchObject({ kind: "done", adopted: true });
  });

  test("a time that the target gives is waited for, whether the act or the look-up returned it", async () => {
    for (const where of ["act", "look"] as const) {
      const { adapters, go, waits, pass, store } = await start();
      const target = createTarget();
      const until = new Date(adapters.clock.now() + 60_000).toISOString();
      let limited = true;
      const limit = (): void => {
        if (limited) throw failsLater({ until, undone: true });
      };
      const more: Partial<EffectSpec<string>> =
        where === "act"
          ? { act: async (key) => (limit(), await target.act(key)) }
          : { lookUp: async () => (limit(), await target.lookUp(FIRST_KEY)) };
      const workflow = define({ work: doing(target, [], more) });
      await begin(adapters, workflow);
      expect(await go(workflow)).toMatchObject({ kind: "waiting", for: "forge", until });
      expect(waits).toEqual([]);
      // The target reported that it has not acted, so nothing is in doubt.
      expect((await store.listEffects(ID))[0]?.state.kind).toBe("intended");
      limited = false;
      pass(60_000);
      expect(await go(workflow)).toMatchObject({ kind: "done" });
      expect(target.made).toHaveLength(1);
    }
  });

  test("once per run: later stage attempts answer from the ledger, and other content under its key is refused", async () => {
    const { adapters, go } = await start();
    const target = createTarget();
    let title = "t";
    const work: StageFunction<State> = async ({ effect, position }) => {
      await effect(spec(target, position.stageAttempt.number, { per: "run", payload: { title } }));
      return { event: "worked", reason: "did it" };
    };
    const check: StageFunction<State> = async ({ position }) => {
      if (position.stageAttempt.number > 4) title = "another";
      return { event: "failed", reason: "again" };
    };
    const workflow = define({ work, check });
    await begin(adapters, workflow);
    await expect(go(workflow)).rejects.toThrow(expect.objectContaining({ code: "CONFLICT" }));
    expect(target.made).toEqual([`${ID}/work/open`]);
    expect(target.lookUps).toBe(1);
  });

  test("the consent of a rerun counts, wherever the process dies after the answer", async () => {
    for (let at = 1, how = "died"; how === "died"; at += 1) {
      const { adapters, go, crash } = await start();
      const target = createTarget();
      const workflow = define({ work: doing(target, []) });
      const born = { id: ID, work: { kind: "none" }, inputs: TOY_INPUTS, config: TOY_CONFIG } as const;
      await beginRun({ adapters, workflow, ...born, workspace: undefined, labels: { [RERUN_OF]: "first" } });
      expect(await go(workflow)).toMatchObject({ kind: "waiting", for: "you" });
      await answerDecision({ adapters, run: ID, answer: "publish" });
      how = await crash(workflow, at, "after");
      expect(await go(workflow)).toMatchObject({ kind: "done" });
      expect(target.made).toHaveLength(1);
    }
  });

  test("an effect of an approved kind waits for the answer, and happens once wherever the process dies", async () => {
    for (let at = 1, how = "died"; how === "died"; at += 1) {
      for (const moment of ["before", "after"] as const) {
        const { adapters, store, go, crash } = await start();
        const target = createTarget();
        const workflow = define({ work: doing(target, [], { kind: "push", about: "3 commits" }) });
        await begin(adapters, workflow);
        const gated = { adapters: { ...adapters, approve: ["push"] } };
        const question = "run-1 is ready for push on origin (3 commits). May it go ahead?";
        const died = createCrashingStore(store, { at, moment, die: () => undefined });
        const first = go(workflow, { adapters: { ...gated.adapters, store: died } });
        await Promise.race([first, vi.waitFor(() => expect(died.commits).toBeGreaterThanOrEqual(at))]);
        expect(await go(workflow, gated)).toMatchObject({ kind: "waiting", for: "you", reason: question });
        expect(target.made).toEqual([]);
        expect(await store.listEffects(ID)).toEqual([]);
        await answerDecision({ adapters, run: ID, answer: "approve" });
        how = await crash(workflow, at, moment);
        expect(await go(workflow, gated)).toMatchObject({ kind: "done" });
        expect(target.made).toHaveLength(1);
      }
    }
  });

  test("an approval covers one content: a repeated attempt does not ask, another content and a restore do", async () => {
    const { adapters, store, go } = await start();
    const target = createTarget();
    let title = "one";
    const work: StageFunction<State> = async ({ effect, position, wait }) => {
      const { number } = position.stageAttempt;
      target.refusal = "hook";
      await effect(spec(target, number, { kind: "push", payload: title, purpose: "push" }));
      target.refusal = null;
      await effect(spec(target, number, { kind: "push", payload: title, purpose: "push-2" }));
      return await wait({ for: "you", reason: "Look" });
    };
    const workflow = define({ work });
    await begin(adapters, workflow);
    const gated = { adapters: { ...adapters, approve: ["push"] } };
    const asks = { kind: "waiting", reason: expect.stringContaining("May it go ahead?") };
    expect(await go(workflow, gated)).toMatchObject(asks);
    await answerDecision({ adapters, run: ID, answer: "approve" });
    expect(await go(workflow, gated)).toMatchObject({ kind: "waiting", reason: "Look" });
    expect(target.made).toHaveLength(1);
    const run = await store.getRun(ID);
    if (run === undefined) throw new Error("no run");
    {
      await using handle = new RunHandle(adapters, run);
      await handle.restore({ sequence: 1 });
    }
    expect(await go(workflow, gated)).toMatchObject(asks);
    await answerDecision({ adapters, run: ID, answer: "approve" });
    title = "two";
    expect(await go(workflow, gated)).toMatchObject(asks);
    expect(target.made).toHaveLength(1);
  });

  test("an effect that is not approved ends the run, and other kinds do not ask", async () => {
    for (const approve of [["push"], ["other"]]) {
      const { adapters, go } = await start();
      const target = createTarget();
      const workflow = define({ work: doing(target, [], { kind: "push" }) });
      await begin(adapters, workflow);
      const gated = { adapters: { ...adapters, approve } };
      const first = await go(workflow, gated);
      expect(first.kind).toBe(approve.includes("push") ? "waiting" : "done");
      if (first.kind === "done") continue;
      await answerDecision({ adapters, run: ID, answer: "stop" });
      expect(await go(workflow, gated)).toMatchObject({
        kind: "failed",
        reason: "You did not approve push on origin",
      });
      expect(target.made).toEqual([]);
    }
  });

  test("interrupted while acting: unknown until looked up", async () => {
    const { adapters, store, go } = await start();
    const target = createTarget();
    const controller = new AbortController();
    const { promise, resolve } = Promise.withResolvers<void>();
    const work: StageFunction<State> = async ({ effect, position }) => {
      const slow = async (key: string): Promise<EffectOutcome<string>> => {
        const acted = await target.act(key);
        controller.abort();
        await promise;
        throw new Error(`answer of ${acted.kind} lost`);
      };
      await effect(spec(target, position.stageAttempt.number, { act: slow }));
      return { event: "worked", reason: "did it" };
    };
    const workflow = define({ work });
    await begin(adapters, workflow);
    setImmediate(resolve);
    expect(await go(workflow, { signal: controller.signal })).toEqual({ kind: "interrupted" });
    expect((await store.listEffects(ID))[0]?.state.kind).toBe("unknown");
    expect(await go(workflow)).toMatchObject({ kind: "done" });
    expect(target.made).toHaveLength(1);
  });
});
