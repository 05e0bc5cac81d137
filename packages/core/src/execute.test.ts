import { describe, expect, onTestFinished, test, vi } from "vitest";
import { HoldfastError } from "@holdfast/platform/error";
import { ISSUE, RUN, type StoppedRun, createStoppedRun } from "@holdfast/test-support/core/resume-scene";
import {
  ID,
  type State,
  TOY_CONFIG,
  TOY_INPUTS,
  WORK_STORES,
  begin,
  define,
  startTestRun,
  worked,
} from "@holdfast/test-support/core/work-bench";
import { collect } from "@holdfast/testing/store-contract/harness";
import { crunchFreshness } from "@holdfast/workflows/crunch/phases";
import type { Planes } from "./checkpoint.ts";
import { answerDecision, beginRun, findRunFor, raiseLimits } from "./control-run.ts";
import type { Json, JsonObject } from "./json.ts";
import { bump } from "./position.ts";
import type { ProgressEvent } from "./progress.ts";
import { RunHandle } from "./run-handle.ts";
import type { Store } from "./store.ts";
import type { StageFunction, WorkflowParams } from "./workflow.ts";

describe("execute steps", () => {
  describe.each(WORK_STORES)("over the $name store", (kind) => {
    const start = () => startTestRun(kind, onTestFinished);

    test("a finished step is never run again, wherever the process dies", async () => {
      for (let at = 1, how = "died"; how === "died"; at += 1) {
        for (const moment of ["before", "after"] as const) {
          const { adapters, store, go, crash } = await start();
          const runs: string[] = [];
          const work: StageFunction<State> = async ({ step, state }) => {
            const once = (name: string) => step(name, () => `${name} ${runs.push(name)}`);
            const seen = [await once("a"), ...(await Promise.all([once("b"), once("c")])), await once("d")];
            return { event: "worked", reason: "did it", state: { seen: [...state.seen, ...seen] } };
          };
          const workflow = define({ work });
          await begin(adapters, workflow);
          how = await crash(workflow, at, moment);
          const journal = await collect(store.readJournal({ run: ID }));
          const finished = journal.filter(({ kind }) => kind === "step.finished").map(({ body }) => body["step"]);
          const before = runs.length;
          expect(await go(workflow)).toMatchObject({ kind: "done" });
          const again = runs.slice(before);
          expect(again.filter((name) => finished.includes(name))).toEqual([]);
          const values = (await store.latest(ID))?.planes.context.values as JsonObject & State;
          expect(values.seen.map((text) => text.slice(0, 1))).toEqual(["a", "b", "c", "d"]);
        }
      }
    });

    test("a plain step is one commit with one entry", async () => {
      const { adapters, store, go } = await start();
      let commits = 0;
      const counting = new Proxy(store, {
        get: (target, key) => {
          if (key === "commit") commits += 1;
          return Reflect.get(target, key) as unknown;
        },
      });
      const counts: number[] = [];
      const workflow = define({
        work: async ({ step }) => {
          for (let i = 0; i < 5; i += 1) {
            await step(`s${i}`, () => i);
            counts.push(commits);
          }
          return { event: "worked", reason: "did it" };
        },
      });
      await begin(adapters, workflow);
      await go(workflow, { adapters: { ...adapters, store: counting } });
      expect(counts).toEqual([1, 2, 3, 4, 5]);
    });

    test("the result of a step stays unchanged, and is frozen", async () => {
      const { adapters, store, go } = await start();
      const live = { list: [1] };
      const workflow = define({
        work: async ({ step, checkpoint }) => {
          const got = await step("s", () => live);
          live.list.push(2);
          expect(Object.isFrozen(got.list)).toBe(true);
          await checkpoint({ trigger: "manual" });
          return { event: "worked", reason: "did it" };
        },
      });
      await begin(adapters, workflow);
      await go(workflow);
      const [saved] = await store.listCheckpoints({ run: ID, trigger: "manual" });
      const { planes } = await store.getCheckpoint({ run: ID, sequence: saved?.sequence ?? 0 });
      expect(planes.position.stageAttempt.steps).toEqual({ s: { list: [1] } });
    });

    test("a step's failure is counted and rethrown, and the step may be tried again; a restart keeps the count", async () => {
      const { adapters, go } = await start();
      const attempts: number[] = [];
      const work: StageFunction<State> = async ({ step }) => {
        await step("flaky", ({ attempt }) => {
          attempts.push(attempt);
          if (attempt < 4) throw new Error("not yet");
          return attempt;
        }).catch(() =>
          step("flaky", ({ attempt }) => {
            attempts.push(attempt);
            throw new Error("still not");
          }),
        );
        return { event: "worked", reason: "did it" };
      };
      const workflow = define({ work });
      await begin(adapters, workflow);
      await expect(go(workflow)).rejects.toThrow("still not");
      expect(attempts).toEqual([1, 2]);
      await expect(go(workflow)).rejects.toThrow("still not");
      expect(await go(workflow)).toMatchObject({ kind: "done" });
      expect(attempts).toEqual([1, 2, 3, 4, 5]);
    });

    test("a value that is not JSON is refused with its path, and so is a duplicate name", async () => {
      const { adapters, go } = await start();
      const bad = define({
        work: async ({ step }) => {
          await step("s", () => ({ at: new Date() }) as unknown as Json);
          return { event: "worked", reason: "did it" };
        },
      });
      await begin(adapters, bad);
      await expect(go(bad)).rejects.toThrow(expect.objectContaining({ code: "NOT_JSON" }));
      const twice = define({
        work: async ({ step }) => {
          await step("s", () => 1);
          await step("s", () => 2);
          return { event: "worked", reason: "did it" };
        },
      });
      await expect(go(twice)).rejects.toThrow(expect.objectContaining({ code: "USAGE" }));
    });

    test("WORKFLOW_CHANGED: another definition, unless allowed; a step that is no longer requested, by name", async () => {
      const { adapters, go } = await start();
      const work =
        (names: readonly string[]): StageFunction<State> =>
        async ({ step }) => {
          for (const name of names) await step(name, () => name);
          if (names.length === 2) throw new Error("stop here");
          return { event: "worked", reason: "did it" };
        };
      const first = define({ work: work(["a", "b"]) });
      await begin(adapters, first);
      await expect(go(first)).rejects.toThrow("stop here");
      const newer = define({ work: work(["a"]) }, { version: 2 });
      await expect(go(newer)).rejects.toThrow(expect.objectContaining({ code: "WORKFLOW_CHANGED" }));
      await expect(go(newer, { allowChanged: true })).rejects.toThrow(/had finished: b$/);
      const same = define({ work: work(["a", "b", "c"]) });
      expect(await go(same)).toMatchObject({ kind: "done" });
    });

    test("a sleep waits for the rest only after a restart", async () => {
      const { adapters, go, pass, waits } = await start();
      const workflow = define({
        work: async ({ sleep, step }) => {
          await step("before", () => 1);
          await sleep("nap", 60_000);
          return { event: "worked", reason: "did it" };
        },
      });
      await begin(adapters, workflow);
      const early = { ...adapters, wait: () => Promise.reject(new Error("died asleep")) };
      await expect(go(workflow, { adapters: early })).rejects.toThrow("died asleep");
      pass(45_000);
      expect(await go(workflow)).toMatchObject({ kind: "done" });
      expect(waits).toEqual([15_000]);
    });
  });
});

