import { expect, onTestFinished, test } from "vitest";
import {
  ID,
  SQLITE,
  type State,
  TOY_CONFIG,
  TOY_INPUTS,
  createCrashingStore,
  define,
  startTestRun,
} from "@holdfast/test-support/core/work-bench";
import type { Adapters } from "./adapters.ts";
import type { IssueSnapshot } from "./checkpoint.ts";
import { beginRun, changeOptions } from "./control-run.ts";
import type { Forge } from "./forge.ts";
import { sha256 } from "./json.ts";
import { eachForgeQuestion, recordingParts } from "./record-run.ts";
import { CallRecorder, describeEnvironment } from "./recorded-calls.ts";
import { type ReplayReport, replayRun } from "./replay.ts";
import { openMemoryStore } from "./store-memory.ts";
import { knownRun } from "./store.ts";
import { capture } from "./values.ts";
import type { StageContext, Workflow } from "./workflow.ts";

type Ask = () => Promise<string>;
type Work = (context: StageContext<State>, ask: Ask) => Promise<unknown>;

/** A recorded run whose stage queries the forge for the title of issue 1, which `say` sets. */
async function startAsking(work: Work) {
  const toy = await startTestRun(SQLITE, onTestFinished);
  let title = "";
  const adapters: Adapters = { ...toy.adapters, forge: forgeOf(() => title) };
  const flowOf = ({ forge }: Adapters): Workflow<State> =>
    define(
      {
        work: async (context) => {
          const seen = await work(context, async () => (await forge?.getIssue(1))?.title ?? "");
          return { event: "worked", reason: "did it", state: { seen: [String(seen)] } };
        },
      },
      { reduce: (state) => state },
    );
  const config = { ...TOY_CONFIG, mode: "logged" } as const;
  const born = { id: ID, work: { kind: "none" }, inputs: TOY_INPUTS, config, workspace: undefined } as const;
  await beginRun({ adapters, workflow: flowOf(adapters), ...born });
  return {
    toy,
    adapters,
    say: (text: string): void => void (title = text),
    /** Executes the run in one process, killed at this commit; null: to its end. */
    async live(kill: { readonly at: number; readonly moment: "before" | "after" } | null): Promise<void> {
      const { promise, resolve } = Promise.withResolvers<void>();
      const store = kill === null ? toy.store : createCrashingStore(toy.store, { ...kill, die: resolve });
      const own = recordingParts({ ...adapters, store }, newRecorder());
      await Promise.race([promise, toy.go(flowOf(own), { adapters: own })]);
      // The next process acquires the lease as it would after a dead process, with an entry of its own.
      const lease = await toy.store.getLease(ID);
      if (lease !== undefined) await toy.store.releaseLease(lease);
    },
    async replay(): Promise<ReplayReport> {
      return await replayRun({
        adapters,
        run: await knownRun(toy.store, ID),
        to: null,
        mask: (text) => text,
        worktree: "",
        signal: new AbortController().signal,
        // The stages get the values that they left, so the type does not matter.
        workflow: (played) => flowOf(played),
        scratch: (replayer) => ({
          ...adapters,
          store: openMemoryStore({ clock: { now: () => replayer.time } }),
          clock: { now: () => replayer.time, elapsed: () => 0 },
          liveness: () => "dead",
          forge: eachForgeQuestion(
            forgeOf(() => "asked for real"),
            () => forgeOf(() => ""),
            (method) =>
              async (...args) => {
                const answer = replayer.lookUp(
                  method,
                  args.map((arg) => capture(arg)),
                );
                if (answer.kind !== "answered") throw new Error("refused");
                // The recorded answer of the same method.
                return (await Promise.resolve(answer.value)) as never;
              },
          ),
        }),
      });
    },
  };
}

const newRecorder = (): CallRecorder =>
  new CallRecorder({ environment: () => describeEnvironment({ LANG: "C" }, sha256), mask: (text) => text });

function forgeOf(title: () => string): Forge {
  const issue = (): IssueSnapshot => ({
    number: 1,
    title: title(),
    body: "",
    labels: [],
    state: "open",
    updatedAt: "2026-01-01T00:00:00Z",
  });
  // The tests use no other method of it.
  return { name: "toy", location: "here", lateMs: 0, getIssue: () => Promise.resolve(issue()) } as unknown as Forge;
}

const SAME = { verdict: "identical", divergence: null, outcome: "done" } as const;

/** Queries the forge outside of its steps, then executes two steps. */
const asksFirst: Work = async ({ step }, ask) => {
  const title = await ask();
  await step("a", () => "a");
  await step("b", () => "b");
  return title;
};

test("options of a process that died before it used them are not those of the next one", async () => {
  const run = await startAsking(asksFirst);
  run.say("sent to the first");
  await run.live({ at: 1, moment: "after" });
  run.say("sent to the second");
  await run.live(null);
  expect((await run.toy.store.latest(ID))?.planes.context.values).toEqual({ seen: ["sent to the second"] });
  expect(await run.replay()).toMatchObject({ ...SAME, steps: 2 });
});

test("a question of one step does not get the answer to the same question of a parallel step", async () => {
  const run = await startAsking(async ({ step }, ask) => {
    await step("look", async () => await ask());
    run.say("sent in parallel");
    return await ask();
  });
  run.say("sent to the step");
  await run.live(null);
  expect((await run.toy.store.latest(ID))?.planes.context.values).toEqual({ seen: ["sent in parallel"] });
  expect(await run.replay()).toMatchObject(SAME);
});

test("a record that ends with a process without progress is replayed as far as the one before it", async () => {
  const run = await startAsking(asksFirst);
  run.say("sent to the first");
  await run.live({ at: 1, moment: "after" });
  await run.live({ at: 1, moment: "before" });
  expect(await run.replay()).toMatchObject({ verdict: "identical", divergence: null, outcome: "active", steps: 1 });
});

const MORE = { options: { more: true }, continuesAt: null, reason: "More" } as const;

test("if the options changed on the way, each part has its own answers", async () => {
  const run = await startAsking(async (context, ask) => {
    const title = await ask();
    await context.record("heard", title);
    await context.step("a", () => "a");
    return title;
  });
  run.say("before");
  await run.live({ at: 1, moment: "after" });
  await changeOptions({ adapters: run.adapters, run: ID, change: MORE });
  run.say("after");
  await run.live(null);
  expect((await run.toy.store.latest(ID))?.planes.context.values).toEqual({ seen: ["after"] });
  expect(await run.replay()).toMatchObject(SAME);
});

const QUESTION = { name: "which", question: "Which way?", options: ["left", "right"], recheck: true };

test("after a question that was never answered, the replay continues with the user's new options", async () => {
  const run = await startAsking(async (context, ask) => {
    const title = await ask();
    if (title === "ask") await context.decide(QUESTION);
    await context.step("a", () => "a");
    return title;
  });
  run.say("ask");
  await run.live(null);
  expect((await knownRun(run.toy.store, ID)).state.kind).toBe("waiting");
  await changeOptions({ adapters: run.adapters, run: ID, change: MORE });
  run.say("go");
  await run.live(null);
  expect(await run.replay()).toMatchObject({ ...SAME, to: (await run.toy.store.latest(ID))?.sequence });
});
