import fc from "fast-check";
import { expect, onTestFinished, test } from "vitest";
import { HoldfastError } from "@holdfast/platform/error";
import { sampleGraph, sampleNode, someGraph } from "@holdfast/test-support/core/graph-sample";
import {
  ID,
  SQLITE,
  type State,
  type TestRun,
  WORK_STORES,
  begin,
  define,
  startTestRun,
} from "@holdfast/test-support/core/work-bench";
import { answerDecision } from "./control-run.ts";
import { stateOf } from "./graph-state.ts";
import { type Graph, predecessorsOf } from "./graph.ts";
import { loadRun } from "./run-session.ts";
import { type GraphEnd, type GraphWork, type NodeWork, runGraph } from "./run-graph.ts";
import { RunHandle } from "./run-handle.ts";
import type { StageFunction, Workflow } from "./workflow.ts";

const node = sampleNode;
const graphOf = async (toy: TestRun): Promise<Graph> => {
  const { graph } = (await loadRun(toy.adapters, ID)).position;
  if (graph === null) throw new Error("no graph");
  return graph;
};
const statusOf = async (toy: TestRun, id: string) => stateOf(await graphOf(toy), id).status;

function workflowOf(work: GraphWork, ends: GraphEnd[] = []): Workflow<State> {
  const stage: StageFunction<State> = async (context) => {
    ends.push(await runGraph(context, work));
    return { event: "worked", reason: "did it" };
  };
  return define({ work: stage });
}

/** Kills the process while these nodes run; nodes before them end. */
async function dieIn(toy: TestRun, graph: Graph, ids: readonly string[]): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let left = ids.length;
  const work: NodeWork = async ({ id }) => {
    if (!ids.includes(id)) return { kind: "complete", result: null };
    left -= 1;
    if (left === 0) resolve();
    return await new Promise(() => {});
  };
  const workflow = workflowOf({ graph, limit: 9, work });
  await begin(toy.adapters, workflow);
  let dead = false;
  const store = new Proxy(toy.store, {
    get: (target, key) => {
      if (dead) return () => new Promise(() => {});
      const value: unknown = Reflect.get(target, key);
      return typeof value === "function" ? (value.bind(target) as unknown) : value;
    },
  });
  void toy.go(workflow, { adapters: { ...toy.adapters, store } }).catch(() => undefined);
  await promise;
  dead = true;
}

const complete: NodeWork = async ({ id }) => ({ kind: "complete", result: id });

test("a node that was running when the process died is run again or asked about, and never lost", async () => {
  const graph = sampleGraph([node("safe"), node("once", [], { idempotent: false }), node("next", ["safe", "once"])]);
  for (const answer of ["happened", "did not happen"] as const) {
    const toy = await startTestRun(SQLITE, onTestFinished);
    await dieIn(toy, graph, ["safe", "once"]);
    expect(await statusOf(toy, "once")).toBe("running");
    const worked: string[] = [];
    const work: NodeWork = async (one, scope) => {
      worked.push(one.id);
      return await complete(one, scope);
    };
    const workflow = workflowOf({ graph, limit: 2, work });
    expect(await toy.go(workflow)).toMatchObject({ kind: "waiting", for: "you" });
    expect(worked).toEqual(["safe"]);
    expect(await statusOf(toy, "once")).toBe("unknown");
    await answerDecision({ adapters: toy.adapters, run: ID, answer });
    expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
    expect(worked).toEqual(answer === "happened" ? ["safe", "next"] : ["safe", "once", "next"]);
    expect(await statusOf(toy, "next")).toBe("complete");
  }
});

test("unknown twice, it asks twice", async () => {
  const graph = sampleGraph([node("once", [], { idempotent: false })]);
  const toy = await startTestRun(SQLITE, onTestFinished);
  await dieIn(toy, graph, ["once"]);
  const workflow = workflowOf({ graph, limit: 2, work: complete });
  expect(await toy.go(workflow)).toMatchObject({ kind: "waiting" });
  await answerDecision({ adapters: toy.adapters, run: ID, answer: "did not happen" });
  await dieIn(toy, graph, ["once"]);
  expect(await toy.go(workflow)).toMatchObject({ kind: "waiting", for: "you" });
  await answerDecision({ adapters: toy.adapters, run: ID, answer: "happened" });
  expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
});

