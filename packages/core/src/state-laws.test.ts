import fc from "fast-check";
import { expect, test } from "vitest";
import { sampleGraph, sampleNode } from "@holdfast/test-support/core/graph-sample";
import {
  ID,
  MEMORY,
  type State,
  type TestRun,
  begin,
  define,
  startTestRun,
} from "@holdfast/test-support/core/work-bench";
import { loadRun } from "./run-session.ts";
import type { StageContext, Workflow } from "./workflow.ts";

/**
 * Random workflows over the memory store, killed at random commits. The bench has `checksState` on: after every commit the session loads the run
 * from the store and throws when that is not the state in memory. So a run that ends has passed the check at each of its commits.
 */

type Act =
  | { readonly kind: "step" | "flaky" | "record" | "checkpoint" | "note" | "effect" | "graph" }
  | { readonly kind: "together"; readonly acts: readonly Act[] };

const simple = fc.constantFrom<Act>(
  { kind: "step" },
  { kind: "flaky" },
  { kind: "record" },
  { kind: "checkpoint" },
  { kind: "note" },
  { kind: "effect" },
  { kind: "graph" },
);
const act = fc.oneof(
  { weight: 4, arbitrary: simple },
  {
    weight: 1,
    arbitrary: fc.array(simple, { minLength: 2, maxLength: 4 }).map((acts): Act => ({ kind: "together", acts })),
  },
);

async function perform(context: StageContext<State>, one: Act, name: string): Promise<void> {
  switch (one.kind) {
    case "step":
      await context.step(name, () => name);
      return;
    case "flaky":
      await context
        .step(name, ({ attempt }) => {
          if (attempt === 1) throw new Error("not yet");
          return attempt;
        })
        .catch(() => context.step(name, () => "again"));
      return;
    case "record":
      await context.record(name, name);
      return;
    case "checkpoint":
      await context.checkpoint({ trigger: "manual", name });
      return;
    case "note":
      await context.note(name);
      return;
    case "effect":
      await context.effect({
        purpose: name,
        kind: "toy.send",
        target: "them",
        payload: name,
        lookUp: async () => ({ kind: "absent" }),
        act: async () => ({ kind: "done", receipt: name }),
      });
      return;
    case "graph":
      await context.graph.set(sampleGraph([sampleNode("a"), sampleNode("b", ["a"])]));
      if (context.graph.view().ready({ limit: 1 }).includes("a"))
        await context.graph.move({ kind: "start", node: "a", at: "2026-01-01T00:00:00Z" });
      return;
    case "together":
      await Promise.all(one.acts.map((part, index) => perform(context, part, `${name}.${index}`)));
  }
}

function workflowOf(acts: readonly Act[], rounds: number): Workflow<State> {
  return define(
    {
      work: async (context) => {
        for (const [index, one] of acts.entries()) await perform(context, one, `n${index}`);
        return { event: "worked", reason: "did it" };
      },
      check: async ({ position }) => ({
        event: position.stageAttempt.number >= 2 * rounds ? "passed" : "failed",
        reason: "counted",
      }),
    },
    { reduce: (state, event) => ({ seen: [...state.seen, String(event)] }) },
  );
}

async function withToy(work: (toy: TestRun) => Promise<void>): Promise<void> {
  const disposals: (() => void | Promise<void>)[] = [];
  try {
    await work(await startTestRun(MEMORY, (dispose) => void disposals.push(dispose)));
  } finally {
    for (const dispose of disposals.toReversed()) await dispose();
  }
}

test("the state in memory equals the fold of the stored entries, at every commit of any workflow, killed anywhere", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(act, { minLength: 1, maxLength: 8 }),
      fc.integer({ min: 1, max: 2 }),
      fc.array(fc.tuple(fc.integer({ min: 1, max: 12 }), fc.constantFrom("before" as const, "after" as const)), {
        maxLength: 4,
      }),
      async (acts, rounds, deaths) => {
        await withToy(async (toy) => {
          expect(toy.adapters.checksState).toBe(true);
          const workflow = workflowOf(acts, rounds);
          await begin(toy.adapters, workflow);
          for (const [at, moment] of deaths) if ((await toy.crash(workflow, at, moment)) === "ended") break;
          expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
          const { state } = await loadRun(toy.adapters, ID);
          expect(state.position.stage).toBe("done");
          expect(state.values["seen"]).toHaveLength(recordsIn(acts) * rounds);
        });
      },
    ),
    { numRuns: 60 },
  );
});

function recordsIn(acts: readonly Act[]): number {
  return acts.reduce(
    (sum, one) => sum + (one.kind === "together" ? recordsIn(one.acts) : Number(one.kind === "record")),
    0,
  );
}

test("a store that writes other data than it was given is detected at the next commit", async () => {
  await withToy(async (toy) => {
    const workflow = workflowOf([{ kind: "step" }], 1);
    await begin(toy.adapters, workflow);
    const store = new Proxy(toy.store, {
      get: (target, key) =>
        key === "commit"
          ? (commit: Parameters<typeof target.commit>[0]) =>
              target.commit({
                ...commit,
                entries: (commit.entries ?? []).filter(({ kind }) => kind !== "step.finished"),
              })
          : Reflect.get(target, key),
    });
    await expect(toy.go(workflow, { adapters: { ...toy.adapters, store } })).rejects.toMatchObject({
      code: "INTERNAL",
      message: expect.stringContaining("/position/stageAttempt/steps"),
    });
  });
});
