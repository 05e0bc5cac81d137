import fc from "fast-check";
import { expect, test } from "vitest";
import type { Graph, NodeStatus } from "./graph.ts";
import { resumePoint } from "./graph-resume-point.ts";
import { sampleGraph, sampleNode } from "./graph-sample.ts";
import { progressOf, readyNodes, stateOf, stepGraph } from "./graph-state.ts";

function having(graph: Graph, states: Readonly<Record<string, NodeStatus>>): Graph {
  return {
    ...graph,
    states: Object.fromEntries(
      Object.entries(states).map(([id, status]) => [
        id,
        { status, attempt: 1, startedAt: null, endedAt: null, result: null },
      ]),
    ),
  };
}

function recoverAll(graph: Graph): Graph {
  let now = graph;
  for (const { id: node } of graph.nodes) {
    const { status } = stateOf(now, node);
    if (status === "running" || status === "queued")
      now = stepGraph(now, { kind: "recover", node, at: "2026-11-15T12:00:00Z" });
  }
  return now;
}

test("the most urgent of what may go on, by its id", () => {
  const graph = sampleGraph([
    sampleNode("a"),
    sampleNode("b", ["a"]),
    sampleNode("c", ["a"], { priority: "high" }),
    sampleNode("d", ["b", "c"]),
  ]);
  expect(resumePoint(graph)).toBe("a");
  expect(resumePoint(having(graph, { a: "running" }))).toBe("a");
  expect(resumePoint(having(graph, { a: "complete" }))).toBe("c");
  expect(resumePoint(having(graph, { a: "complete", b: "unknown", c: "complete" }))).toBe("b");
  expect(resumePoint(having(graph, { a: "complete", b: "complete", c: "complete", d: "complete" }))).toBeNull();
});

test("what waits for an approval is not gone on with", () => {
  const edge = { from: "a", to: "b", type: "approval", by: "qa", approvedAt: null } as const;
  const graph = having(sampleGraph([sampleNode("a"), sampleNode("b")], [edge]), { a: "complete" });
  expect(resumePoint(graph)).toBeNull();
  expect(resumePoint({ ...graph, edges: [{ ...edge, approvedAt: "2026-11-15T12:00:00Z" }] })).toBe("b");
});

test("it is there exactly when a resumed run has something to do or to ask", () => {
  const statuses = fc.constantFrom<NodeStatus>(
    "pending",
    "queued",
    "running",
    "complete",
    "failed",
    "skipped",
    "unknown",
  );
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.array(fc.nat(), { maxLength: 2 }), statuses, fc.boolean()), { maxLength: 10 }),
      (rows) => {
        const nodes = rows.map(([to, , idempotent], at) =>
          sampleNode(`n${at}`, at === 0 ? [] : [...new Set(to.map((one) => `n${one % at}`))], { idempotent }),
        );
        const states = new Map<string, NodeStatus>();
        for (const [at, [, status]] of rows.entries()) {
          // Nothing runs before what it waits for is complete.
          const free = nodes[at]?.dependencies.every((one) => states.get(one) === "complete");
          states.set(`n${at}`, status === "running" && free !== true ? "pending" : status);
        }
        const graph = having(sampleGraph(nodes), Object.fromEntries(states));
        const resumed = recoverAll(graph);
        const point = resumePoint(graph);
        const ready = readyNodes(resumed, { limit: Number.POSITIVE_INFINITY });
        const progress = progressOf(resumed);
        const asked = resumed.nodes.map(({ id }) => id).filter((id) => resumed.states[id]?.status === "unknown");
        if (point === null) expect([ready, asked, progress.kind === "active"]).toEqual([[], [], false]);
        else expect([...ready, ...asked]).toContain(point);
      },
    ),
  );
});
