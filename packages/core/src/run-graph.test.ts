import { describe, expect, onTestFinished, test } from "vitest";
import { sampleGraph, sampleNode } from "@holdfast/test-support/core/graph-sample";
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
import { type GraphEvent, stateOf } from "./graph-state.ts";
import type { Graph, GraphEdge } from "./graph.ts";
import { loadRun } from "./run-session.ts";
import { type GraphEnd, type GraphWork, type NodeWork, runGraph } from "./run-graph.ts";
import type { StageContext, StageFunction, Workflow } from "./workflow.ts";

describe("run graph", () => {
  const node = sampleNode;
  const complete: NodeWork = async ({ id }) => ({ kind: "complete", result: id });
  const fails =
    (...ids: readonly string[]): NodeWork =>
    async (one, scope) =>
      ids.includes(one.id) ? { kind: "failed", error: `${one.id} broke`, retryable: true } : await complete(one, scope);

  interface Ran {
    readonly toy: TestRun;
    readonly ends: GraphEnd[];
    readonly graph: Graph;
    statuses(): Record<string, string>;
  }

  async function started(work: (context: StageContext<State>) => Promise<GraphEnd[]>): Promise<{
    readonly toy: TestRun;
    readonly workflow: Workflow<State>;
    readonly ends: GraphEnd[];
  }> {
    const toy = await startTestRun(SQLITE, onTestFinished);
    const ends: GraphEnd[] = [];
    const stage: StageFunction<State> = async (context) => {
      ends.splice(0, ends.length, ...(await work(context)));
      return { event: "worked", reason: "did it" };
    };
    const workflow = define({ work: stage });
    await begin(toy.adapters, workflow);
    return { toy, workflow, ends };
  }

  async function look(toy: TestRun, ends: GraphEnd[]): Promise<Ran> {
    const graph = (await toy.store.latest(ID))?.planes.position.graph;
    if (graph === null || graph === undefined) throw new Error("no graph");
    const statuses = () => Object.fromEntries(graph.nodes.map(({ id }) => [id, stateOf(graph, id).status]));
    return { toy, ends, graph, statuses };
  }

  async function run(graph: Graph, work: Partial<GraphWork> & { readonly work: NodeWork }): Promise<Ran> {
    const { toy, workflow, ends } = await started(async (context) => [
      await runGraph(context, { graph, limit: 3, ...work }),
    ]);
    await toy.go(workflow);
    return await look(toy, ends);
  }

  describe("the rules of failure", () => {
    const chain = sampleGraph([node("a"), node("b", ["a"]), node("c", ["b"]), node("free"), node("last", ["free"])]);

    test("everything complete, with its result", async () => {
      const ran = await run(chain, { work: complete });
      expect(ran.ends).toEqual([{ kind: "complete" }]);
      expect(new Set(Object.values(ran.statuses()))).toEqual(new Set(["complete"]));
      expect(stateOf(ran.graph, "c").result).toBe("c");
    });

    test("a failed node's dependents are skipped, its batch continues", async () => {
      const ran = await run(chain, { work: fails("a") });
      expect(ran.statuses()).toEqual({ a: "failed", b: "skipped", c: "skipped", free: "complete", last: "complete" });
      expect(ran.ends).toEqual([{ kind: "failed", nodes: ["a"], abortedBy: null, batch: null }]);
      expect(stateOf(ran.graph, "a").result).toEqual({ error: "a broke" });
    });

    test("an exception is a failure with its reason; retries are used up, unless it is marked as permanent", async () => {
      const tries: string[] = [];
      const graph = sampleGraph([node("throws", [], { retries: 1 }), node("final", [], { retries: 5 }), node("fine")]);
      const ran = await run(graph, {
        work: async (one, { attempt }) => {
          tries.push(`${one.id} ${attempt}`);
          if (one.id === "throws") throw new Error("no luck");
          return one.id === "final"
            ? { kind: "failed", error: "hopeless", retryable: false }
            : await complete(one, never);
        },
      });
      expect(tries.toSorted()).toEqual(["final 1", "fine 1", "throws 1", "throws 2"]);
      expect(stateOf(ran.graph, "throws")).toMatchObject({ status: "failed", result: { error: "no luck" } });
      expect(stateOf(ran.graph, "final")).toMatchObject({ status: "failed", attempt: 1 });
    });

    test("a critical failure aborts the rest: running nodes may end, nothing else starts", async () => {
      const graph = sampleGraph([
        node("core", [], { priority: "critical" }),
        node("beside"),
        node("later", ["beside"]),
        node("other"),
      ]);
      const worked: string[] = [];
      const { promise, resolve } = Promise.withResolvers<void>();
      const ran = await run(graph, {
        limit: 2,
        work: async (one, scope) => {
          worked.push(one.id);
          if (one.id === "beside") await promise;
          else setTimeout(resolve, 20);
          return await fails("core")(one, scope);
        },
      });
      expect(worked).toEqual(["core", "beside"]);
      expect(ran.statuses()).toEqual({ core: "failed", beside: "complete", later: "skipped", other: "skipped" });
      expect(ran.ends).toEqual([{ kind: "failed", nodes: ["core"], abortedBy: "core", batch: null }]);
    });

    test("timeout: tried once more, then failed; the work gets a signal", async () => {
      const aborted: unknown[] = [];
      const graph = sampleGraph([node("slow", [], { timeoutMs: 10 }), node("next", ["slow"]), node("fine")]);
      const ran = await run(graph, {
        work: async (one, { signal }) => {
          if (one.id !== "slow") return await complete(one, never);
          await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
          aborted.push(signal.aborted);
          return { kind: "failed", error: "stopped", retryable: true };
        },
      });
      expect(aborted).toEqual([true, true]);
      expect(ran.statuses()).toEqual({ slow: "failed", next: "skipped", fine: "complete" });
      expect(stateOf(ran.graph, "slow")).toMatchObject({ attempt: 2, timeouts: 2, result: { error: "timeout" } });
    });

    test("work that ignores the signal does not block the graph; a result within its grace period counts", async () => {
      const graph = sampleGraph([node("deaf", [], { timeoutMs: 5 }), node("late", [], { timeoutMs: 5 })]);
      const ran = await run(graph, {
        graceMs: 60,
        work: async (one, { signal }) => {
          if (one.id === "deaf") return await new Promise(() => {});
          await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
          return await complete(one, never);
        },
      });
      expect(ran.statuses()).toEqual({ deaf: "failed", late: "complete" });
    });

    test("a timeout that the work itself reports is one", async () => {
      let calls = 0;
      const ran = await run(sampleGraph([node("a")]), {
        work: async (one) => ((calls += 1) === 1 ? { kind: "timeout" } : await complete(one, never)),
      });
      expect(calls).toBe(2);
      expect(ran.ends).toEqual([{ kind: "complete" }]);
    });

    test("a batch of which nothing succeeded: work stops, a checkpoint is there, and the workflow decides", async () => {
      const graph = sampleGraph([node("a"), node("b"), node("c", ["a"]), node("long", ["d"]), node("d")]);
      const two = sampleGraph([node("a"), node("b", ["a"]), node("c", ["a"]), node("d", ["b"]), node("e", ["a"])]);
      expect((await run(graph, { work: fails("a") })).ends).toMatchObject([{ batch: null }]);
      const worked: string[] = [];
      const { toy, workflow, ends } = await started(async (context) => {
        const work: NodeWork = async (one, scope) => {
          worked.push(one.id);
          return await fails(...(worked.length < 5 ? ["b", "c", "e"] : []))(one, scope);
        };
        const first = await runGraph(context, { graph: two, limit: 1, work });
        const second = await runGraph(context, { graph: two, limit: 1, work, name: "again", replayFailed: true });
        return [first, second];
      });
      await toy.go(workflow);
      expect(ends[0]).toEqual({ kind: "failed", nodes: ["b", "c", "e"], abortedBy: null, batch: 2 });
      expect(ends[1]).toEqual({ kind: "complete" });
      expect(worked).toEqual(["a", "b", "c", "e", "b", "c", "d", "e"]);
      const [saved] = await toy.store.listCheckpoints({ run: ID, trigger: "error_recovery" });
      expect(saved?.name).toBe("batch 2 failed");
    });
  });

  describe("order", () => {
    test("urgent ones first, never more at once than the limit", async () => {
      const graph = sampleGraph([
        node("low", [], { priority: "low" }),
        node("high", [], { priority: "high" }),
        node("n1"),
        node("n2"),
        node("n3"),
      ]);
      const order: string[] = [];
      let now = 0;
      let most = 0;
      await run(graph, {
        limit: 2,
        work: async (one) => {
          order.push(one.id);
          now += 1;
          most = Math.max(most, now);
          await new Promise((resolve) => setTimeout(resolve, 2));
          now -= 1;
          return await complete(one, never);
        },
      });
      expect(order).toEqual(["high", "n1", "n2", "n3", "low"]);
      expect(most).toBe(2);
    });

    test("a finished batch is processed once, in order; after a barrier the next one waits for that", async () => {
      const graph = sampleGraph([node("a"), node("b"), node("c", ["a"]), node("d", ["c"])]);
      for (const barrier of [true, false]) {
        const seen: string[] = [];
        const ran = await run(graph, {
          barrier,
          afterBatch: async ({ number, nodes }) => {
            seen.push(`before ${number} (${nodes.join(" ")})`);
            await new Promise((resolve) => setTimeout(resolve, 5));
            seen.push(`after ${number}`);
          },
          work: async (one) => {
            seen.push(one.id);
            return await complete(one, never);
          },
        });
        expect(ran.ends).toEqual([{ kind: "complete" }]);
        const looked = ["before 1 (a b)", "after 1", "before 2 (c)", "after 2", "before 3 (d)", "after 3"];
        expect(seen.filter((one) => one.includes(" "))).toEqual(looked);
        if (barrier)
          expect(seen).toEqual(["a", "b", looked[0], looked[1], "c", looked[2], looked[3], "d", looked[4], looked[5]]);
      }
    });

    test("a running node can add others; the batch that it joins is processed again", async () => {
      const seen: number[] = [];
      const ran = await run(sampleGraph([node("a"), node("b", ["a"])]), {
        afterBatch: async ({ number }) => {
          seen.push(number);
        },
        work: async (one, scope) => {
          if (one.id === "b") await scope.add(node("late", ["a"]));
          if (one.id === "b") await scope.add(node("root"));
          return await complete(one, never);
        },
      });
      expect(ran.statuses()).toEqual({ a: "complete", b: "complete", late: "complete", root: "complete" });
      expect(seen).toEqual([1, 1, 2]);
    });

    test("nodes that end in one turn share a commit with those that start", async () => {
      const layers = Array.from({ length: 4 }, (_, layer) =>
        Array.from({ length: 8 }, (__, at) =>
          node(`n${layer}-${at}`, layer === 0 ? [] : Array.from({ length: 8 }, (___, one) => `n${layer - 1}-${one}`)),
        ),
      );
      const ran = await run(sampleGraph(layers.flat()), { limit: 8, work: complete });
      expect((await ran.toy.kinds()).filter((kind) => kind === "graph.moved")).toHaveLength(5);
    });
  });

  describe("waiting", () => {
    const approval: GraphEdge = { from: "a", to: "b", type: "approval", by: "qa", approvedAt: null };
    const held = sampleGraph([node("a"), node("b"), node("c", ["b"])], [approval]);

    test.each([
      ["approve", { a: "complete", b: "complete", c: "complete" }],
      ["reject", { a: "complete", b: "skipped", c: "skipped" }],
    ])("an approval is asked of a person, who says %s", async (answer, expected) => {
      const { toy, workflow, ends } = await started(async (context) => [
        await runGraph(context, { graph: held, limit: 2, work: complete }),
      ]);
      expect(await toy.go(workflow)).toMatchObject({ kind: "waiting", for: "you" });
      await answerDecision({ adapters: toy.adapters, run: ID, answer });
      expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
      expect((await look(toy, ends)).statuses()).toEqual(expected);
    });

    test("the workflow may answer itself, or ask", async () => {
      const ran = await run(held, {
        work: complete,
        onWaiting: async ({ approvals }) =>
          approvals.map(({ from, to }) => ({ kind: "approve", from, to, at: "2026-01-01T00:00:00Z" })),
      });
      expect(ran.ends).toEqual([{ kind: "complete" }]);
      const left = await run(held, { work: complete, onWaiting: async () => [] });
      expect(left.ends).toEqual([{ kind: "waiting", unknown: [], approvals: [approval] }]);
    });
  });

  const never = {} as Parameters<NodeWork>[1];
});