test("a node whose effect is in the journal continues from there, whatever it declared", async () => {
  const graph = sampleGraph([node("once", [], { idempotent: false })]);
  const toy = await startTestRun(SQLITE, onTestFinished);
  let deeds = 0;
  let dies = true;
  const stage: StageFunction<State> = async (context) => {
    await runGraph(context, {
      graph,
      limit: 1,
      work: async (_one, scope) => {
        const deed = await context.step(scope.name(), () => (deeds += 1));
        if (dies) throw Object.assign(new Error("gone"), { code: "gone" });
        return { kind: "complete", result: deed };
      },
    });
    return { event: "worked", reason: "did it" };
  };
  const workflow = define({ work: stage });
  await begin(toy.adapters, workflow);
  // The commits are: set, start, the node's own step. The process dies before the fourth.
  expect(await toy.crash(workflow, 4, "before")).toBe("died");
  expect(await statusOf(toy, "once")).toBe("running");
  dies = false;
  expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
  expect(deeds).toBe(1);
  expect(stateOf(await graphOf(toy), "once")).toMatchObject({ status: "complete", attempt: 1, result: 1 });
});

test("a node that waits for a person continues with the answer", async () => {
  const graph = sampleGraph([node("asks", [], { idempotent: false }), node("next", ["asks"])]);
  const toy = await startTestRun(SQLITE, onTestFinished);
  const stage: StageFunction<State> = async (context) => {
    const end = await runGraph(context, {
      graph,
      limit: 1,
      work: async (one, scope) => {
        if (one.id === "next") return { kind: "complete", result: null };
        const answer = await context.decide({ name: scope.name("ask"), question: "Which?", options: ["x", "y"] });
        return { kind: "complete", result: answer };
      },
    });
    return { event: "worked", reason: end.kind };
  };
  const workflow = define({ work: stage });
  await begin(toy.adapters, workflow);
  expect(await toy.go(workflow)).toMatchObject({ kind: "waiting", reason: "Which?" });
  await answerDecision({ adapters: toy.adapters, run: ID, answer: "y" });
  expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
  expect(stateOf(await graphOf(toy), "asks")).toMatchObject({ status: "complete", result: "y" });
});

test("stopped, it starts nothing new, keeps what ends by itself, and leaves the rest to the resume", async () => {
  const graph = sampleGraph([node("ends"), node("stays"), node("later", ["ends"])]);
  const toy = await startTestRun(SQLITE, onTestFinished);
  const controller = new AbortController();
  const worked: string[] = [];
  let stops = true;
  const work: NodeWork = async (one, { signal }) => {
    worked.push(one.id);
    if (stops && one.id === "stays") {
      controller.abort();
      await new Promise<void>((resolve) => {
        if (signal.aborted) resolve();
        signal.addEventListener("abort", () => resolve());
      });
      throw new Error("stopped");
    }
    if (stops) await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
    return { kind: "complete", result: one.id };
  };
  const workflow = workflowOf({ graph, limit: 2, work });
  await begin(toy.adapters, workflow);
  expect(await toy.go(workflow, { signal: controller.signal })).toMatchObject({ kind: "interrupted" });
  expect(worked.toSorted()).toEqual(["ends", "stays"]);
  expect(await statusOf(toy, "ends")).toBe("complete");
  expect(await statusOf(toy, "stays")).toBe("running");
  stops = false;
  expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
  expect(worked.slice(2).toSorted()).toEqual(["later", "stays"]);
});