describe("execute stops", () => {
  describe.each(WORK_STORES)("over the $name store", (kind) => {
    const start = () => startTestRun(kind, onTestFinished);

    test("counters survive resume: a crash does not bypass a limit", async () => {
      const guard: WorkflowParams<State>["guard"] = ({ position, result }) => {
        if (result.event !== "failed") return { position, result };
        const attempts = bump(position.attempts, "check");
        if ((attempts["check"] ?? 0) < 3)
          return { position: { ...position, attempts, iteration: position.iteration + 1 }, result };
        return { position: { ...position, attempts }, result: { event: "fatal", reason: "Check failed 3 times" } };
      };
      const workflow = define({ work: worked, check: async () => ({ event: "failed", reason: "no" }) }, { guard });
      for (let at = 1; at < 12; at += 1) {
        const { adapters, store, go, crash } = await start();
        await begin(adapters, workflow);
        const how = await crash(workflow, at, at % 2 === 0 ? "before" : "after");
        const state = (await store.getRun(ID))?.state.kind;
        if (state !== "failed") expect(await go(workflow)).toEqual({ kind: "failed", reason: "Check failed 3 times" });
        const summaries = await store.listCheckpoints({ run: ID });
        expect(summaries.map(({ stage }) => stage)).toEqual([
          "fatal",
          "check",
          "work",
          "check",
          "work",
          "check",
          "work",
        ]);
        expect(summaries.filter(({ trigger }) => trigger === "iteration")).toHaveLength(2);
        if (how === "ended") return;
      }
      expect.unreachable("the run never ended by itself");
    });

    test("a question makes the run wait; its answer is the step's result permanently, and the run continues once", async () => {
      const { adapters, go, kinds, store } = await start();
      const answers: string[] = [];
      const workflow = define({
        work: async ({ decide, wait, step }) => {
          answers.push(await decide({ name: "ship", question: "Ship it?", options: ["yes", "no"] }));
          const before = await step("before", () => answers.length);
          if (before === answers.length) await wait({ for: "you", reason: "look at it" });
          return { event: "worked", reason: "did it" };
        },
      });
      await begin(adapters, workflow);
      const waiting = { kind: "waiting", for: "you", reason: "Ship it?", until: null };
      expect(await go(workflow)).toEqual(waiting);
      expect(await go(workflow)).toEqual(waiting);
      expect((await store.getRun(ID))?.state).toMatchObject({ decision: { name: "ship", options: ["yes", "no"] } });
      await expect(answerDecision({ adapters, run: ID, answer: "maybe" })).rejects.toThrow(/Ship it/);
      await answerDecision({ adapters, run: ID, answer: "yes" });
      await expect(answerDecision({ adapters, run: ID, answer: "yes" })).rejects.toThrow(/waits for no answer/);
      expect(await go(workflow)).toMatchObject({ kind: "waiting", reason: "look at it" });
      expect(await go(workflow)).toMatchObject({ kind: "done" });
      expect(answers).toEqual(["yes", "yes"]);
      expect((await kinds()).filter((kind) => kind === "run.continued")).toHaveLength(2);
    });

    test("waiting until a time: not before it, and continued once after it", async () => {
      const { adapters, go, kinds, pass } = await start();
      let parks = 0;
      const workflow = define({
        work: async ({ wait, now }) => {
          if (parks++ === 0)
            await wait({ for: "quota", reason: "rate limit", until: new Date(now() + 60_000).toISOString() });
          return { event: "worked", reason: "did it" };
        },
      });
      await begin(adapters, workflow);
      expect(await go(workflow)).toMatchObject({ kind: "waiting", for: "quota" });
      pass(59_999);
      expect(await go(workflow)).toMatchObject({ kind: "waiting", for: "quota" });
      pass(1);
      expect(await go(workflow)).toMatchObject({ kind: "done" });
      expect((await kinds()).filter((kind) => kind === "run.continued")).toHaveLength(1);
    });

    test("a limit can be raised while no process executes the run, and a run that waits for it continues", async () => {
      const { adapters, go, store } = await start();
      const workflow = define({
        work: async ({ wait, position }) => {
          if (position.budget.limit.tokens === null) await wait({ for: "budget", reason: "nothing is allowed" });
          return { event: "worked", reason: "did it" };
        },
      });
      await begin(adapters, workflow);
      await go(workflow);
      expect(await raiseLimits({ adapters, run: ID, limit: { tokens: 10 } })).toMatchObject({ limit: { tokens: 10 } });
      expect((await store.getRun(ID))?.state.kind).toBe("active");
      expect(await go(workflow)).toMatchObject({ kind: "done" });
    });

    test("interrupted: the running step gets a signal, finished work is kept, and the run resumes as after a crash", async () => {
      const { adapters, go, store, ended } = await start();
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
          // A stage that swallows the stop has no effect.
          return { event: "worked", reason: "wrongly" };
        },
      });
      await begin(adapters, workflow);
      expect(await go(workflow, { signal: controller.signal })).toEqual({ kind: "interrupted" });
      const [newest] = await store.listCheckpoints({ run: ID, limit: 1 });
      expect(newest).toMatchObject({ trigger: "interrupt", stage: "work" });
      // All processes of the run on resume; those of the stage attempt's steps when it stops.
      expect(ended).toEqual([`${store.id}/${ID}`, `${store.id}/${ID}/1`]);
      expect(await store.getLease(ID)).toBeUndefined();
      expect(await go(workflow)).toMatchObject({ kind: "done" });
      expect(runs).toEqual(["a", "b", "b"]);
    });

    test("a lost lease: work stops, nothing more is written, and the error is LEASE_LOST", async () => {
      const { adapters, store, go, kinds } = await start();
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
      await begin(adapters, workflow);
      await expect(go(workflow)).rejects.toThrow(expect.objectContaining({ code: "LEASE_LOST" }));
      expect(stopped).toBe(true);
      expect((await kinds()).slice(-2)).toEqual(["step.finished", "lease.released"]);
    });

    test("a lost lease: later work is kept as an orphaned run that can be forked, and the issue finds only its run", async () => {
      const { adapters, store, go } = await start();
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
      await beginRun({
        adapters,
        workflow,
        id: ID,
        work,
        inputs: TOY_INPUTS,
        config: TOY_CONFIG,
        workspace: undefined,
      });
      const error = await go(workflow).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({
        code: "LEASE_LOST",
        data: { orphan: expect.stringMatching(/^run-1-orphan-\d+@1$/) },
      });
      const [, orphan] = (await store.listRuns()).map(({ id }) => id).toSorted();
      const kept = await store.latest(orphan ?? "");
      expect(kept?.planes.position.stageAttempt.steps).toEqual({ a: 1, b: 2 });
      expect(kept?.parent?.id).toBe(`${ID}@1`);
      expect(await findRunFor({ adapters, issue: 42 })).toMatchObject({
        kind: "one",
        run: { id: ID, state: { kind: "active" } },
      });
      const handle = new RunHandle(adapters, (await store.getRun(orphan ?? "")) ?? expect.fail());
      expect((await handle.fork({ sequence: 1, worktree: false })).id).not.toBe(orphan);
    });

    test("a lost lease that a checkpoint discovers: the work is kept, based on the last checkpoint of this process", async () => {
      const { adapters, store, go } = await start();
      const workflow = define({
        work: async ({ step }) => {
          await step("a", () => 1);
          const lease = await store.getLease(ID);
          if (lease !== undefined) await store.releaseLease(lease);
          const next = await store.takeLease({ run: ID, label: "the next process" });
          const { planes } = await store.getCheckpoint({ run: ID, sequence: 1 });
          await store.commit({ lease: next, checkpoint: { trigger: "manual", planes }, release: true });
          return { event: "worked", reason: "did it" };
        },
      });
      await begin(adapters, workflow);
      const orphan = expect.stringMatching(/^run-1-orphan-\d+@1$/);
      await expect(go(workflow)).rejects.toThrow(
        expect.objectContaining({ code: "LEASE_LOST", data: expect.objectContaining({ orphan }) }),
      );
      const kept = (await store.listRuns()).find(({ id }) => id !== ID);
      expect((await store.latest(kept?.id ?? ""))?.parent?.id).toBe(`${ID}@1`);
    });

    test.each(["LEASE_LOST", "DISK_FULL"] as const)(
      "working time counts once after a checkpoint was refused with %s",
      async (code) => {
        const { adapters, store, go, pass } = await start();
        const workflow = define({
          work: async ({ step, checkpoint }) => {
            pass(1000);
            await step("a", () => 1);
            const commit = vi.spyOn(store, "commit").mockRejectedValueOnce(new HoldfastError({ code, message: "no" }));
            await expect(checkpoint({ trigger: "manual" })).rejects.toThrow(expect.objectContaining({ code }));
            commit.mockRestore();
            pass(200);
            return { event: "worked", reason: "did it" };
          },
        });
        await begin(adapters, workflow);
        await go(workflow).catch((error: unknown) => expect(error).toMatchObject({ code: "LEASE_LOST" }));
        const runs = (await store.listRuns()).map(({ id }) => id);
        const kept = code === "LEASE_LOST" ? runs.find((id) => id !== ID) : ID;
        expect((await store.latest(kept ?? ""))?.planes.position.budget.spent.milliseconds).toBe(1200);
      },
    );

    test("a full disk makes the run wait if an entry still fits, is reported if none does, and resume continues once there is space", async () => {
      for (const fits of [true, false]) {
        const { adapters, store, go } = await start();
        const full = fullStore(store, { entries: fits });
        let runs = 0;
        const workflow = define({
          work: async ({ step }) => ({ event: "worked", reason: String(await step("a", () => ++runs)) }),
        });
        await begin(adapters, workflow);
        const outcome = await go(workflow, { adapters: { ...adapters, store: full } }).catch(
          (thrown: unknown) => thrown,
        );
        if (fits) expect(outcome).toMatchObject({ kind: "waiting", for: "disk", reason: "The disk is full: no room" });
        else
          expect(outcome).toMatchObject({ code: "DISK_FULL", hint: expect.stringContaining(`holdfast resume ${ID}`) });
        expect((await store.getRun(ID))?.state.kind).toBe(fits ? "waiting" : "active");
        expect(await go(workflow)).toMatchObject({ kind: "done" });
        expect(runs).toBe(fits ? 1 : 2);
      }
    });

    test("if no entry fits, the store's reserve is released for it; without space nothing is repeated", async () => {
      const { adapters, store, go } = await start();
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
      const measured = { ...adapters, storeDirectory: "/full", freeBytes: async () => free };
      let runs = 0;
      const workflow = define({
        work: async ({ step }) => ({ event: "worked", reason: String(await step("a", () => ++runs)) }),
      });
      await begin(adapters, workflow);
      const outcome = await go(workflow, { adapters: { ...measured, store: full } });
      const reason = "The disk is full: no room. /full needs at least 8.0 MiB, and 0.0 MiB are free.";
      expect(outcome).toMatchObject({ kind: "waiting", for: "disk", reason });
      expect((await store.getRun(ID))?.state).toMatchObject({ kind: "waiting", for: "disk", reason });
      const before = runs;
      expect(await go(workflow, { adapters: measured })).toMatchObject({ kind: "waiting", for: "disk" });
      expect(runs).toBe(before);
      free = 2 ** 30;
      expect(await go(workflow, { adapters: measured })).toMatchObject({ kind: "done" });
    });

    test("a store at its size limit: the run waits, nothing is dropped, and it continues when the limit is raised", async () => {
      const { adapters, store, go } = await start();
      let runs = 0;
      const workflow = define({
        work: async ({ step }) => ({ event: "worked", reason: String(await step("a", () => ++runs)) }),
      });
      await begin(adapters, workflow);
      const { bytes } = await store.stats();
      const limited = (maxStoreBytes: number) => ({ adapters: { ...adapters, maxStoreBytes } });
      const reason = expect.stringMatching(/^The store uses .* \(store\.maxSize\): database .*Largest: run-1 /);
      for (const _ of ["at first", "again"])
        expect(await go(workflow, limited(bytes))).toMatchObject({ kind: "waiting", for: "disk", reason });
      expect((await store.getRun(ID))?.state).toMatchObject({ kind: "waiting", for: "disk", reason });
      expect([runs, (await store.listTombstones(ID)).length]).toEqual([0, 0]);
      const heard: ProgressEvent[] = [];
      const near = {
        ...limited(Math.round((await store.stats()).bytes * 1.2)),
        listen: (event: ProgressEvent) => void heard.push(event),
      };
      expect(await go(workflow, near)).toMatchObject({ kind: "done" });
      expect(heard).toContainEqual(
        expect.objectContaining({ kind: "note", text: expect.stringContaining("Runs wait when it is full") }),
      );
      expect(runs).toBe(1);
    });

    test("a process executes a run in one call at a time", async () => {
      const { adapters, go } = await start();
      const began = Promise.withResolvers<void>();
      const end = Promise.withResolvers<void>();
      const workflow = define({
        work: async () => {
          began.resolve();
          await end.promise;
          return { event: "worked", reason: "did it" };
        },
      });
      await begin(adapters, workflow);
      const first = go(workflow);
      await began.promise;
      await expect(go(workflow)).rejects.toThrow(expect.objectContaining({ code: "LEASE_HELD" }));
      end.resolve();
      expect(await first).toMatchObject({ kind: "done" });
    });

    test("a lost lease is noticed by the heartbeat, also while a long step writes nothing", async () => {
      vi.useFakeTimers({ toFake: ["setInterval"] });
      onTestFinished(() => void vi.useRealTimers());
      const { adapters, store, go } = await start();
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
      await begin(adapters, workflow);
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
});

describe("execute", () => {
  describe.each(WORK_STORES)("over the $name store", (kind) => {
    const start = () => startTestRun(kind, onTestFinished);

    test("stage is saved: every transition is one commit with the next stage in it", async () => {
      const { adapters, store, go, kinds } = await start();
      const workflow = define({ work: worked });
      await begin(adapters, workflow);
      expect(await go(workflow)).toEqual({ kind: "done", reason: "fine" });
      const stages = (await store.listCheckpoints({ run: ID })).map(({ stage, trigger }) => `${stage} ${trigger}`);
      expect(stages).toEqual(["done stage", "check stage", "work stage"]);
      expect((await kinds()).filter((kind) => !kind.startsWith("lease.")).join(" ")).toBe(
        "run.created stage.entered checkpoint stage.ended stage.entered checkpoint stage.ended stage.entered run.ended checkpoint",
      );
      expect(await store.getLease(ID)).toBeUndefined();
    });

    test("done resumed is a no-op", async () => {
      const { adapters, go, kinds } = await start();
      const workflow = define({ work: worked });
      await begin(adapters, workflow);
      await go(workflow);
      const before = await kinds();
      expect(await go(workflow)).toEqual({ kind: "done", reason: "fine" });
      expect(await kinds()).toEqual(before);
    });

    test("a failure keeps its reason, however often it is resumed", async () => {
      const { adapters, go } = await start();
      const workflow = define({ work: async () => ({ event: "fatal", reason: "Max iteration limit (7) reached" }) });
      await begin(adapters, workflow);
      expect(await go(workflow)).toEqual({ kind: "failed", reason: "Max iteration limit (7) reached" });
      for (let i = 0; i < 2; i += 1) {
        await expect(go(workflow)).rejects.toThrow(
          expect.objectContaining({
            code: "RUN_FAILED",
            message: expect.stringContaining("Max iteration limit (7) reached"),
          }),
        );
      }
    });

    test("an end stage with a function runs it, and keeps the reason", async () => {
      const { adapters, go } = await start();
      const seen: (string | null)[] = [];
      const workflow = define(
        {
          work: async () => ({ event: "fatal", reason: "the true reason" }),
          fatal: async ({ position }) => {
            seen.push(position.reason);
            return { event: "reported", reason: "report written" };
          },
        },
        { ends: { done: "done", fatal: "failed" } },
      );
      await begin(adapters, workflow);
      expect(await go(workflow)).toEqual({ kind: "failed", reason: "the true reason" });
      expect(seen).toEqual(["the true reason"]);
    });

    test("a workflow in an endless cycle fails after its limit of stage attempts", async () => {
      const { adapters, go } = await start();
      const workflow = define(
        { work: worked, check: async () => ({ event: "failed", reason: "again" }) },
        { maxStageAttempts: 9 },
      );
      await begin(adapters, workflow);
      expect(await go(workflow)).toEqual({ kind: "failed", reason: "Max stage attempts exceeded: 9" });
    });

    test("an event that is missing in the table ends nothing: with the table fixed, the run continues", async () => {
      const { adapters, go } = await start();
      const wrong = define({ work: async () => ({ event: "wroked", reason: "typo" }) });
      await begin(adapters, wrong);
      await expect(go(wrong)).rejects.toThrow('no event "wroked"');
      expect(await go(define({ work: worked }))).toMatchObject({ kind: "done" });
    });

    test("starting twice starts once, also when the process died between run and checkpoint", async () => {
      const { adapters, store, go } = await start();
      const workflow = define({ work: worked });
      await store.createRun({ id: ID, workflow: "toy", work: { kind: "none" } });
      await begin(adapters, workflow);
      await begin(adapters, workflow);
      expect(await store.listCheckpoints({ run: ID })).toHaveLength(1);
      await go(workflow);
      await begin(adapters, workflow);
      expect((await store.getRun(ID))?.state.kind).toBe("done");
      const other = { kind: "task", text: "else" } as const;
      await expect(
        beginRun({
          adapters,
          workflow,
          id: ID,
          work: other,
          inputs: TOY_INPUTS,
          config: TOY_CONFIG,
          workspace: undefined,
        }),
      ).rejects.toThrow(expect.objectContaining({ code: "RUN_EXISTS" }));
    });

    test("listeners get events in order, and an exception of a listener does not affect the run", async () => {
      const { adapters, go } = await start();
      const heard: ProgressEvent[] = [];
      const workflow = define({
        work: async ({ step, note }) => {
          await step("a", () => 1);
          await note("half-way");
          return { event: "worked", reason: "did it", score: 80 };
        },
      });
      await begin(adapters, workflow);
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
      const { adapters, go, store } = await start();
      const scores = [60, 75, 70];
      const workflow = define({
        work: worked,
        check: async ({ position }) => {
          const score = scores[Math.floor(position.stageAttempt.number / 2) - 1] ?? 0;
          return score === 70
            ? { event: "passed", reason: "enough", score }
            : { event: "failed", reason: "not yet", score };
        },
      });
      await begin(adapters, workflow);
      await go(workflow);
      const latest = await store.latest(ID);
      const best = latest?.planes.position.best;
      expect(best?.score).toBe(75);
      expect((await store.getCheckpoint({ run: ID, sequence: best?.sequence ?? 0 })).score).toBe(75);
      const handle = new RunHandle(adapters, (await store.getRun(ID)) ?? expect.fail());
      const fork = await handle.fork({ sequence: latest?.sequence ?? 0, worktree: false });
      expect((await fork.latest())?.planes.position.best).toEqual({ run: ID, ...best });
    });
  });
});

describe("moved stage", () => {
  const freshness = crunchFreshness;

  /** Values of a crunch run that has entered this phase. */
  const entered = (stage: string): JsonObject =>
    Object.fromEntries([
      ["base", { branch: "main", commit: "c0" }],
      ["phases", [Object.fromEntries([["phase", stage]])]],
    ]);

  /** A crunch run in the given phase, in the middle of a stage attempt with one finished and one running step. */
  async function standAt(stage: string): Promise<StoppedRun> {
    const scene = await createStoppedRun();
    const move = (planes: Planes): Planes => ({
      ...planes,
      position: {
        ...planes.position,
        stage,
        stageAttempt: { number: 3, steps: { a: 1 }, failures: {}, unreduced: ["event"] },
      },
    });
    await scene.save(entered(stage), move);
    return scene;
  }

  test("a person moved the issue: the run moves too, with a warning, in its own stage attempt", async () => {
    const scene = await standAt("implementing");
    const labels = ["feature", "state:docs"];
    scene.forge.issue = { ...ISSUE, labels };
    const { plan } = await scene.resume({ freshness });
    expect(plan).toMatchObject({
      kind: "warn",
      actions: [
        { kind: "take_issue" },
        { kind: "move_stage", stage: "docs", why: expect.stringContaining("state:docs") },
      ],
    });
    const { planes } = await scene.newest();
    expect(planes.position).toMatchObject({
      stage: "docs",
      stageAttempt: { number: 4, steps: {}, unreduced: ["event"] },
    });
    expect(planes.inputs.issue?.labels).toEqual(["feature", "state:docs"]);
    const entries = await Array.fromAsync(scene.store.readJournal({ run: RUN }));
    expect(entries.filter(({ kind }) => kind === "stage.entered").map(({ body }) => body)).toEqual([
      { stageAttempt: 4, stage: "docs", iteration: 1 },
    ]);
    // The forge of this scene can only be read: an old label that was written back would be an error here.
    expect(scene.forge.issue.labels).toBe(labels);
    expect((await scene.plan({ freshness })).findings).toEqual([]);
  });

  test("the label that the run itself set is not a difference, and moves nothing", async () => {
    const scene = await standAt("implementing");
    scene.forge.issue = { ...ISSUE, labels: ["state:implementing", "feature"] };
    expect((await scene.plan({ freshness })).plan).toEqual({ kind: "resume", judgements: [], actions: [] });
  });

  test("a restore to an older checkpoint keeps its stage, whatever the label is", async () => {
    const scene = await standAt("enrich");
    const { sequence } = await scene.newest();
    await scene.save(entered("docs"), (planes) => ({
      ...planes,
      position: { ...planes.position, stage: "docs" },
    }));
    scene.forge.issue = { ...ISSUE, labels: ["feature", "state:docs"] };
    const { plan } = await scene.plan({ freshness, chosen: sequence });
    expect(plan).toMatchObject({ kind: "warn" });
    expect("actions" in plan && plan.actions.map(({ kind }) => kind)).not.toContain("move_stage");
  });

  test("files that a user changed are shown and asked about; accepted they stay, otherwise they are put back", async () => {
    const scene = await standAt("implementing");
    scene.worktree().write("work.txt", "by hand\n");
    const { plan } = await scene.plan({ freshness });
    expect(plan).toMatchObject({ kind: "ask", hint: expect.stringContaining("--accept files_changed") });
    const [judgement] = plan.kind === "ask" ? plan.judgements : [];
    expect(judgement?.finding.diff).toMatch(/-half done\n\+by hand/);
    expect((await scene.plan({ freshness, answers: { files_changed: "accept" } })).plan.kind).toBe("warn");
    await scene.resume({ freshness, answers: { files_changed: "put_back" } });
    expect(scene.worktree().read("work.txt")).toBe("half done\n");
  });
});
