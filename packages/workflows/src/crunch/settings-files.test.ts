import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { defaultCrunchSettings } from "./default-settings.ts";
import { type CrunchProblem, crunchTemplate, parseCrunch } from "./settings-files.ts";
import { CRUNCH_FILES } from "./settings.ts";
import type { CrunchSettings } from "./settings.ts";

function settingsOf(...files: readonly (readonly [string, string])[]): CrunchSettings {
  const parsed = parseCrunch(files.map(([path, text]) => ({ path, text })));
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.problems, null, 2));
  return parsed.settings;
}

function problemsOf(path: string, text: string): readonly CrunchProblem[] {
  const parsed = parseCrunch([{ path, text }]);
  return parsed.ok ? [] : parsed.problems;
}

test("without files, or with empty ones, the defaults apply", () => {
  expect(settingsOf()).toEqual(defaultCrunchSettings);
  const empty = [...CRUNCH_FILES.keys()].filter((path) => !path.startsWith("graphs/"));
  expect(settingsOf(...empty.map((path) => [path, "# nothing\n"] as const))).toEqual(defaultCrunchSettings);
});

test("the template files contain exactly the defaults", () => {
  const files = crunchTemplate(defaultCrunchSettings);
  expect(parseCrunch(files)).toEqual({ ok: true, settings: defaultCrunchSettings });
  const written = [...CRUNCH_FILES.keys()].filter((path) => path !== "graphs/validation.yaml");
  expect(files.map((file) => file.path)).toEqual(written);
  for (const file of files) expect(file.text).toMatch(/^# /);
});

test("other settings are the same after writing and reading their files", () => {
  const changed = settingsOf(
    [
      "agents.yaml",
      `
remove: [dev-cpp]
agents:
  reviewer: { agent: "codex:gpt-5", timeout: 90s }
  dev-rust:
    role: implementer
    phases: [implementing, validation]
    domains: [rust]
    keywords: [cargo, .rs]
    about: You write Rust.
`,
    ],
    ["team.yaml", "fallbackImplementer: dev-rust\nleastPoints: 30\n"],
    ["weights.yaml", "agents:\n  dev-rust: { base: 0.95 }\n  dev-*: { boost: 0.1 }\nmaxRounds: 2\nmargin: 0.2\n"],
    ["veto.yaml", "devops-engineer: none\nreviewer: HIGH\n"],
    [
      "graphs/docs.yaml",
      `
nodes:
  - { id: write, role: implementer, action: document, task: Write it., edits: true, timeout: 1h }
  - { id: check, agent: reviewer, action: review_code, task: Read it., after: [write], when: { complexity: HIGH } }
edges:
  - { type: approval, from: write, to: check, by: user }
`,
    ],
  );
  expect(changed.agents["reviewer"]).toEqual({
    ...defaultCrunchSettings.agents["reviewer"],
    agent: "codex:gpt-5",
    timeoutMs: 90_000,
  });
  expect(changed.agents["dev-rust"]).toMatchObject({ phases: ["implementing", "e2e"], always: false, agent: null });
  expect(Object.keys(changed.agents)).not.toContain("dev-cpp");
  expect(changed.weights).toMatchObject({
    maxRounds: 2,
    margin: 0.2,
    agents: { "dev-rust": { base: 0.95, boost: 0 }, "dev-*": { base: 0.8, boost: 0.1 } },
  });
  expect(changed.veto).toEqual({ "security-analyst": "CRITICAL", reviewer: "HIGH" });
  expect(changed.graphs.docs.nodes).toMatchObject([
    { id: "write", who: { kind: "role", role: "implementer" }, timeoutMs: 3_600_000, idempotent: true },
    { id: "check", who: { kind: "agent", agent: "reviewer" }, when: { complexity: "HIGH", domains: [] } },
  ]);
  expect(changed.graphs.enrich).toEqual(defaultCrunchSettings.graphs.enrich);
  expect(parseCrunch(crunchTemplate(changed))).toEqual({ ok: true, settings: changed });
});

test("graphs/validation.yaml is the graph of e2e, and two files for it are one too many", () => {
  const text = "nodes:\n  - { id: a, agent: reviewer, action: validate, task: Try it. }\n";
  expect(settingsOf(["graphs/validation.yaml", text]).graphs.e2e.nodes).toMatchObject([{ id: "a" }]);
  const both = parseCrunch([
    { path: "graphs/validation.yaml", text },
    { path: "graphs/e2e.yaml", text },
  ]);
  expect(both).toMatchObject({
    ok: false,
    problems: [{ path: "graphs/validation.yaml", message: "graphs/e2e.yaml is for the same phase" }],
  });
});

const GRAPH = "graphs/docs.yaml";

describe("errors are reported with their line", () => {
  test.each<readonly [string, string, number, string | RegExp, string | null]>([
    [
      "agents.yaml",
      "agents:\n  reviewer:\n    rolle: quality\n",
      3,
      'unknown key "rolle" in agents.reviewer',
      "Did you mean role?",
    ],
    ["agents.yaml", "agents:\n  reviewer:\n    role: boss\n", 3, /expected one of coordinator, supervisor/, null],
    ["agents.yaml", "agents:\n  reviewer:\n    phases: [review]\n", 3, /a list of phases/, null],
    ["agents.yaml", "agents:\n  reviewer:\n    timeout: 30\n", 3, /a duration such as 5m/, null],
    [
      "agents.yaml",
      "agents:\n\n  rewiever: { always: true }\n",
      3,
      "a new agent needs role, phases, about",
      "Did you mean reviewer?",
    ],
    [
      "agents.yaml",
      "agents:\n  'a b': { role: quality, phases: [docs], about: x }\n",
      2,
      /cannot be an agent's name/,
      null,
    ],
    ["agents.yaml", "remove:\n  - dev-go\n  - dev-goo\n", 3, 'there is no agent "dev-goo"', "Did you mean dev-go?"],
    ["agents.yaml", "agents: [reviewer]\n", 1, "agents: expected keys and values", null],
    ["agents.yaml", "agents: {\n", 2, /./, null],
    ["team.yaml", "\nleastPoints: 0\n", 2, "leastPoints: expected a whole number from 1", null],
    ["team.yaml", "fallbackImplementer: dev-rust\n", 1, 'there is no agent "dev-rust"', null],
    ["weights.yaml", "maxRounds: 4\n", 1, "maxRounds: expected 1, 2 or 3", null],
    ["weights.yaml", "agents:\n  absent: { base: 1 }\n", 2, 'there is no agent "absent"', null],
    ["weights.yaml", "agents:\n  reviewer: { base: -1 }\n", 2, /a number from 0 to 10/, null],
    ["veto.yaml", "reviewer: MEDIUM\n", 1, /one of CRITICAL, HIGH, none/, null],
    [GRAPH, "nodes:\n  - id: a\n    agent: reviewer\n    action: x\n", 2, /nodes.0.task: expected a text/, null],
    [GRAPH, "edges: []\n", 1, "nodes: expected a list", null],
    [GRAPH, "nodes: {}\n", 1, "nodes: expected a list", null],
    [GRAPH, "nodes:\n  - { id: a, action: x, task: t }\n", 2, 'node "a" needs an agent or a role, and not both', null],
    [
      GRAPH,
      "nodes:\n  - { id: a, agent: reviwer, action: x, task: t }\n",
      2,
      'there is no agent "reviwer"',
      "Did you mean reviewer?",
    ],
    [
      GRAPH,
      "nodes:\n  - { id: aa, role: quality, action: x, task: t }\n  - { id: b, role: quality, action: x, task: t, after: [ab] }\n",
      3,
      'there is no node "ab"',
      "Did you mean aa?",
    ],
    [
      GRAPH,
      "nodes:\n  - { id: a, role: quality, action: x, task: t }\n  - { id: a, role: quality, action: x, task: t }\n",
      3,
      'there are two nodes "a"',
      null,
    ],
    [
      GRAPH,
      "nodes:\n  - { id: a, role: quality, action: x, task: t, after: [b] }\n  - { id: b, role: quality, action: x, task: t, after: [a] }\n",
      2,
      "a → b → a waits for itself",
      null,
    ],
    [
      GRAPH,
      "nodes:\n  - { id: a, role: quality, action: x, task: t }\nedges:\n  - { type: data, from: a, to: b, key: k }\n",
      4,
      'there is no node "b"',
      "Did you mean a?",
    ],
    [
      GRAPH,
      "nodes:\n  - { id: ../a, role: quality, action: x, task: t }\n",
      2,
      /a name of letters, digits and hyphens/,
      null,
    ],
    [
      GRAPH,
      "nodes:\n  - { id: a, role: quality, action: x, task: t }\nedges:\n  - { type: approval, from: a, to: a }\n",
      4,
      "an edge of type approval needs by",
      null,
    ],
    ["graphs/ready.yaml", "nodes: []\n", 1, "nothing reads this file", null],
  ])("%s: %j", (path, text, line, message, hint) => {
    const problems = problemsOf(path, text);
    expect(problems).not.toEqual([]);
    const expected = typeof message === "string" ? message : expect.stringMatching(message);
    expect(problems[0]).toMatchObject({ path, line, message: expected, ...(hint === null ? {} : { hint }) });
    expect(problems[0]?.excerpt).toContain("^");
  });

  test("all of them, in every file", () => {
    const parsed = parseCrunch([
      { path: "weights.yaml", text: "margin: 2\nmaxRounds: 0\n" },
      { path: "team.yaml", text: "x: 1\n" },
    ]);
    expect(parsed).toMatchObject({
      ok: false,
      problems: [
        { path: "team.yaml", line: 1 },
        { path: "weights.yaml", line: 1 },
        { path: "weights.yaml", line: 2 },
      ],
    });
  });
});

test("any text is either settings or problems with a line", () => {
  const piece = fc.constantFrom(
    "agents:",
    "  reviewer:",
    "    role: quality",
    "nodes:",
    "  - id: a",
    "{",
    "veto",
    ": 1",
    "&a *a",
    "\t",
  );
  const text = fc.oneof(
    fc.string(),
    fc.array(piece).map((pieces) => pieces.join("\n")),
  );
  fc.assert(
    fc.property(fc.constantFrom(...CRUNCH_FILES.keys()), text, (path, given) => {
      for (const problem of problemsOf(path, given)) {
        expect(problem.line).toBeGreaterThan(0);
        expect(problem.line).toBeLessThanOrEqual(given.split("\n").length);
        expect(problem.message).not.toBe("");
      }
    }),
  );
});
