import { describe, expect, test } from "vitest";
import type { Graph, NodeState } from "@holdfast/core/graph";
import type { JsonObject } from "@holdfast/core/json";
import type { GraphEnd } from "@holdfast/core/run-graph";
import { sampleGraph, sampleNode } from "@holdfast/test-support/core/graph-sample";
import { planPhaseEnd } from "./run-phase.ts";

const result = (rest: JsonObject = {}): JsonObject => ({
  of: "node:a#1",
  status: "SUCCESS",
  summary: "done",
  findings: [],
  recommendations: [],
  sideWorktree: null,
  escalate: null,
  abort: null,
  ...rest,
});
const state = (status: NodeState["status"], value: JsonObject): NodeState => ({
  status,
  attempt: 1,
  startedAt: null,
  endedAt: null,
  result: value,
});
const complete = state("complete", result());
const failed = state("failed", { error: "it broke" });

function graphOf(states: Readonly<Record<string, NodeState>>, priority: "high" | "normal" = "normal"): Graph {
  const nodes = Object.keys(states).map((id) => sampleNode(id, [], { priority }));
  return { ...sampleGraph(nodes), states };
}

const failure = (rest: Partial<Extract<GraphEnd, { kind: "failed" }>> = {}): GraphEnd => ({
  kind: "failed",
  nodes: ["b"],
  abortedBy: null,
  batch: null,
  ...rest,
});
const plan = (graph: Graph, end: GraphEnd, rest: { checks?: boolean; replays?: number } = {}) =>
  planPhaseEnd({ graph, end, stopped: null, checks: false, replays: 0, limit: 1, ...rest });

describe("the result of a phase's graph", () => {
  test("all complete: it has ended", () => {
    expect(plan(graphOf({ a: complete }), { kind: "complete" })).toEqual({ kind: "ended", failed: [] });
  });
  test("failed nodes run again up to the limit; then minor ones stay failed", () => {
    const graph = graphOf({ a: complete, b: failed });
    expect(plan(graph, failure())).toEqual({ kind: "replay" });
    const left = { kind: "ended", failed: [{ node: "b", why: "it broke" }] };
    expect(plan(graph, failure(), { replays: 1 })).toEqual(left);
    expect(plan(graphOf({ a: complete, b: failed }, "high"), failure(), { replays: 1 }).kind).toBe("ask");
  });
  test("a major node that was skipped because a minor one failed is asked about", () => {
    const skipped = state("skipped", { reason: "b failed", cause: "b" });
    const graph = graphOf({ b: failed, c: skipped });
    const heavy = {
      ...graph,
      nodes: graph.nodes.map((node) => (node.id === "c" ? { ...node, priority: "critical" as const } : node)),
    };
    expect(plan(graph, failure(), { replays: 1 }).kind).toBe("ended");
    expect(plan(heavy, failure(), { replays: 1 })).toMatchObject({ kind: "ask", failed: [{ node: "b" }] });
  });
  test("a critical node and a whole batch are asked about immediately", () => {
    const graph = graphOf({ a: complete, b: failed });
    expect(plan(graph, failure({ abortedBy: "b" }))).toMatchObject({
      kind: "ask",
      question: expect.stringMatching(/^b failed/),
    });
    expect(plan(graph, failure({ batch: 2 }))).toMatchObject({
      question: expect.stringMatching(/^All of batch 2 failed/),
    });
  });
  test("a phase with a verdict sends the work back, only for failures and major findings", () => {
    const checks = { checks: true };
    expect(plan(graphOf({ b: failed }), failure({ abortedBy: "b" }), checks)).toMatchObject({
      kind: "sent_back",
      reason: "b failed: it broke",
    });
    const finding = {
      id: "F-1",
      category: "",
      title: "A leak",
      description: "",
      location: "a.ts:3",
      recommendation: "",
      confidence: 90,
    };
    const found = (severity: string) =>
      plan(
        graphOf({ a: state("complete", result({ findings: [{ ...finding, severity }] })) }),
        { kind: "complete" },
        checks,
      );
    expect(found("HIGH")).toMatchObject({ kind: "sent_back", reason: "HIGH A leak (a.ts:3)" });
    expect(found("MEDIUM")).toEqual({ kind: "ended", failed: [] });
  });
  test("an abort comes before everything else", () => {
    const graph = graphOf({ a: state("complete", result({ abort: "Wrong project." })), b: failed });
    expect(plan(graph, failure({ batch: 2 }))).toEqual({
      kind: "aborted",
      reason: "a ended the phase: Wrong project.",
    });
  });
});