test("a restored checkpoint has definition and states, and its running nodes are not lost", async () => {
  const graph = sampleGraph([node("a"), node("b", ["a"]), node("c", ["b"])]);
  const toy = await startTestRun(SQLITE, onTestFinished);
  const worked: string[] = [];
  const stage: StageFunction<State> = async (context) => {
    await runGraph(context, {
      graph,
      limit: 1,
      work: async (one) => {
        worked.push(one.id);
        if (one.id === "b") await context.checkpoint({ trigger: "manual" });
        return { kind: "complete", result: one.id };
      },
    });
    return { event: "worked", reason: "did it" };
  };
  const workflow = define(
    { work: stage, check: async () => ({ event: "failed", reason: "again" }) },
    { maxStageAttempts: 3 },
  );
  await begin(toy.adapters, workflow);
  await toy.go(workflow);
  expect(worked.slice(0, 3)).toEqual(["a", "b", "c"]);
  worked.length = 0;
  const saved = (await toy.store.listCheckpoints({ run: ID, trigger: "manual" })).at(-1);
  const sequence = saved?.sequence ?? 0;
  const held = (await toy.store.getCheckpoint({ run: ID, sequence })).planes.position.graph;
  expect(held?.nodes).toEqual(graph.nodes);
  expect(held === null || held === undefined ? null : stateOf(held, "b").status).toBe("running");
  const summary = await toy.store.getRun(ID);
  if (summary === undefined) throw new Error("no run");
  await using handle = new RunHandle(toy.adapters, summary);
  await using forked = await handle.fork({ sequence, id: "forked", worktree: false });
  await toy.go(workflow, { run: forked.id });
  expect(worked.slice(0, 2)).toEqual(["b", "c"]);
});

test("killed again during the resume, a node that must not run twice is asked about all the same", async () => {
  const graph = sampleGraph([node("once", [], { idempotent: false })]);
  for (let at = 1, how = "died"; how === "died"; at += 1) {
    const toy = await startTestRun(SQLITE, onTestFinished);
    await dieIn(toy, graph, ["once"]);
    let worked = 0;
    const work: NodeWork = async () => ({ kind: "complete", result: (worked += 1) });
    const workflow = workflowOf({ graph, limit: 2, work });
    how = await toy.crash(workflow, at, "after");
    expect(await toy.go(workflow)).toMatchObject({ kind: "waiting", for: "you" });
    expect(worked).toBe(0);
  }
});

test("a restored checkpoint with a running node that must not run twice: it is asked about", async () => {
  const graph = sampleGraph([node("once", [], { idempotent: false })]);
  const toy = await startTestRun(SQLITE, onTestFinished);
  let stops = true;
  const stage: StageFunction<State> = async (context) => {
    const work: NodeWork = async () => {
      await context.checkpoint({ trigger: "manual" });
      if (stops) throw new HoldfastError({ code: "INTERNAL", message: "stop here" });
      return { kind: "complete", result: null };
    };
    await runGraph(context, { graph, limit: 1, work });
    return { event: "worked", reason: "did it" };
  };
  const workflow = define({ work: stage });
  await begin(toy.adapters, workflow);
  await expect(toy.go(workflow)).rejects.toThrow("stop here");
  const [saved] = await toy.store.listCheckpoints({ run: ID, trigger: "manual" });
  const summary = await toy.store.getRun(ID);
  if (summary === undefined) throw new Error("no run");
  await using handle = new RunHandle(toy.adapters, summary);
  await handle.restore({ sequence: saved?.sequence ?? 0 });
  await handle.close();
  stops = false;
  expect(await statusOf(toy, "once")).toBe("unknown");
  expect(await toy.go(workflow)).toMatchObject({ kind: "waiting", for: "you" });
});

/** The result of a node depends only on its name and attempt, so it is the same after every crash. */
function faresOf(seed: number): (id: string, attempt: number) => "complete" | "failed" | "throws" | "timeout" {
  return (id, attempt) => {
    const hash = [...`${id}/${attempt}`].reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) % 9973, seed);
    return (["complete", "complete", "complete", "failed", "throws", "timeout"] as const)[hash % 6] ?? "complete";
  };
}

