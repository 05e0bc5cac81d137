import fc from "fast-check";
import { expect, test } from "vitest";
import type { Graph, NodeState, NodeStatus } from "@holdfast/core/graph";
import { sampleGraph, sampleNode } from "@holdfast/test-support/core/graph-sample";
import { NODE_CONDITIONS, pictureGraph } from "./graph-view.ts";

const T0 = Date.parse("2026-11-15T12:00:00.000Z");
const at = (minutes: number): string => new Date(T0 + minutes * 60_000).toISOString();
const MINUTE = 60_000;
const LIVE = { live: true, now: T0 + 20 * MINUTE, seenAt: at(15) };
const DEAD = { ...LIVE, live: false };

function state(
  status: NodeStatus,
  from: number | null,
  to: number | null,
  result: NodeState["result"] = null,
): NodeState {
  return {
    status,
    attempt: from === null ? 0 : 1,
    startedAt: from === null ? null : at(from),
    endedAt: to === null ? null : at(to),
    result,
  };
}

const graph: Graph = {
  ...sampleGraph([
    sampleNode("spec"),
    sampleNode("api", ["spec"]),
    sampleNode("db", ["spec"]),
    sampleNode("tests", ["api", "db"]),
  ]),
  states: { spec: state("complete", 0, 4), api: state("running", 4, null), db: state("failed", 4, 5, { error: "no" }) },
};

test("while a process executes the run, started nodes are running, up to now", () => {
  const picture = pictureGraph(graph, LIVE);
  expect(picture.batches).toEqual([["spec"], ["api", "db"], ["tests"]]);
  expect(picture.nodes.map(({ id, state: now, elapsed }) => [id, now, elapsed])).toEqual([
    ["spec", "complete", { milliseconds: 4 * MINUTE, kind: "whole" }],
    ["api", "running", { milliseconds: 16 * MINUTE, kind: "so_far" }],
    ["db", "failed", { milliseconds: MINUTE, kind: "whole" }],
    ["tests", "pending", null],
  ]);
  expect(picture.elapsed).toEqual({ milliseconds: 20 * MINUTE, kind: "so_far" });
  expect(picture.nodes[2]?.reason).toBe("no");
});

test("without a process they are interrupted, up to the last sign of life", () => {
  const picture = pictureGraph(graph, DEAD);
  expect(picture.nodes[1]).toMatchObject({
    state: "interrupted",
    elapsed: { milliseconds: 11 * MINUTE, kind: "at_least" },
  });
  expect(picture.counts).toMatchObject({ running: 0, interrupted: 1 });
  expect(picture.elapsed).toEqual({ milliseconds: 15 * MINUTE, kind: "at_least" });
  expect(picture.resumePoint).toBe("api");
});

test("a node of unknown outcome has no duration", () => {
  const unknown = { ...graph, states: { ...graph.states, api: state("unknown", 4, null) } };
  expect(pictureGraph(unknown, DEAD).nodes[1]).toMatchObject({ state: "unknown", elapsed: null });
});

test("the critical path is measured for finished nodes and estimated for others", () => {
  // 4 min + 16 min so far + the mean of 4, 16 and 1.
  const { criticalPath } = pictureGraph(graph, LIVE);
  expect(criticalPath).toEqual({ nodes: ["spec", "api", "tests"], milliseconds: 27 * MINUTE });
  const fresh = pictureGraph({ ...graph, states: {} }, LIVE);
  expect(fresh.criticalPath.nodes).toHaveLength(3);
  expect(fresh.elapsed).toBeNull();
});

test("a whole graph took from its first start to its last end, whatever the clock did", () => {
  const over = {
    ...graph,
    states: { ...graph.states, api: state("complete", 4, 9), tests: state("skipped", null, 5) },
  };
  expect(pictureGraph(over, DEAD).elapsed).toEqual({ milliseconds: 9 * MINUTE, kind: "whole" });
  const odd = { ...graph, states: { spec: state("complete", 4, 1) } };
  expect(pictureGraph(odd, LIVE).nodes[0]?.elapsed).toEqual({ milliseconds: 0, kind: "whole" });
});

test("a start also counts after a replay", () => {
  const replayed = { ...graph, states: { spec: { ...state("complete", 0, 4), tries: 2 } } };
  expect(pictureGraph(replayed, LIVE).nodes.map(({ attempts }) => attempts)).toEqual([3, 0, 0, 0]);
});

test("approvals that block a node are listed", () => {
  const edge = { from: "db", to: "tests", type: "approval", by: "qa", approvedAt: null } as const;
  expect(pictureGraph({ ...graph, edges: [edge] }, LIVE).approvals).toEqual([{ from: "db", to: "tests", by: "qa" }]);
});

test("an invalid graph can be shown", () => {
  const ring = sampleGraph([sampleNode("a", ["b"]), sampleNode("b", ["a"]), sampleNode("c", ["ghost"])]);
  const picture = pictureGraph(ring, LIVE);
  expect(picture.batches).toEqual([["a", "b", "c"]]);
  expect(picture.problems).toEqual([
    "node c names ghost, which is not a node",
    expect.stringContaining("waits for itself"),
  ]);
  const twins = pictureGraph(sampleGraph([sampleNode("a"), sampleNode("a")]), LIVE);
  expect([twins.nodes.length, twins.problems]).toEqual([1, ["two nodes are called a"]]);
});

test("every node is in one batch and counted once, on the path at most once per batch", () => {
  const statuses = fc.constantFrom<NodeStatus>(
    "pending",
    "queued",
    "running",
    "complete",
    "failed",
    "skipped",
    "unknown",
  );
  const row = fc.tuple(fc.array(fc.nat(), { maxLength: 3 }), statuses, fc.nat(50), fc.nat(50));
  fc.assert(
    fc.property(fc.array(row, { maxLength: 20 }), fc.boolean(), (rows, live) => {
      const nodes = rows.map(([to], i) =>
        sampleNode(`n${i}`, i === 0 ? [] : [...new Set(to.map((one) => `n${one % i}`))]),
      );
      const states = Object.fromEntries(rows.map(([, status, from, to], i) => [`n${i}`, state(status, from, to)]));
      const picture = pictureGraph({ ...sampleGraph(nodes), states }, { ...LIVE, live });
      const ids = nodes.map(({ id }) => id);
      expect(picture.batches.flat().toSorted()).toEqual(ids.toSorted());
      expect(NODE_CONDITIONS.reduce((sum, one) => sum + picture.counts[one], 0)).toBe(ids.length);
      expect(live ? picture.counts.interrupted : picture.counts.running).toBe(0);
      const onPath = picture.nodes.filter(({ critical }) => critical).map(({ batch }) => batch);
      expect(new Set(onPath).size).toBe(onPath.length);
      for (const { elapsed } of picture.nodes) expect(elapsed?.milliseconds ?? 0).toBeGreaterThanOrEqual(0);
    }),
  );
});
