import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { sampleGraph, sampleNode } from "@holdfast/test-support/core/graph-sample";
import { type TestWorktree, startTestRunInWorktree } from "@holdfast/test-support/core/toy-worktree";
import {
  ID,
  type State,
  WORK_STORES,
  begin,
  define,
  startTestRun,
  worked,
} from "@holdfast/test-support/core/work-bench";
import type { Trigger } from "./checkpoint.ts";
import { RunHandle } from "./run-handle.ts";
import { type CheckpointRequestParams, requestCheckpoint } from "./signals.ts";
import type { EffectSpec, StageFunction } from "./workflow.ts";

describe("triggers", () => {
  const sending = (more: Partial<EffectSpec<string>> = {}): EffectSpec<string> => ({
    purpose: "send",
    kind: "message",
    target: "them",
    payload: "hello",
    lookUp: async () => ({ kind: "absent" }),
    act: async () => ({ kind: "done", receipt: "sent" }),
    ...more,
  });

  /** Triggers of the stage's own checkpoints, in order, without those of transitions. */
  async function triggersOf(toy: TestWorktree, work: StageFunction<State>): Promise<readonly Trigger[]> {
    const workflow = define({ work }, { reduce: (state, event) => ({ seen: [...state.seen, String(event)] }) });
    await begin(toy.adapters, workflow, toy.workspace);
    expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
    const listed = await toy.store.listCheckpoints({ run: ID });
    return listed
      .toReversed()
      .map(({ trigger }) => trigger)
      .filter((trigger) => trigger !== "stage");
  }

  const worked = { event: "worked", reason: "did it" };

  test("before an external call, if no checkpoint has the current files, values and conversation", async () => {
    for (const change of ["file", "value", "agent"] as const) {
      const toy = await startTestRunInWorktree();
      const triggers = await triggersOf(toy, async (context) => {
        if (change === "file") toy.file("new.txt", "made by a plain step");
        if (change === "value") await context.record("seen", "it");
        if (change === "agent")
          await context.agent({ name: "ask", role: "r", prompt: "p", model: null, yolo: false, changesFiles: false });
        await context.effect(sending());
        return worked;
      });
      expect(triggers, change).toEqual(["before_external"]);
      const [saved] = await toy.store.listCheckpoints({ run: ID, trigger: "before_external" });
      expect(saved).toMatchObject({ name: "message on them", sequence: 2 });
      const journal = await Array.fromAsync(toy.store.readJournal({ run: ID }));
      const intent = journal.findIndex(({ kind }) => kind === "effect.intended");
      expect(journal[intent]?.body).toMatchObject({ detail: { before: 2 } });
      // One commit: nothing comes between them.
      expect(journal[intent + 1]).toMatchObject({ kind: "checkpoint" });
    }
  });

  test("if the newest checkpoint has all of it, none is taken, and the intent names that one", async () => {
    const toy = await startTestRunInWorktree();
    const triggers = await triggersOf(toy, async (context) => {
      await context.step("look", () => "plain steps are in the journal");
      await context.effect(sending());
      await context.effect(sending({ purpose: "again", risk: "twice" }));
      await context.step("risky", () => null, { risk: "as it stands" });
      return worked;
    });
    expect(triggers).toEqual([]);
    const journal = await Array.fromAsync(toy.store.readJournal({ run: ID }));
    const intents = journal.filter(({ kind }) => kind === "effect.intended");
    expect(intents.map(({ body }) => body["detail"])).toEqual([
      { payload: "hello", before: 1 },
      { payload: "hello", before: 1 },
    ]);
  });

  test("before a risky operation, in a step or outside; switched off, none", async () => {
    for (const isOn of [true, false]) {
      const toy = await startTestRunInWorktree();
      const switches = { artifactComplete: true, beforeExternal: isOn, beforeRisky: isOn };
      Object.assign(toy.adapters, { checkpoints: switches });
      const triggers = await triggersOf(toy, async (context) => {
        toy.file("a.txt", "one change");
        await context.step("rebase", () => null, { risk: "rebase of topic", changesFiles: true });
        toy.file("a.txt", "another");
        await context.effect(sending({ risk: "push over main" }));
        toy.file("a.txt", "a third");
        await context.effect(sending({ purpose: "notify" }));
        return worked;
      });
      expect(triggers).toEqual(isOn ? ["before_risky", "automatic", "before_risky", "before_external"] : ["automatic"]);
      const names = (await toy.store.listCheckpoints({ run: ID, trigger: "before_risky" })).map(({ name }) => name);
      expect(names).toEqual(isOn ? ["push over main", "rebase of topic"] : []);
    }
  });

  test("an artifact is complete when all its files exist", async () => {
    const deliver = (root: string, ...names: readonly string[]): void => {
      for (const name of names) writeFileSync(join(root, name), name);
    };
    const toy = await startTestRunInWorktree((task, root) => {
      deliver(root, ...(task.prompt === "all" ? ["plan.md", "notes.md"] : ["plan.md"]));
      return {};
    });
    const { root } = toy.workspace;
    const triggers = await triggersOf(toy, async ({ agent, step }) => {
      const call = { role: "r", model: null, yolo: false, collect: ["plan.md", "notes.md"] };
      await agent({ ...call, name: "half", prompt: "half" });
      await agent({ ...call, name: "all", prompt: "all" });
      const artifacts = ["schema.json"];
      await step("draft", () => deliver(root, "draft.json") ?? null, { changesFiles: true, artifacts });
      await step("final", () => deliver(root, "schema.json") ?? null, { changesFiles: true, artifacts });
      return worked;
    });
    expect(triggers).toEqual(["agent_complete", "artifact_complete", "automatic", "artifact_complete"]);
  });

  test("results of an earlier process are in no checkpoint either: killed after them, the one before the call is still taken", async () => {
    for (const change of ["value", "agent", "graph"] as const) {
      const toy = await startTestRunInWorktree();
      const workflow = define(
        {
          work: async (context) => {
            if (change === "value") await context.record("seen", "it");
            if (change === "agent")
              await context.agent({
                name: "ask",
                role: "r",
                prompt: "p",
                model: null,
                yolo: false,
                changesFiles: false,
              });
            if (change === "graph") await context.graph.set(sampleGraph([sampleNode("a")]));
            await context.effect(sending());
            return worked;
          },
        },
        { reduce: (state, event) => ({ seen: [...state.seen, String(event)] }) },
      );
      await begin(toy.adapters, workflow, toy.workspace);
      // The commit that contains the change. A call starts first; after a loss the run is resumed and the lost call is counted.
      for (const at of [1, 2, 2, 2]) {
        const seen = await toy.kinds();
        if (seen.includes("step.finished") || seen.includes("graph.set")) break;
        await toy.crash(workflow, at, "after");
      }
      expect(await toy.store.listCheckpoints({ run: ID }), change).toHaveLength(1);
      expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
      const [saved] = await toy.store.listCheckpoints({ run: ID, trigger: "before_external" });
      expect(saved, change).toMatchObject({ name: "message on them", sequence: 2 });
      const journal = await Array.fromAsync(toy.store.readJournal({ run: ID }));
      const intent = journal.find(({ kind }) => kind === "effect.intended");
      expect(intent?.body, change).toMatchObject({ detail: { before: 2 } });
    }
  });

  test("an intent and the checkpoint before it commit atomically: killed in between, both exist or neither, and the effect happens once", async () => {
    for (const moment of ["before", "after"] as const) {
      let acts = 0;
      const toy = await startTestRunInWorktree();
      const workflow = define({
        work: async (context) => {
          await context.step("write", () => (toy.file("new.txt", "x"), null));
          await context.effect(sending({ act: async () => ((acts += 1), { kind: "done", receipt: "sent" }) }));
          return worked;
        },
      });
      await begin(toy.adapters, workflow, toy.workspace);
      // The step, then the intent with its checkpoint.
      expect(await toy.crash(workflow, 2, moment)).toBe("died");
      const saved = await toy.store.listCheckpoints({ run: ID, trigger: "before_external" });
      const intended = (await toy.kinds()).filter((kind) => kind === "effect.intended");
      expect([saved.length, intended.length]).toEqual(moment === "before" ? [0, 0] : [1, 1]);
      expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
      expect(acts).toBe(1);
    }
  });
});