test.each(WORK_STORES)(
  "over the $name store: for any graph, failures and kills: no node is lost or early, each completes once, the graph ends",
  async (kind) => {
    await fc.assert(
      fc.asyncProperty(
        someGraph({ maxNodes: 6 }),
        fc.nat(9972),
        fc.integer({ min: 1, max: 4 }),
        fc.boolean(),
        fc.array(fc.tuple(fc.nat({ max: 12 }), fc.constantFrom("before" as const, "after" as const)), { maxLength: 4 }),
        async (graph, seed, limit, barrier, deaths) => {
          const disposals: (() => void | Promise<void>)[] = [];
          const toy = await startTestRun(kind, (dispose) => disposals.push(dispose));
          try {
            await expectRuns({ toy, graph, seed, limit, barrier, deaths });
          } finally {
            for (const dispose of disposals.toReversed()) await dispose();
          }
        },
      ),
      { numRuns: kind.name === "memory" ? 150 : 25 },
    );
  },
);

async function expectRuns(params: {
  readonly toy: TestRun;
  readonly graph: Graph;
  readonly seed: number;
  readonly limit: number;
  readonly barrier: boolean;
  readonly deaths: readonly (readonly [number, "before" | "after"])[];
}): Promise<void> {
  const { toy, graph } = params;
  const fares = faresOf(params.seed);
  const before = predecessorsOf(graph);
  const deeds = new Map<string, number>();
  const ends: GraphEnd[] = [];
  const stage: StageFunction<State> = async (context) => {
    const end = await runGraph(context, {
      graph,
      limit: params.limit,
      barrier: params.barrier,
      afterBatch: async ({ number, name }) => {
        await context.step(name("looked"), () => number);
        await context.checkpoint({ trigger: "batch_complete" });
      },
      work: async ({ id }, scope) => {
        const now = context.graph.now();
        for (const earlier of before.get(id) ?? [])
          expect(now === null ? null : stateOf(now, earlier).status).toBe("complete");
        const fare = fares(id, scope.attempt);
        if (fare === "throws") throw new Error("threw");
        if (fare === "timeout") return { kind: "timeout" };
        if (fare === "failed") return { kind: "failed", error: "failed", retryable: true };
        return {
          kind: "complete",
          result: await context.step(scope.name(), () => {
            deeds.set(id, (deeds.get(id) ?? 0) + 1);
            return id;
          }),
        };
      },
    });
    ends.push(end);
    return { event: "worked", reason: end.kind };
  };
  const workflow = define({ work: stage });
  await begin(toy.adapters, workflow);
  for (const [at, moment] of params.deaths) {
    const state = (await toy.store.getRun(ID))?.state.kind;
    if (state === "waiting") await answer(toy, params.seed + at);
    if (state === "done") break;
    await toy.crash(workflow, at + 1, moment);
  }
  for (let lives = 0; (await toy.go(workflow)).kind !== "done"; lives += 1) {
    expect(lives).toBeLessThan(40);
    await answer(toy, params.seed + lives);
  }
  const last = await graphOf(toy);
  expect(last.nodes.map(({ id }) => id)).toEqual(graph.nodes.map(({ id }) => id));
  for (const { id } of last.nodes) {
    const { status } = stateOf(last, id);
    expect(["complete", "failed", "skipped"]).toContain(status);
    if (status === "complete")
      for (const one of before.get(id) ?? []) expect(stateOf(last, one).status).toBe("complete");
    const completions = await countEnds(toy, id);
    expect(completions).toBe(status === "complete" ? 1 : 0);
  }
  expect(ends.at(-1)?.kind).not.toBe("waiting");
}

async function countEnds(toy: TestRun, id: string): Promise<number> {
  let count = 0;
  for await (const { kind, body } of toy.store.readJournal({ run: ID })) {
    if (kind !== "graph.moved" || !Array.isArray(body["events"])) continue;
    count += body["events"].filter((event) => event.kind === "complete" && event.node === id).length;
  }
  return count;
}

/** Answers whatever question the run asks. */
async function answer(toy: TestRun, seed: number): Promise<void> {
  const state = (await toy.store.getRun(ID))?.state;
  if (state?.kind !== "waiting" || state.decision === undefined) return;
  await answerDecision({ adapters: toy.adapters, run: ID, answer: state.decision.options[seed % 2] ?? "" });
}
