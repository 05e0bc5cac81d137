import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Graph, batchesOf, predecessorsOf, validateGraph } from "@holdfast/core/graph";
import { addNode } from "@holdfast/core/graph-state";
import { sampleNode } from "@holdfast/test-support/core/graph-sample";
import { SAMPLE_AT, sampleTeam } from "@holdfast/test-support/workflows/crunch-sample";
import { DEFAULT_AGENTS, defaultCrunchSettings } from "./default-settings.ts";
import { composeTeam, detectLanguages, editsFiles, planPhaseGraph, readComplexitySigns, taskOf } from "./plan-team.ts";
import { GRAPH_PHASES, type GraphPhase, type GraphTemplate, type TemplateNode } from "./settings.ts";
import { type TaskStatus, type Team, memberCounts, membersIn } from "./team.ts";

describe("compose team", () => {
  function agentsOf(team: Team): readonly string[] {
    return team.members.map((member) => member.agent);
  }

  test("there are seventeen roles to choose from", () => {
    expect(Object.keys(DEFAULT_AGENTS)).toHaveLength(17);
  });

  describe("selection", () => {
    test("without signs: the permanent members, and an implementer", () => {
      expect(agentsOf(sampleTeam({ title: "Do it" })).toSorted()).toEqual(
        ["developer", "knowledge-manager", "qa-engineer", "reviewer", "system-architect", "techwriter"].toSorted(),
      );
    });

    test("a label selects, a word selects, and part of a word does not", () => {
      expect(agentsOf(sampleTeam({ labels: ["domain:go"] }))).toContain("dev-go");
      expect(agentsOf(sampleTeam({ body: "The goroutine of go.mod leaks" }))).toContain("dev-go");
      expect(agentsOf(sampleTeam({ body: "A good category to go" }))).not.toContain("dev-go");
      expect(agentsOf(sampleTeam({ body: "src/main.cpp crashes" }))).toContain("dev-cpp");
    });

    test("an orchestrator for two domains, for the label complex, and not otherwise", () => {
      expect(agentsOf(sampleTeam({ labels: ["domain:go"] }))).not.toContain("orchestrator");
      expect(agentsOf(sampleTeam({ labels: ["domain:go", "domain:api"] }))).toContain("orchestrator");
      expect(agentsOf(sampleTeam({ labels: ["complex"] }))).toContain("orchestrator");
      const issue = { number: 1, title: "", body: "", labels: [] };
      const again = composeTeam({
        issue,
        settings: defaultCrunchSettings,
        languages: [],
        priorFailures: 1,
        at: SAMPLE_AT,
      });
      expect(agentsOf(again)).toContain("orchestrator");
    });

    test("without the fallback, the first implementer is selected", () => {
      const { developer: _, ...agents } = DEFAULT_AGENTS;
      const team = composeTeam({
        issue: { number: 1, title: "", body: "", labels: [] },
        settings: { ...defaultCrunchSettings, agents },
        languages: [],
        priorFailures: 0,
        at: SAMPLE_AT,
      });
      expect(membersIn(team, { role: "implementer", phase: "implementing" })).toEqual(["dev-cpp"]);
    });
  });

  describe("the implementers match the repository", () => {
    const implementers = (languages: readonly string[], issue: { labels?: readonly string[]; body?: string } = {}) =>
      membersIn(
        composeTeam({
          issue: { number: 1, title: "", body: "", labels: [], ...issue },
          settings: defaultCrunchSettings,
          languages,
          priorFailures: 0,
          at: SAMPLE_AT,
        }),
        { role: "implementer", phase: "implementing" },
      );

    test.each<[readonly string[], readonly string[]]>([
      [["JavaScript"], ["developer"]],
      [["TypeScript", "JavaScript", "Python"], ["developer"]],
      [["Python", "JavaScript"], ["dev-python"]],
      [["Go"], ["dev-go"]],
      [["C"], ["dev-cpp"]],
      [["JSX", "TypeScript"], ["dev-react"]],
      [["Rust"], ["developer"]],
      [[], ["developer"]],
    ])("in one with %j: %j", (languages, expected) => {
      expect(implementers(languages)).toEqual(expected);
    });

    test("words select only agents for its languages, a label selects the agents that it names", () => {
      const body = "The pytest run of tools/check.py fails";
      expect(implementers(["TypeScript"], { body })).toEqual(["developer"]);
      expect(implementers(["TypeScript", "Python"], { body })).toEqual(["dev-python"]);
      expect(implementers([], { body })).toEqual(["dev-python"]);
      expect(implementers(["TypeScript"], { labels: ["domain:python"] })).toEqual(["dev-python"]);
    });

    test("languages are counted by files, without vendored ones, and rare ones do not count", () => {
      const own = Array.from({ length: 30 }, (_, at) => `src/a${at}.ts`);
      const others = Array.from({ length: 99 }, (_, at) => `vendor/x${at}.go`);
      const all = [...own, ...others, "node_modules/a/b.py", "app.min.js", "README.md", "one.rb", "x.TSX", "y.tsx"];
      expect(detectLanguages(all)).toEqual(["TypeScript", "JSX"]);
      expect(detectLanguages(["b.py", "a.go"])).toEqual(["Go", "Python"]);
      expect(detectLanguages(['"odd\\303.py"', "Makefile", ".py"])).toEqual(["Python"]);
      expect(detectLanguages([])).toEqual([]);
    });
  });

  test("signs come from labels and words; each file counts once", () => {
    const body = Array.from({ length: 10 }, (_, index) => `src/part-${index}/a.py and src/part-${index}/a.py`).join(
      "\n",
    );
    expect(readComplexitySigns({ number: 1, title: "A breaking change", body, labels: ["domain:api"] }, 2)).toEqual({
      domains: ["api", "python"],
      files: 10,
      breaking: true,
      priorFailures: 2,
    });
    expect(readComplexitySigns({ number: 1, title: "", body: "", labels: ["Breaking-Change"] }, 0).breaking).toBe(true);
  });

  test("the same issue has the same team and id; every member works in some phase", () => {
    fc.assert(
      fc.property(
        fc.string(),
        fc.array(fc.constantFrom("domain:go", "domain:security", "complex", "x")),
        (body, labels) => {
          const team = sampleTeam({ body, labels });
          expect(sampleTeam({ body, labels })).toEqual(team);
          expect(team.id).toMatch(/^TEAM-20260114-[0-9a-f]{4}$/);
          expect(new Set(agentsOf(team)).size).toBe(team.members.length);
          expect(membersIn(team, { role: "implementer", phase: "implementing" }).length).toBeGreaterThan(0);
        },
      ),
    );
  });

  test("more labels remove no member from the team", () => {
    const some = fc.array(fc.constantFrom("domain:go", "domain:security", "domain:infra", "complex"));
    fc.assert(
      fc.property(some, some, (one, other) => {
        const larger = new Set(agentsOf(sampleTeam({ labels: [...one, ...other, "domain:python"] })));
        for (const agent of agentsOf(sampleTeam({ labels: [...one, "domain:python"] })))
          expect(larger).toContain(agent);
      }),
    );
  });

  test("counts are of tasks in their current state, however often each moved", () => {
    const statuses: readonly TaskStatus[] = ["pending", "active", "completed", "failed", "blocked", "skipped"];
    const moves = fc.array(
      fc.record({
        task: fc.constantFrom("a", "b", "c", "d"),
        agent: fc.constantFrom("reviewer", "dev-go"),
        status: fc.constantFrom(...statuses),
      }),
    );
    fc.assert(
      fc.property(moves, (moved) => {
        const tasks = Object.fromEntries(
          moved.map(({ task, agent, status }) => [task, { agent, status, phase: "docs" as const }]),
        );
        const team = { ...sampleTeam(), tasks };
        const counts = ["reviewer", "dev-go"].map((agent) => memberCounts(team, agent));
        const skipped = Object.values(tasks).filter((task) => task.status === "skipped").length;
        const total = counts.reduce((sum, one) => sum + one.completed + one.pending + one.failed, skipped);
        expect(total).toBe(Object.keys(tasks).length);
        for (const one of counts) expect(one.status === "idle").toBe(one.pending === 0);
      }),
    );
    const team = {
      ...sampleTeam(),
      tasks: {
        a: { agent: "reviewer", phase: "docs", status: "active" },
        b: { agent: "reviewer", phase: "docs", status: "completed" },
        c: { agent: "reviewer", phase: "docs", status: "failed" },
      },
    } as const;
    expect(memberCounts(team, "reviewer")).toEqual({ status: "active", completed: 1, pending: 1, failed: 1 });
    expect(memberCounts(team, "absent")).toEqual({ status: "idle", completed: 0, pending: 0, failed: 0 });
  });
});

