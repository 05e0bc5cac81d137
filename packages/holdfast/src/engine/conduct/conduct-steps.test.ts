import { describe, expect, onTestFinished, test } from "vitest";
import type { Json, JsonObject } from "../../core/json.ts";
import { collect } from "../../testing/store-contract/harness.ts";
import { ID, begin, define, startToy } from "../../testing/toy-run.ts";
import type { State } from "../../testing/toy-run.ts";
import { WORK_STORES } from "../../testing/work-stores.ts";
import type { StageFunction } from "../stage-context.ts";

describe.each(WORK_STORES)("over the $name store", (kind) => {
  const start = () => startToy(kind, onTestFinished);

  test("a finished step is never run again, wherever the process dies", async () => {
    for (let at = 1, how = "died"; how === "died"; at += 1) {
      for (const moment of ["before", "after"] as const) {
        const { parts, store, go, crash } = await start();
        const runs: string[] = [];
        const work: StageFunction<State> = async ({ step, state }) => {
          const once = (name: string) => step(name, () => `${name} ${runs.push(name)}`);
          const seen = [await once("a"), ...(await Promise.all([once("b"), once("c")])), await once("d")];
          return { event: "worked", reason: "did it", state: { seen: [...state.seen, ...seen] } };
        };
        const workflow = define({ work });
        await begin(parts, workflow);
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
    const { parts, store, go } = await start();
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
    await begin(parts, workflow);
    await go(workflow, { parts: { ...parts, store: counting } });
    expect(counts).toEqual([1, 2, 3, 4, 5]);
  });

  test("what a step returned stays as it was, and is frozen", async () => {
    const { parts, store, go } = await start();
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
    await begin(parts, workflow);
    await go(workflow);
    const [saved] = await store.listCheckpoints({ run: ID, trigger: "manual" });
    const { planes } = await store.getCheckpoint({ run: ID, sequence: saved?.sequence ?? 0 });
    expect(planes.position.visit.steps).toEqual({ s: { list: [1] } });
  });

  test("a step's failure is counted, passed on, and the step may be tried again; a restart keeps the count", async () => {
    const { parts, go } = await start();
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
    await begin(parts, workflow);
    await expect(go(workflow)).rejects.toThrow("still not");
    expect(attempts).toEqual([1, 2]);
    await expect(go(workflow)).rejects.toThrow("still not");
    expect(await go(workflow)).toMatchObject({ kind: "done" });
    expect(attempts).toEqual([1, 2, 3, 4, 5]);
  });

  test("what is no JSON is refused with its path; a name twice, too", async () => {
    const { parts, go } = await start();
    const bad = define({
      work: async ({ step }) => {
        await step("s", () => ({ at: new Date() }) as unknown as Json);
        return { event: "worked", reason: "did it" };
      },
    });
    await begin(parts, bad);
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

  test("WORKFLOW_CHANGED: another definition, unless allowed; a step that is not asked for any more, by name", async () => {
    const { parts, go } = await start();
    const work =
      (names: readonly string[]): StageFunction<State> =>
      async ({ step }) => {
        for (const name of names) await step(name, () => name);
        if (names.length === 2) throw new Error("stop here");
        return { event: "worked", reason: "did it" };
      };
    const first = define({ work: work(["a", "b"]) });
    await begin(parts, first);
    await expect(go(first)).rejects.toThrow("stop here");
    const newer = define({ work: work(["a"]) }, { version: 2 });
    await expect(go(newer)).rejects.toThrow(expect.objectContaining({ code: "WORKFLOW_CHANGED" }));
    await expect(go(newer, { allowChanged: true })).rejects.toThrow(/had finished: b$/);
    const same = define({ work: work(["a", "b", "c"]) });
    expect(await go(same)).toMatchObject({ kind: "done" });
  });

  test("a sleep waits for the rest only after a restart", async () => {
    const { parts, go, pass, waits } = await start();
    const workflow = define({
      work: async ({ sleep, step }) => {
        await step("before", () => 1);
        await sleep("nap", 60_000);
        return { event: "worked", reason: "did it" };
      },
    });
    await begin(parts, workflow);
    const early = { ...parts, wait: () => Promise.reject(new Error("died asleep")) };
    await expect(go(workflow, { parts: early })).rejects.toThrow("died asleep");
    pass(45_000);
    expect(await go(workflow)).toMatchObject({ kind: "done" });
    expect(waits).toEqual([15_000]);
  });
});
