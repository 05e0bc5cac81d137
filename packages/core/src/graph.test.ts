import fc from "fast-check";
import { expect, test } from "vitest";
import { sampleGraph as graph, sampleNode as node } from "@holdfast/test-support/core/graph-sample";
import { type Graph, type GraphEdge, batchesOf, criticalPath, predecessorsOf, validateGraph } from "./graph.ts";

test("batches are layers, in the order of the definition", () => {
  const diamond = graph([node("d", ["b", "c"]), node("c", ["a"]), node("b", ["a"]), node("a")]);
  expect(batchesOf(diamond)).toEqual([["a"], ["c", "b"], ["d"]]);
  expect(batchesOf(graph([]))).toEqual([]);
  const crossed = graph([node("x", ["b"]), node("y", ["a"]), node("a"), node("b")]);
  expect(batchesOf(crossed)).toEqual([
    ["a", "b"],
    ["x", "y"],
  ]);
});

test.each<GraphEdge>([
  { from: "a", to: "b", type: "data", key: "spec" },
  { from: "a", to: "b", type: "sequence" },
  { from: "a", to: "b", type: "approval", by: "qa", approvedAt: null },
])("a $type edge alone orders its ends (crunch checked dependencies only)", (edge) => {
  expect(batchesOf(graph([node("b"), node("a")], [edge]))).toEqual([["a"], ["b"]]);
});

test("a cycle is named as a path, through edges too", () => {
  const round = graph(
    [node("a", ["c"]), node("b", ["a"]), node("c"), node("tail", ["a"])],
    [{ from: "b", to: "c", type: "sequence" }],
  );
  expect(validateGraph(round)).toEqual([{ kind: "cycle", path: ["a", "b", "c", "a"] }]);
  expect(() => batchesOf(round)).toThrow(/a → b → c → a waits for itself/);
  expect(validateGraph(graph([node("x", ["x"])]))).toEqual([{ kind: "cycle", path: ["x", "x"] }]);
});

test("all problems are reported, not only the first", () => {
  const bad: Graph = {
    ...graph([node("a"), node("a"), node("b", ["ghost"])], [{ from: "phantom", to: "b", type: "sequence" }]),
    states: { wraith: { status: "pending", attempt: 0, startedAt: null, endedAt: null, result: null } },
  };
  expect(validateGraph(bad)).toEqual([
    { kind: "duplicate_node", node: "a" },
    { kind: "unknown_node", node: "ghost", wantedBy: "node b" },
    { kind: "unknown_node", node: "phantom", wantedBy: "the sequence edge to b" },
    { kind: "unknown_node", node: "wraith", wantedBy: "the states" },
  ]);
});

test("a chain of 20 000 nodes does not overflow the stack", () => {
  const chain = graph(Array.from({ length: 20_000 }, (_, i) => node(`n${i}`, i === 0 ? [] : [`n${i - 1}`])));
  expect(batchesOf(chain)).toHaveLength(20_000);
  const ring = graph([...chain.nodes.slice(1), node("n0", ["n19999"])]);
  expect(validateGraph(ring)).toMatchObject([{ kind: "cycle" }]);
});

const someDag = fc.array(fc.array(fc.nat(), { maxLength: 3 }), { maxLength: 12 }).chain((links) => {
  const nodes = links.map((to, index) =>
    node(`n${index}`, index === 0 ? [] : [...new Set(to.slice(1).map((one) => `n${one % index}`))]),
  );
  const edges = links.flatMap((to, index): GraphEdge[] =>
    index === 0 || to[0] === undefined ? [] : [{ from: `n${to[0] % index}`, to: `n${index}`, type: "sequence" }],
  );
  return fc.shuffledSubarray(nodes, { minLength: nodes.length }).map((shuffled) => graph(shuffled, edges));
});

test("batches contain every node once, after all its dependencies and as early as possible", () => {
  fc.assert(
    fc.property(someDag, (dag) => {
      expect(validateGraph(dag)).toEqual([]);
      const batches = batchesOf(dag);
      expect(batches.flat().toSorted()).toEqual(dag.nodes.map((one) => one.id).toSorted());
      const layerOf = new Map(batches.flatMap((batch, index) => batch.map((id) => [id, index])));
      for (const [id, before] of predecessorsOf(dag)) {
        const last = Math.max(-1, ...[...before].map((one) => layerOf.get(one) ?? Number.NaN));
        expect(layerOf.get(id)).toBe(last + 1);
      }
    }),
  );
});

test("a reported cycle is a cycle", () => {
  const someGraph = fc.array(fc.array(fc.nat(9), { maxLength: 3 }), { minLength: 10, maxLength: 10 });
  fc.assert(
    fc.property(someGraph, (links) => {
      const any = graph(
        links.map((to, index) =>
          node(
            `n${index}`,
            to.map((one) => `n${one}`),
          ),
        ),
      );
      const cycle = validateGraph(any).find((problem) => problem.kind === "cycle");
      if (cycle === undefined) {
        expect(batchesOf(any).flat()).toHaveLength(10);
        return;
      }
      const before = predecessorsOf(any);
      expect(cycle.path.length).toBeGreaterThan(1);
      expect(cycle.path.at(0)).toBe(cycle.path.at(-1));
      cycle.path.slice(1).forEach((id, index) => expect(before.get(id)).toContain(cycle.path[index]));
    }),
  );
});

test("the critical path is the longest chain", () => {
  const diamond = graph([node("a"), node("b", ["a"]), node("c", ["a"]), node("d", ["b", "c"]), node("e")]);
  const costs: Record<string, number> = { a: 1, b: 5, c: 2, d: 1, e: 6 };
  const path = criticalPath({ graph: diamond, cost: (one) => costs[one.id] ?? 0 });
  expect(path).toEqual({ nodes: ["a", "b", "d"], total: 7 });
  expect(criticalPath({ graph: diamond, cost: (one) => (one.id === "e" ? 100 : 1) })).toEqual({
    nodes: ["e"],
    total: 100,
  });
  expect(criticalPath({ graph: graph([]), cost: () => 1 })).toEqual({ nodes: [], total: 0 });
});

test("with equal costs the critical path has one node a batch", () => {
  fc.assert(
    fc.property(someDag, (dag) => {
      const { nodes, total } = criticalPath({ graph: dag, cost: () => 1 });
      expect(total).toBe(batchesOf(dag).length);
      expect(nodes).toHaveLength(total);
      const before = predecessorsOf(dag);
      nodes.slice(1).forEach((id, index) => expect(before.get(id)).toContain(nodes[index]));
    }),
  );
});
