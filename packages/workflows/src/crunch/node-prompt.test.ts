import { createFence } from "@holdfast/core/workflow";
import { describe, expect, test } from "vitest";
import { DEFAULT_AGENTS, defaultCrunchSettings } from "./default-settings.ts";
import { builtInTemplate } from "../prompts.ts";
import { conflictPrompt, debatePrompt, nodePrompt } from "./node-prompt.ts";
import { GRAPH_PHASES } from "./settings.ts";

const fence = createFence("a1b2c3");

/** The prompt without the fenced data of others, and without the titles of their sections. */
function ownText(prompt: string): string {
  return prompt.replaceAll(/<data-\w+[^>]*>[\s\S]*?<\/data-\w+>/g, "");
}

const NODES = GRAPH_PHASES.flatMap((phase) =>
  defaultCrunchSettings.graphs[phase].nodes.map((node) => ({ phase, ...node })),
);

function promptOf(node: (typeof NODES)[number], attempt = 1): string {
  const agent = node.who.kind === "agent" ? node.who.agent : node.who.role === "implementer" ? "developer" : "reviewer";
  return nodePrompt({
    template: builtInTemplate("crunch", "node"),
    node,
    attempt,
    language: "TypeScript",
    about: DEFAULT_AGENTS[agent]?.about ?? "",
    task: node.task,
    isAdded: false,
    phase: node.phase,
    edits: node.edits,
    issue: { number: 42, title: "Greet people by name", body: "`hello` should take a name.", labels: [] },
    outputs: [],
    findings: [],
    broadcasts: [],
    answers: [],
    conflicts: [],
    knowledge: [],
    feedback: null,
    fence,
  });
}

describe("the prompt of a node", () => {
  test.each(NODES.map((node) => [`${node.phase}/${node.id}`, node] as const))(
    "%s: one role, one task, the form by reference",
    (_, node) => {
      const prompt = promptOf(node);
      const own = ownText(prompt);
      expect(own.split("\n").length).toBeLessThanOrEqual(25);
      expect(own.length).toBeLessThanOrEqual(1800);
      expect(own.match(/\bYou (?:are|coordinate|review|keep|respond|read|look|judge)\b/g)).toHaveLength(1);
      expect(own.match(/^Task \(/gm)).toHaveLength(1);
      expect(own).toContain("Issue #42, phase");
      expect(own).not.toContain("```");
      expect(own.trimEnd().split("\n").at(-1)).toMatch(/^End with one JSON object .*\.tmp\/crunch-reply\.md/);
    },
  );

  test("of a specification, as it is written", () => {
    const spec = NODES.find(({ id }) => id === "spec");
    if (spec === undefined) return expect.unreachable();
    expect(promptOf(spec)).toMatchInlineSnapshot(`
      "You are a system architect: you write specifications and judge designs.

      Task (create_spec): Write the specification: what is to be done, where, how it is accepted, and which files it will touch.

      Deliver: spec. Write it out in your answer, before the JSON that ends it: those who work after you read it there.

      Change no file: you only look and answer.

      Issue #42, phase enrich. The repository is mostly TypeScript.

      ---
      The issue

      <data-a1b2c3 source="issue">
      # Greet people by name

      \`hello\` should take a name.
      </data-a1b2c3>

      End with one JSON object in a fenced block: {"status": "SUCCESS", "summary": "what you did and what came out"}. status is SUCCESS, PARTIAL, BLOCKED, FAILED. Further members are described in .tmp/crunch-reply.md; add them only if you have something for them: outputs, files_modified, files_created, findings, recommendations, handoff, follow_ups, escalate, broadcasts, knowledge.
      "
    `);
    expect(promptOf(spec, 2)).toContain(
      "An earlier attempt at this task failed. An answer without spec counts as failed.",
    );
  });
});

describe("as an agent gets them", () => {
  const finding = {
    id: "F-001",
    severity: "HIGH",
    category: "quality",
    title: "No test",
    description: "Nothing covers the empty name.",
    location: "src/hello.ts:3",
    recommendation: "Add one.",
    confidence: 90,
  } as const;

  test("a node that reviews, with results of the team", () => {
    const prompt = nodePrompt({
      template: builtInTemplate("crunch", "node"),
      node: { action: "review_code", outputs: ["review"] },
      attempt: 2,
      language: "TypeScript",
      about: "You review code.",
      task: "Review the change.",
      isAdded: false,
      phase: "e2e",
      edits: false,
      issue: {
        number: 42,
        title: "Greet people by name",
        body: "`hello` should take a name.",
        labels: ["bug"],
        comments: [{ author: "ann", body: "Be polite.\nAlways.", at: "2026-01-01T00:00:00Z" }],
      },
      outputs: [
        {
          agent: "developer",
          action: "implement",
          node: "implement",
          phase: "implementing",
          completedAt: "2026-01-01T00:00:00.000Z",
          summary: "hello takes a name",
          location: null,
          delivered: "The change, in words.",
        },
      ],
      findings: [{ agent: "security", finding }],
      broadcasts: ["The API changed"],
      answers: [{ question: "Which default?", answer: "world" }],
      conflicts: [],
      knowledge: [],
      feedback: "npm test fails",
      fence,
    });
    expect(prompt).toMatchSnapshot();
  });

  test("a change that could not be merged", () => {
    const template = builtInTemplate("crunch", "conflict");
    const prompt = conflictPrompt({ template, task: "Add x", files: ["a.ts", "b.ts"], diff: "+x\n", fence });
    expect(prompt).toMatchSnapshot();
  });

  test("a round of a debate", () => {
    const position = {
      agent: "developer",
      choice: "a cookie",
      rationale: "It is simple.",
      evidence: [],
      confidence: 80,
      relevance: 0.5,
      compromise: { acceptable: false, conditions: [], hybrid: null },
      veto: null,
      escalate: null,
    };
    const template = builtInTemplate("crunch", "debate");
    const prompt = debatePrompt({
      template,
      about: "You review code.",
      topic: "Sessions",
      round: 2,
      positions: [position],
      fence,
    });
    expect(prompt).toMatchSnapshot();
  });
});
