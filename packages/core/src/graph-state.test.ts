import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { sampleGraph as graph, sampleNode as node, sampleNode } from "@holdfast/test-support/core/graph-sample";
import {
  type GraphEvent,
  addNode,
  graphMoveText,
  graphShape,
  progressOf,
  readyNodes,
  replayFailed,
  stateOf,
  stepGraph,
} from "./graph-state.ts";
import { type Graph, type GraphEdge, type NodeStatus, type Priority, batchesOf, predecessorsOf } from "./graph.ts";
import { type Json, parseShape } from "./json.ts";

describe("graph state", () => {
  const at = "2026-01-01T00:00:00Z";

  const start = (id: string): GraphEvent => ({ kind: "start", node: id, at });
  const complete = (id: string): GraphEvent => ({ kind: "complete", node: id, at, result: { of: id } });
  const fail = (id: string): GraphEvent => ({ kind: "fail", node: id, at, error: "broke" });
  const skip = (id: string): GraphEvent => ({ kind: "skip", node: id, at, reason: "not wanted" });
  const retry = (id: string): GraphEvent => ({ kind: "retry", node: id, at });
  const after = (from: Graph, ...events: readonly GraphEvent[]): Graph => events.reduce(stepGraph, from);
  const statuses = (of: Graph): Record<string, NodeStatus> =>
    Object.fromEntries(of.nodes.map((one) => [one.id, stateOf(of, one.id).status]));
  const throughJson = (of: Graph): Graph =>
    parseShape({ shape: graphShape, value: JSON.parse(JSON.stringify(of)), what: "Graph" });
  const recoverRunning = (of: Graph): Graph =>
    of.nodes
      .filter((one) => stateOf(of, one.id).status === "running")
      .reduce((so, one) => stepGraph(so, { kind: "recover", node: one.id, at }), of);
  const ready = (of: Graph, limit = 99): readonly string[] => readyNodes(of, { limit });

  const chain = graph([node("a"), node("b", ["a"]), node("c", ["b"]), node("free")]);

  describe("running", () => {
    test("a node is ready when all its dependencies are complete", () => {
      expect(ready(chain)).toEqual(["a", "free"]);
      const next = after(chain, start("a"), complete("a"));
      expect(ready(next)).toEqual(["b", "free"]);
      expect(stateOf(next, "a")).toMatchObject({ status: "complete", attempt: 1, result: { of: "a" } });
    });

    test("urgent nodes first, within the limit", () => {
      const wide = graph([
        node("low", [], { priority: "low" }),
        node("normal"),
        node("high", [], { priority: "high" }),
        node("critical", [], { priority: "critical" }),
      ]);
      expect(ready(wide, 3)).toEqual(["critical", "high", "normal"]);
      expect(ready(after(wide, start("critical"), start("high")), 3)).toEqual(["normal"]);
      expect(ready(after(wide, start("low"), start("normal")), 1)).toEqual([]);
    });

    test("an approval blocks a node until it is given", () => {
      const edge: GraphEdge = { from: "a", to: "b", type: "approval", by: "qa", approvedAt: null };
      const done = after(graph([node("a"), node("b")], [edge]), start("a"), complete("a"));
      expect(ready(done)).toEqual([]);
      expect(() => stepGraph(done, start("b"))).toThrow(/not complete/);
      expect(progressOf(done)).toEqual({ kind: "waiting", unknown: [], approvals: [edge] });
      const approved = stepGraph(done, { kind: "approve", from: "a", to: "b", at });
      expect(ready(approved)).toEqual(["b"]);
      expect(stepGraph(approved, { kind: "approve", from: "a", to: "b", at: "later" })).toEqual(approved);
      expect(() => stepGraph(done, { kind: "approve", from: "b", to: "a", at })).toThrow(/no approval between/);
    });

    test.each<[GraphEvent, RegExp]>([
      [start("b"), /what it waits for/],
      [complete("a"), /it is pending/],
      [fail("a"), /it is pending/],
      [retry("a"), /it is pending/],
      [start("ghost"), /no node "ghost"/],
      [start("__proto__"), /no node/],
    ])("%o is refused", (event, why) => {
      expect(() => stepGraph(chain, event)).toThrow(why);
    });
  });

  describe("failing", () => {
    test("a failure skips all dependents, also indirect ones; the rest continues", () => {
      const failed = after(chain, start("a"), fail("a"));
      expect(statuses(failed)).toEqual({ a: "failed", b: "skipped", c: "skipped", free: "pending" });
      expect(stateOf(failed, "c").result).toEqual({ skipped: "b was skipped", cause: "a" });
      expect(progressOf(failed)).toEqual({ kind: "active" });
      expect(progressOf(after(failed, start("free"), complete("free")))).toEqual({
        kind: "failed",
        nodes: ["a"],
        abortedBy: null,
      });
    });

    test("retries first, and the error is kept for the next attempt", () => {
      const twice = graph([node("a", [], { retries: 1 }), node("b", ["a"])]);
      const once = after(twice, start("a"), fail("a"));
      expect(stateOf(once, "a")).toMatchObject({ status: "pending", attempt: 1, result: { error: "broke" } });
      expect(statuses(after(once, start("a"), fail("a")))).toEqual({ a: "failed", b: "skipped" });
    });

    test("a critical failure skips nodes that have not started; running nodes may end, but are not retried", () => {
      const wide = graph([
        node("core", [], { priority: "critical" }),
        node("beside", [], { retries: 5 }),
        node("later"),
      ]);
      const aborted = after(wide, start("core"), start("beside"), fail("core"));
      expect(statuses(aborted)).toEqual({ core: "failed", beside: "running", later: "skipped" });
      expect(statuses(after(aborted, fail("beside")))).toMatchObject({ beside: "failed" });
      expect(statuses(after(aborted, complete("beside"), retry("core")))).toEqual({
        core: "pending",
        beside: "complete",
        later: "pending",
      });
    });

    test("replaying includes skipped dependents, transitively (crunch left them skipped forever)", () => {
      const failed = after(chain, start("a"), fail("a"));
      const again = replayFailed(failed, at);
      expect(statuses(again)).toEqual({ a: "pending", b: "pending", c: "pending", free: "pending" });
      expect(stateOf(again, "a")).toMatchObject({ attempt: 0, result: null, startedAt: null, endedAt: null });
    });

    test("a node that a person skipped stays skipped, and so do its dependents", () => {
      const both = graph([node("a"), node("b"), node("c", ["a", "b"]), node("d", ["b"])]);
      const failed = after(both, start("a"), fail("a"), skip("b"));
      expect(statuses(failed)).toEqual({ a: "failed", b: "skipped", c: "skipped", d: "skipped" });
      expect(statuses(replayFailed(failed, at))).toEqual({ a: "pending", b: "skipped", c: "skipped", d: "skipped" });
    });

    test("retrying one of two failures does not free dependents of the other", () => {
      const both = graph([node("a"), node("b"), node("c", ["a", "b"])]);
      const failed = after(both, start("a"), fail("a"), start("b"), fail("b"));
      expect(statuses(after(failed, retry("a")))).toEqual({ a: "pending", b: "failed", c: "skipped" });
      expect(statuses(after(failed, retry("b"), retry("a")))).toEqual({ a: "pending", b: "pending", c: "pending" });
    });
  });

  describe("crash and growth", () => {
    test("a node that ran when the process died is pending or unknown, never lost (crunch dropped it from the batches)", () => {
      const two = graph([node("safe"), node("once", [], { idempotent: false }), node("next", ["safe", "once"])]);
      const crashed = recoverRunning(after(two, start("safe"), start("once")));
      expect(statuses(crashed)).toEqual({ safe: "pending", once: "unknown", next: "pending" });
      expect(ready(crashed)).toEqual(["safe"]);
      const waiting = after(crashed, start("safe"), complete("safe"));
      expect(progressOf(waiting)).toEqual({ kind: "waiting", unknown: ["once"], approvals: [] });
      expect(ready(after(waiting, complete("once")))).toEqual(["next"]);
      expect(ready(after(waiting, retry("once")))).toEqual(["once"]);
      expect(statuses(after(waiting, fail("once")))).toEqual({ safe: "complete", once: "failed", next: "skipped" });
    });

    test("batches and the next node are derived, so no stored number can disagree (crunch: batch_3_task_1)", () => {
      const half = after(chain, start("a"), complete("a"), start("b"), start("free"), fail("free"));
      const restored = recoverRunning(throughJson(half));
      expect(batchesOf(restored)).toEqual(batchesOf(chain));
      expect(ready(restored)).toEqual(["b"]);
    });

    test("a crash does not grant new retries", () => {
      const one = graph([node("a", [], { retries: 1 })]);
      const crashed = recoverRunning(after(one, start("a"), fail("a"), start("a")));
      expect(statuses(after(crashed, start("a"), fail("a")))).toEqual({ a: "failed" });
    });

    test("a node can be added while the graph runs; after a failure it is skipped immediately", () => {
      const running = after(chain, start("a"));
      const grown = addNode(running, { node: node("d", ["a"]), at });
      expect(statuses(grown)).toMatchObject({ a: "running", d: "pending" });
      const edge: GraphEdge = { from: "a", to: "e", type: "sequence" };
      expect(statuses(addNode(after(running, fail("a")), { node: node("e"), edges: [edge], at }))["e"]).toBe("skipped");
    });

    test("adding nodes that cannot be ordered is refused", () => {
      expect(() => addNode(chain, { node: node("a"), at })).toThrow(/two nodes are called a/);
      expect(() => addNode(chain, { node: node("d", ["ghost"]), at })).toThrow(/not a node/);
      expect(() =>
        addNode(chain, { node: node("d", ["c"]), edges: [{ from: "d", to: "a", type: "sequence" }], at }),
      ).toThrow(/waits for itself/);
      expect(() => addNode(chain, { node: node("d"), edges: [{ from: "d", to: "b", type: "sequence" }], at })).toThrow(
        /may have started/,
      );
    });
  });

  describe("laws", () => {
    const priorities: readonly Priority[] = ["critical", "high", "normal", "normal", "low"];
    const someGraph = fc
      .array(
        fc.record({
          to: fc.array(fc.nat(), { maxLength: 3 }),
          priority: fc.constantFrom(...priorities),
          retries: fc.nat(1),
          idempotent: fc.boolean(),
        }),
        { minLength: 1, maxLength: 8 },
      )
      .map((all) =>
        graph(
          all.map(({ to, ...more }, index) =>
            node(name(index), index === 0 ? [] : to.slice(1).map((one) => name(one % index)), more),
          ),
          all.flatMap(({ to }, index): GraphEdge[] => {
            if (index === 0 || to[0] === undefined) return [];
            const ends = { from: name(to[0] % index), to: name(index) };
            return [
              to[0] % 2 === 0
                ? { ...ends, type: "sequence" }
                : { ...ends, type: "approval", by: "qa", approvedAt: null },
            ];
          }),
        ),
      );
    const someActs = fc.array(
      fc.record({
        kind: fc.constantFrom(
          "start",
          "start",
          "complete",
          "complete",
          "fail",
          "skip",
          "retry",
          "approve",
          "crash",
          "replay",
        ),
        pick: fc.nat(),
      }),
      { maxLength: 40 },
    );

    /** A name that an object would mistake for its prototype. */
    function name(index: number): string {
      return index === 1 ? "__proto__" : `n${index}`;
    }

    function act(current: Graph, kind: string, pick: number): Graph {
      if (kind === "crash") return recoverRunning(current);
      if (kind === "replay") return replayFailed(current, at);
      const choose = <T>(from: readonly T[]): T | undefined => from[pick % Math.max(1, from.length)];
      if (kind === "approve") {
        const edge = choose(current.edges.filter((one) => one.type === "approval"));
        return edge === undefined ? current : stepGraph(current, { kind, from: edge.from, to: edge.to, at });
      }
      const id = choose(kind === "start" ? readyNodes(current, { limit: 3 }) : current.nodes.map((one) => one.id));
      if (id === undefined) return current;
      const event = [start(id), complete(id), fail(id), skip(id), retry(id)].find((one) => one.kind === kind);
      if (event === undefined) return current;
      try {
        return stepGraph(current, event);
      } catch (error) {
        expect(error).toMatchObject({ code: "USAGE" });
        expect(kind).not.toBe("start");
        return current;
      }
    }

    test("no order of events loses a node, undoes a completion, starts a node too early, or leaves it waiting forever", () => {
      fc.assert(
        fc.property(someGraph, someActs, (initial, acts) => {
          let current = initial;
          const before = predecessorsOf(initial);
          for (const { kind, pick } of acts) {
            const next = act(current, kind, pick);
            for (const { id } of initial.nodes) {
              const [was, is] = [stateOf(current, id).status, stateOf(next, id).status];
              if (was === "complete") expect(is).toBe("complete");
              const waitsFor = [...(before.get(id) ?? [])].map((one) => stateOf(next, one).status);
              if (is === "running") expect(waitsFor.every((one) => one === "complete")).toBe(true);
              if (is === "pending") expect(waitsFor).not.toContain("failed");
              if (is === "pending") expect(waitsFor).not.toContain("skipped");
            }
            expect(statuses(throughJson(next))).toEqual(statuses(next));
            current = next;
          }
        }),
        { numRuns: 500 },
      );
    });

    test("from any state, a graph that is executed always ends", () => {
      fc.assert(
        fc.property(someGraph, someActs, (initial, acts) => {
          let current = recoverRunning(acts.reduce((so, { kind, pick }) => act(so, kind, pick), initial));
          for (
            let steps = 0;
            progressOf(current).kind !== "complete" && progressOf(current).kind !== "failed";
            steps += 1
          ) {
            expect(steps).toBeLessThan(200);
            const progress = progressOf(current);
            if (progress.kind === "waiting") {
              expect(progress.unknown.length + progress.approvals.length).toBeGreaterThan(0);
              for (const id of progress.unknown) current = stepGraph(current, complete(id));
              for (const { from, to } of progress.approvals)
                current = stepGraph(current, { kind: "approve", from, to, at });
              continue;
            }
            const [id] = readyNodes(current, { limit: 1 });
            if (id !== undefined) current = after(current, start(id), complete(id));
          }
          const left = Object.values(statuses(current));
          expect(left.every((status) => ["complete", "failed", "skipped"].includes(status))).toBe(true);
        }),
        { numRuns: 500 },
      );
    });
  });
});

describe("graph words", () => {
  const at = "2026-01-01T00:00:00Z";

  test.each<[Json, string]>([
    [{ kind: "complete", node: "build", at, result: null }, "build complete"],
    [{ kind: "fail", node: "docs", at, error: "no such file" }, "docs fail (no such file)"],
    [{ kind: "fail", node: "docs", at, error: { code: 1 } }, "docs fail"],
    [{ kind: "skip", node: "docs", at, reason: "not wanted" }, "docs skip (not wanted)"],
    [{ kind: "approve", from: "a", to: "b", at }, "a → b approve"],
    [{ kind: "add", definition: { ...sampleNode("late") }, edges: [], at }, "late add"],
    [{ kind: "replay", at }, "replay"],
    ["nonsense", ""],
  ])("%j reads %j", (event, said) => {
    expect(graphMoveText(event)).toBe(said);
  });
});
