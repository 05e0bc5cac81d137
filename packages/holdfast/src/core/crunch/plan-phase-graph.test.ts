import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { addNode } from "../graph/graph-state.ts";
import type { Graph } from "../graph/graph.ts";
import { batchesOf, predecessorsOf, validateGraph } from "../graph/graph-order.ts";
import { sampleNode } from "../graph/graph-sample.ts";
import { SAMPLE_AT, sampleTeam } from "./crunch-sample.ts";
import { defaultCrunchSettings } from "./default-settings.ts";
import { GRAPH_PHASES } from "./graph-template.ts";
import type { GraphPhase, GraphTemplate, TemplateNode } from "./graph-template.ts";
import { editsFiles, planPhaseGraph, taskOf } from "./plan-phase-graph.ts";

function plan(
  params: {
    readonly phase?: GraphPhase;
    readonly template?: GraphTemplate;
    readonly labels?: readonly string[];
    readonly attempt?: number;
  } = {},
): Graph {
  const { phase = "implementing", labels = [] } = params;
  return planPhaseGraph({
    phase,
    template: params.template ?? defaultCrunchSettings.graphs[phase],
    team: sampleTeam({ labels }),
    agents: defaultCrunchSettings.agents,
    labels,
    attempt: params.attempt ?? 1,
    at: SAMPLE_AT,
  });
}

function node(id: string, after: readonly string[] = [], changes: Partial<TemplateNode> = {}): TemplateNode {
  return {
    id,
    who: { kind: "agent", agent: "reviewer" },
    action: "review_code",
    task: `do ${id}`,
    after,
    priority: "normal",
    timeoutMs: null,
    retries: 0,
    idempotent: true,
    edits: false,
    outputs: [],
    when: { domains: [], labels: [], complexity: null },
    ...changes,
  };
}

const NOBODY = { who: { kind: "agent", agent: "nobody" } } as const;

describe("the defaults", () => {
  test.each(GRAPH_PHASES)("%s makes a graph that can be run, for the smallest team and for the largest", (phase) => {
    expect(plan({ phase }).nodes.length).toBeGreaterThan(0);
    const labels = ["domain:security", "domain:infra", "domain:go", "domain:python", "domain:performance", "complex"];
    expect(validateGraph(plan({ phase, labels }))).toEqual([]);
  });

  test("one node for each who implements, and all of them before the review", () => {
    const graph = plan({ labels: ["domain:go", "domain:python"] });
    expect(batchesOf(graph)).toEqual([
      ["implement-dev-go", "implement-dev-python"],
      ["review-reviewer"],
      ["revise-dev-go", "revise-dev-python"],
      ["report"],
    ]);
  });

  test("security is looked into where the issue is about it", () => {
    const ids = (labels: readonly string[]): readonly string[] => plan({ labels }).nodes.map((one) => one.id);
    expect(ids(["domain:security"])).toContain("security-review");
    expect(ids(["domain:go"])).not.toContain("security-review");
  });

  test("a node has its own time, else its agent's", () => {
    expect(plan().nodes.find((one) => one.action === "implement")?.timeoutMs).toBe(600_000);
    const template = { nodes: [node("a", [], { timeoutMs: 5 }), node("b")], edges: [] };
    expect(plan({ template }).nodes.map((one) => one.timeoutMs)).toEqual([5, 300_000]);
  });
});

describe("what falls out", () => {
  test("leaves its order behind, through dependencies and edges", () => {
    const template: GraphTemplate = {
      nodes: [node("a"), node("x", ["a"], NOBODY), node("y", [], NOBODY), node("b", ["y"]), node("c"), node("d")],
      edges: [
        { type: "sequence", from: "x", to: "y" },
        { type: "data", from: "x", to: "c", key: "k" },
        { type: "approval", from: "d", to: "x", by: "user" },
      ],
    };
    const graph = plan({ template });
    expect(graph.nodes.map((one) => [one.id, one.dependencies])).toEqual([
      ["a", []],
      ["b", ["a", "d"]],
      ["c", []],
      ["d", []],
    ]);
    expect(graph.edges).toEqual([
      { from: "a", to: "c", type: "sequence" },
      { from: "d", to: "c", type: "sequence" },
    ]);
  });

  test.each([
    [{ domains: ["go"], labels: [], complexity: null }, ["domain:go"], true],
    [{ domains: ["go"], labels: [], complexity: null }, [], false],
    [{ domains: [], labels: ["Urgent"], complexity: null }, ["urgent"], true],
    [{ domains: [], labels: ["urgent"], complexity: null }, [], false],
    [{ domains: [], labels: [], complexity: "MEDIUM" }, ["domain:security"], true],
    [{ domains: [], labels: [], complexity: "HIGH" }, ["domain:security"], false],
    [{ domains: ["go"], labels: ["urgent"], complexity: null }, ["domain:go"], false],
  ] as const)("%j with %j: %s", (when, labels, there) => {
    const template = { nodes: [node("a"), node("b", [], { when })], edges: [] };
    expect(plan({ template, labels }).nodes.some((one) => one.id === "b")).toBe(there);
  });
});