describe("requested checkpoints", () => {
  const asking = { run: ID, signal: new AbortController().signal, patienceMs: 60_000 };

  describe.each(WORK_STORES)("over the $name store", (kind) => {
    const start = async () => {
      const toy = await startTestRun(kind, onTestFinished);
      let random = 0;
      const adapters = { ...toy.adapters, random: () => `r${(random += 1)}` };
      const ask = (more: Partial<CheckpointRequestParams> = {}) =>
        requestCheckpoint({ adapters, name: null, ...asking, ...more });
      return { ...toy, adapters, ask };
    };

    test("a request during a stage gets a checkpoint with all finished work, once per request", async () => {
      const { adapters, go, store, ask } = await start();
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
      await begin(adapters, workflow);
      expect(await ask()).toEqual({ kind: "free" });
      expect(await go(workflow, { adapters })).toMatchObject({ kind: "done" });
      const manual = await store.listCheckpoints({ run: ID, trigger: "manual" });
      expect(manual.map(({ name }) => name).toSorted()).toEqual(["one", "two"]);
      const sequences = manual.map(({ sequence }) => sequence);
      expect(answers).toEqual(
        expect.arrayContaining(sequences.map((sequence) => expect.objectContaining({ kind: "saved", sequence }))),
      );
      for (const sequence of sequences)
        expect((await store.getCheckpoint({ run: ID, sequence })).planes.position.stageAttempt.steps).toEqual({ a: 1 });
      expect(await store.listSignals(ID)).toEqual([]);
    });

    test("a holder on another host, one that does not answer and one that cannot save are distinguished", async () => {
      const { adapters, store, ask } = await start();
      await begin(adapters, define({ work: worked }));
      const lease = await store.takeLease({ run: ID, label: "another" });
      expect(await ask({ adapters: { ...adapters, liveness: () => "unknown" } })).toMatchObject({ kind: "elsewhere" });
      expect(await ask({ patienceMs: 0 })).toMatchObject({ kind: "silent" });
      const failing = ask();
      for (;;) {
        const [request] = await store.listSignals(ID);
        if (request === undefined) await new Promise((resolve) => setTimeout(resolve, 5));
        else {
          await store.moveSignal({ run: ID, id: request.id, from: "pending", to: "taken" });
          await store.moveSignal({ run: ID, id: request.id, from: "taken", to: null });
          break;
        }
      }
      expect(await failing).toMatchObject({ kind: "failed" });
      const left = ask();
      await store.releaseLease(lease);
      expect(await left).toEqual({ kind: "free" });
      expect(await ask({ adapters: { ...adapters, liveness: () => "dead" } })).toEqual({ kind: "free" });
    });

    test("a requester that stops waiting withdraws the request", async () => {
      const { adapters, store, ask } = await start();
      await begin(adapters, define({ work: worked }));
      await store.takeLease({ run: ID, label: "another" });
      const controller = new AbortController();
      const asked = ask({ signal: controller.signal });
      while ((await store.listSignals(ID)).length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
      controller.abort(new Error("no more"));
      await expect(asked).rejects.toThrow("no more");
      expect(await store.listSignals(ID)).toEqual([]);
    });

    test("requests to earlier holders are removed, also taken ones, and only the holder's own is answered", async () => {
      const { adapters, go, store } = await start();
      const workflow = define({
        work: async ({ step }) => {
          await step("wait", async () => {
            while ((await store.listSignals(ID)).length > 0) await new Promise((resolve) => setTimeout(resolve, 5));
            return 1;
          });
          return { event: "worked", reason: "did it" };
        },
      });
      await begin(adapters, workflow);
      const request = { run: ID, kind: "checkpoint" } as const;
      // The run's first lease had epoch 1; the executor's has epoch 2.
      await store.putSignal({ ...request, id: "stale", epoch: 1, name: "stale" });
      await store.putSignal({ ...request, id: "taken", epoch: 1, name: "taken" });
      await store.moveSignal({ run: ID, id: "taken", from: "pending", to: "taken" });
      await store.putSignal({ ...request, id: "own", epoch: 2, name: "own" });
      expect(await go(workflow, { adapters })).toMatchObject({ kind: "done" });
      const manual = await store.listCheckpoints({ run: ID, trigger: "manual" });
      expect(manual.map(({ name }) => name)).toEqual(["own"]);
    });

    test("saved by hand after a kill, work finished since the last checkpoint stays finished", async () => {
      const { adapters, go, crash, store } = await start();
      const runs: string[] = [];
      const workflow = define({
        work: async ({ step }) => {
          await step("a", () => runs.push("a"));
          await step("b", () => runs.push("b"));
          return { event: "worked", reason: "did it" };
        },
      });
      await begin(adapters, workflow);
      // The first commit is step a's: after a kill right after it, no checkpoint contains it.
      expect(await crash(workflow, 1, "after")).toBe("died");
      const dead = await store.getLease(ID);
      if (dead !== undefined) await store.releaseLease(dead);
      const run = await store.getRun(ID);
      if (run === undefined) return expect.unreachable();
      await using handle = new RunHandle(adapters, run);
      await handle.save({ trigger: "manual" });
      await handle.close();
      expect(await go(workflow)).toMatchObject({ kind: "done" });
      expect(runs).toEqual(["a", "b"]);
    });

    test("by the timer: also between steps, and not without changes", async () => {
      const { adapters, go, store } = await start();
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
      await begin(adapters, workflow);
      expect(await go(workflow, { adapters: { ...adapters, checkpointEveryMs: 20 } })).toMatchObject({ kind: "done" });
      expect(idle).toBe(2);
    });

    test("a session at its time limit waits with its checkpoint, and the next one continues", async () => {
      const { adapters, go, store } = await start();
      const runs: string[] = [];
      const workflow = define({
        work: async ({ step }) => {
          await step("a", () => runs.push("a"));
          await step("b", async ({ signal }) => {
            if (runs.includes("half")) return runs.push("b");
            runs.push("half");
            if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
            signal.throwIfAborted();
            return 0;
          });
          return { event: "worked", reason: "did it" };
        },
      });
      await begin(adapters, workflow);
      const over = { kind: "waiting", for: "session", until: null };
      // On a slow machine the first sessions may end before they reach the step.
      do expect(await go(workflow, { sessionMs: 50 })).toMatchObject(over);
      while (!runs.includes("half"));
      expect((await store.getRun(ID))?.state).toMatchObject(over);
      expect(await store.listCheckpoints({ run: ID, limit: 1 })).toMatchObject([{ trigger: "session_end" }]);
      expect(await go(workflow, { sessionMs: 60_000 })).toMatchObject({ kind: "done" });
      expect(runs).toEqual(["a", "half", "b"]);
    });
  });
});
