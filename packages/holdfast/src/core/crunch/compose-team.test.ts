import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { composeTeam, readSigns } from "./compose-team.ts";
import { SAMPLE_AT, sampleTeam } from "./crunch-sample.ts";
import { DEFAULT_AGENTS } from "./default-agents.ts";
import { defaultCrunchSettings } from "./default-settings.ts";
import { memberCounts, membersIn, phaseAssignments } from "./team.ts";
import type { TaskStatus, Team } from "./team.ts";

function agentsOf(team: Team): readonly string[] {
  return team.members.map((member) => member.agent);
}

test("there are sixteen to choose from", () => {
  expect(Object.keys(DEFAULT_AGENTS)).toHaveLength(16);
});

describe("who is called", () => {
  test("nothing in particular: those who always come, and somebody who implements", () => {
    expect(agentsOf(sampleTeam({ title: "Do it" })).toSorted()).toEqual(
      ["dev-python", "knowledge-manager", "qa-engineer", "reviewer", "system-architect", "techwriter"].toSorted(),
    );
  });

  test("a label calls, a word calls, and part of a word does not", () => {
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
    const again = composeTeam({ issue, settings: defaultCrunchSettings, priorFailures: 1, at: SAMPLE_AT });
    expect(agentsOf(again)).toContain("orchestrator");
  });

  test("without the one who steps in, the first who implements does", () => {
    const { "dev-python": _, ...agents } = DEFAULT_AGENTS;
    const team = composeTeam({
      issue: { number: 1, title: "", body: "", labels: [] },
      settings: { ...defaultCrunchSettings, agents },
      priorFailures: 0,
      at: SAMPLE_AT,
    });
    expect(membersIn(team, { role: "implementer", phase: "implementing" })).toEqual(["dev-cpp"]);
  });
});

test("signs come from labels and words; each file counts once", () => {
  const body = Array.from({ length: 10 }, (_, index) => `src/part-${index}/a.py and src/part-${index}/a.py`).join("\n");
  expect(readSigns({ number: 1, title: "A breaking change", body, labels: ["domain:api"] }, 2)).toEqual({
    domains: ["api", "python"],
    files: 10,
    breaking: true,
    priorFailures: 2,
  });
  expect(readSigns({ number: 1, title: "", body: "", labels: ["Breaking-Change"] }, 0).breaking).toBe(true);
});

test("the same issue has the same team, id and all; every member works in some phase", () => {
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
        const assigned = Object.values(phaseAssignments(team)).flat();
        expect([...new Set(assigned)].toSorted()).toEqual(agentsOf(team).toSorted());
      },
    ),
  );
});

test("more labels take nobody out of the team", () => {
  const some = fc.array(fc.constantFrom("domain:go", "domain:security", "domain:infra", "complex"));
  fc.assert(
    fc.property(some, some, (one, other) => {
      const larger = new Set(agentsOf(sampleTeam({ labels: [...one, ...other, "domain:python"] })));
      for (const agent of agentsOf(sampleTeam({ labels: [...one, "domain:python"] }))) expect(larger).toContain(agent);
    }),
  );
});

test("counts are of tasks as they are, however often each was moved", () => {
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
  expect(memberCounts(team, "nobody")).toEqual({ status: "idle", completed: 0, pending: 0, failed: 0 });
});