test("edges of each type, for each of a role", () => {
  const each = { who: { kind: "role", role: "implementer" } } as const;
  const template: GraphTemplate = {
    nodes: [node("a", [], each), node("b")],
    edges: [
      { type: "data", from: "a", to: "b", key: "k" },
      { type: "approval", from: "a", to: "b", by: "user" },
    ],
  };
  expect(plan({ template, labels: ["domain:go", "domain:cpp"] }).edges).toEqual([
    { from: "a-dev-cpp", to: "b", type: "data", key: "k" },
    { from: "a-dev-go", to: "b", type: "data", key: "k" },
    { from: "a-dev-cpp", to: "b", type: "approval", by: "user", approvedAt: null },
    { from: "a-dev-go", to: "b", type: "approval", by: "user", approvedAt: null },
  ]);
});

test.each([
  ["a cycle", { nodes: [node("a", ["b"]), node("b", ["a"])], edges: [] }, /a → b → a waits for itself|b → a → b waits/],
  ["an unknown node", { nodes: [node("a", ["ghost"])], edges: [] }, /ghost, which is not a node/],
  ["an id twice", { nodes: [node("a"), node("a")], edges: [] }, /two nodes are called a/],
  [
    "a cycle of what falls out is none",
    { nodes: [node("a", ["x"]), node("x", ["y"], NOBODY), node("y", ["x"], NOBODY)], edges: [] },
    null,
  ],
])("%s", (_, template, problem) => {
  if (problem === null) expect(plan({ template }).nodes).toMatchObject([{ id: "a", dependencies: [] }]);
  else expect(() => plan({ template })).toThrow(problem);
});

test("defect 10: the definition is in the graph itself, so that a checkpoint of it can run on", () => {
  const restored: Graph = JSON.parse(JSON.stringify(plan({ labels: ["domain:go"] })));
  expect(batchesOf(restored)).toEqual(batchesOf(plan({ labels: ["domain:go"] })));
  expect(restored.nodes.map((one) => editsFiles(restored, one))).toEqual([true, false, true]);
  expect(taskOf(restored, { id: "review-reviewer", action: "x" })).toMatch(/^Review/);
});

test("defect 13: a node keeps its id when others come before it; each stay in a phase has a graph of its own", () => {
  const small = plan({ labels: ["domain:go"] });
  const large = plan({ labels: ["domain:go", "domain:infra", "domain:cpp"] });
  for (const one of small.nodes) expect(large.nodes.map((other) => other.id)).toContain(one.id);
  expect(plan({ attempt: 2 }).id).not.toBe(plan().id);
  expect(plan().id).toMatch(/^GRAPH-20260114T103000-[0-9a-f]{8}$/);
});

test("a node that was added while it ran is told by its action", () => {
  const added = sampleNode("fix", [], { action: "implement" });
  const graph = addNode(plan(), { node: added, at: SAMPLE_AT });
  expect([editsFiles(graph, added), taskOf(graph, added)]).toEqual([true, "implement"]);
  expect(editsFiles(graph, { id: "toString", action: "review_code" })).toBe(false);
});

test("whatever falls out of a template without cycles, the rest keeps its order", () => {
  const some = fc.array(
    fc.record({ there: fc.boolean(), after: fc.array(fc.nat(), { maxLength: 3 }), edge: fc.option(fc.nat()) }),
    {
      maxLength: 10,
    },
  );
  fc.assert(
    fc.property(some, (drawn) => {
      const nodes = drawn.map(({ there, after }, index) =>
        node(`n${index}`, index === 0 ? [] : [...new Set(after.map((one) => `n${one % index}`))], there ? {} : NOBODY),
      );
      const edges = drawn.flatMap(({ edge }, index) =>
        edge === null || index === 0 ? [] : [{ type: "sequence" as const, from: `n${edge % index}`, to: `n${index}` }],
      );
      const whole = {
        nodes: nodes.map((one) => ({ ...one, who: { kind: "agent", agent: "reviewer" } as const })),
        edges,
      };
      const [full, rest] = [plan({ template: whole }), plan({ template: { nodes, edges } })];
      const kept = new Set(rest.nodes.map((one) => one.id));
      expect(kept).toEqual(new Set(drawn.flatMap(({ there }, index) => (there ? [`n${index}`] : []))));
      const [before, after] = [reach(full), reach(rest)];
      for (const id of kept) {
        expect([...(after.get(id) ?? [])].toSorted()).toEqual(
          [...(before.get(id) ?? [])].filter((one) => kept.has(one)).toSorted(),
        );
      }
    }),
  );
});

/** All that a node waits for, directly or through others. */
function reach(graph: Graph): ReadonlyMap<string, ReadonlySet<string>> {
  const direct = predecessorsOf(graph);
  const all = new Map<string, Set<string>>();
  for (const id of batchesOf(graph).flat()) {
    const earlier = [...(direct.get(id) ?? [])];
    all.set(id, new Set(earlier.flatMap((one) => [one, ...(all.get(one) ?? [])])));
  }
  return all;
}