describe("stage graph", () => {
  const at = "2026-01-01T00:00:00Z";
  const chain = sampleGraph([sampleNode("a"), sampleNode("b", ["a"])]);
  const start = (node: string): GraphEvent => ({ kind: "start", node, at });
  const complete = (node: string): GraphEvent => ({ kind: "complete", node, at, result: node });
  const statuses = (graph: Graph | null | undefined) =>
    graph?.nodes.map((node) => `${node.id} ${stateOf(graph, node.id).status}`);

  describe.each(WORK_STORES)("over the $name store", (kind) => {
    const begun = () => startTestRun(kind, onTestFinished);

    test("definition and states are in the journal: both survive a crash anywhere", async () => {
      for (let death = 1, how = "died"; how === "died"; death += 1) {
        for (const moment of ["before", "after"] as const) {
          const toy = await begun();
          const work: StageFunction<State> = async ({ graph }) => {
            await graph.set(chain);
            for (const node of ["a", "b"]) {
              const now = graph.now();
              if (now === null) throw new Error("no graph");
              const { status } = stateOf(now, node);
              if (status === "pending") await graph.move(start(node));
              if (status !== "complete") await graph.move(complete(node));
            }
            return { event: "worked", reason: "did it" };
          };
          const workflow = define({ work });
          await begin(toy.adapters, workflow);
          how = await toy.crash(workflow, death, moment);
          const { position } = await loadRun(toy.adapters, ID);
          const moves = (await toy.kinds()).filter((one) => one === "graph.moved").length;
          const expected = (await toy.kinds()).includes("graph.set")
            ? [
                ["a pending", "b pending"],
                ["a running", "b pending"],
                ["a complete", "b pending"],
                ["a complete", "b running"],
                ["a complete", "b complete"],
              ][moves]
            : undefined;
          expect(statuses(position.graph)).toEqual(expected);
          expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
          expect(statuses((await toy.store.latest(ID))?.planes.position.graph)).toEqual(["a complete", "b complete"]);
          expect((await toy.kinds()).filter((one) => one === "graph.set")).toHaveLength(1);
        }
      }
    });

    test("several events are one commit; an impossible event is refused with all", async () => {
      const toy = await begun();
      const workflow = define({
        work: async ({ graph }) => {
          await expect(graph.move(start("a"))).rejects.toThrow(/has not set/);
          await graph.set(chain);
          await graph.set({ ...chain, states: {} });
          await expect(graph.set({ ...chain, id: "other" })).rejects.toThrow(/has set g$/);
          await expect(graph.move(start("a"), start("b"))).rejects.toThrow(/not complete/);
          expect(statuses(graph.now())).toEqual(["a pending", "b pending"]);
          await graph.move(start("a"), complete("a"), start("b"));
          await graph.move();
          return { event: "worked", reason: "did it" };
        },
      });
      await begin(toy.adapters, workflow);
      await toy.go(workflow);
      expect((await toy.kinds()).filter((one) => one.startsWith("graph."))).toEqual(["graph.set", "graph.moved"]);
    });

    test("a cyclic graph is refused with the cycle named", async () => {
      const toy = await begun();
      const circle = sampleGraph([sampleNode("a", ["b"]), sampleNode("b", ["a"])]);
      const workflow = define({
        work: async ({ graph }) => {
          await graph.set(circle);
          return { event: "worked", reason: "did it" };
        },
      });
      await begin(toy.adapters, workflow);
      await expect(toy.go(workflow)).rejects.toThrow(/waits for itself/);
    });

    test("the next stage attempt has no graph until it sets its own, and the last one stays in the position until then", async () => {
      const toy = await begun();
      const seen: (string | null)[] = [];
      const workflow = define({
        work: async ({ graph }) => {
          await graph.set(chain);
          return { event: "worked", reason: "did it" };
        },
        check: async ({ graph, position }) => {
          seen.push(graph.now()?.id ?? null, position.graph?.id ?? null);
          await graph.set({ ...chain, id: "second" });
          seen.push(graph.now()?.id ?? null);
          return { event: "passed", reason: "fine" };
        },
      });
      await begin(toy.adapters, workflow);
      await toy.go(workflow);
      expect(seen).toEqual([null, "g", "second"]);
    });

    test("after a fallback from a damaged checkpoint, the graph is that of the intact one", async () => {
      const toy = await begun();
      let stop = true;
      let seen: unknown;
      const work: StageFunction<State> = async ({ graph, checkpoint }) => {
        await graph.set(chain);
        if (stop) {
          await graph.move(start("a"));
          await checkpoint({ trigger: "manual" });
          await graph.move(complete("a"));
          await checkpoint({ trigger: "manual" });
          throw new Error("stop here");
        }
        seen = statuses(graph.now());
        return { event: "worked", reason: "did it" };
      };
      const workflow = define({ work });
      await begin(toy.adapters, workflow);
      await expect(toy.go(workflow)).rejects.toThrow("stop here");
      const [newest] = await toy.store.listCheckpoints({ run: ID, trigger: "manual" });
      await toy.store.quarantine({ run: ID, sequences: [newest?.sequence ?? 0], reason: "damaged" });
      stop = false;
      expect(await toy.go(workflow)).toMatchObject({ kind: "done" });
      // Node a is running in the intact checkpoint, and its process is gone.
      expect(seen).toEqual(["a pending", "b pending"]);
    });
  });
});