describe("plan phase graph", () => {
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

  const ABSENT = { who: { kind: "agent", agent: "absent" } } as const;

  describe("the defaults", () => {
    test.each(GRAPH_PHASES)("%s makes a valid graph, for the smallest team and for the largest", (phase) => {
      expect(plan({ phase }).nodes.length).toBeGreaterThan(0);
      const labels = ["domain:security", "domain:infra", "domain:go", "domain:python", "domain:performance", "complex"];
      expect(validateGraph(plan({ phase, labels }))).toEqual([]);
    });

    test("one node for each implementer, and all of them before the review", () => {
      const graph = plan({ labels: ["domain:go", "domain:python"] });
      expect(batchesOf(graph)).toEqual([
        ["implement-dev-go", "implement-dev-python"],
        ["review-reviewer"],
        ["revise-dev-go", "revise-dev-python"],
        ["report"],
      ]);
    });

    test("security is reviewed if the issue is about it", () => {
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

  describe("a node that is left out", () => {
    test("keeps the order of its neighbours, through dependencies and edges", () => {
      const template: GraphTemplate = {
        nodes: [node("a"), node("x", ["a"], ABSENT), node("y", [], ABSENT), node("b", ["y"]), node("c"), node("d")],
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

  test("edges of each type, for each agent of a role", () => {
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
    [
      "a cycle",
      { nodes: [node("a", ["b"]), node("b", ["a"])], edges: [] },
      /a → b → a waits for itself|b → a → b waits/,
    ],
    ["an unknown node", { nodes: [node("a", ["ghost"])], edges: [] }, /ghost, which is not a node/],
    ["an id twice", { nodes: [node("a"), node("a")], edges: [] }, /two nodes are called a/],
    [
      "a cycle of nodes that are left out is not one",
      { nodes: [node("a", ["x"]), node("x", ["y"], ABSENT), node("y", ["x"], ABSENT)], edges: [] },
      null,
    ],
  ])("%s", (_, template, problem) => {
    if (problem === null) expect(plan({ template }).nodes).toMatchObject([{ id: "a", dependencies: [] }]);
    else expect(() => plan({ template })).toThrow(problem);
  });

  test("defect 10: the definition is in the graph itself, so that a checkpoint of it can continue", () => {
    const restored: Graph = JSON.parse(JSON.stringify(plan({ labels: ["domain:go"] })));
    expect(batchesOf(restored)).toEqual(batchesOf(plan({ labels: ["domain:go"] })));
    expect(restored.nodes.map((one) => editsFiles(restored, one))).toEqual([true, false, true]);
    expect(taskOf(restored, { id: "review-reviewer", action: "x" })).toMatch(/^Review/);
  });

  test("defect 13: a node keeps its id when others are added before it; each stage attempt of a phase has its own graph", () => {
    const small = plan({ labels: ["domain:go"] });
    const large = plan({ labels: ["domain:go", "domain:infra", "domain:cpp"] });
    for (const one of small.nodes) expect(large.nodes.map((other) => other.id)).toContain(one.id);
    expect(plan({ attempt: 2 }).id).not.toBe(plan().id);
    expect(plan().id).toMatch(/^GRAPH-20260114T103000-[0-9a-f]{8}$/);
  });

  test("a node that was added at run time is named by its action", () => {
    const added = sampleNode("fix", [], { action: "implement" });
    const graph = addNode(plan(), { node: added, at: SAMPLE_AT });
    expect([editsFiles(graph, added), taskOf(graph, added)]).toEqual([true, "implement"]);
    expect(editsFiles(graph, { id: "toString", action: "review_code" })).toBe(false);
  });

  test("for any nodes left out of a template without cycles, the rest keeps its order", () => {
    const some = fc.array(
      fc.record({ there: fc.boolean(), after: fc.array(fc.nat(), { maxLength: 3 }), edge: fc.option(fc.nat()) }),
      {
        maxLength: 10,
      },
    );
    fc.assert(
      fc.property(some, (drawn) => {
        const nodes = drawn.map(({ there, after }, index) =>
          node(
            `n${index}`,
            index === 0 ? [] : [...new Set(after.map((one) => `n${one % index}`))],
            there ? {} : ABSENT,
          ),
        );
        const edges = drawn.flatMap(({ edge }, index) =>
          edge === null || index === 0
            ? []
            : [{ type: "sequence" as const, from: `n${edge % index}`, to: `n${index}` }],
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

  /** All direct and indirect dependencies of each node. */
  function reach(graph: Graph): ReadonlyMap<string, ReadonlySet<string>> {
    const direct = predecessorsOf(graph);
    const all = new Map<string, Set<string>>();
    for (const id of batchesOf(graph).flat()) {
      const earlier = [...(direct.get(id) ?? [])];
      all.set(id, new Set(earlier.flatMap((one) => [one, ...(all.get(one) ?? [])])));
    }
    return all;
  }
});
