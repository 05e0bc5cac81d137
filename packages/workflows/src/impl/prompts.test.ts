import { describe, expect, test } from "vitest";
import { createFence } from "@holdfast/core/workflow";
import type { ImplHistoryEntry } from "@holdfast/formats/impl-document";
import { builtInTemplate, expandTemplate } from "../prompts.ts";
import type { RepositoryFacts } from "../repository-facts.ts";
import { type ImplPromptParams, baseImplPrompt, implPrompt, simplifyPrompt } from "./implement.ts";
import { defaultImplOptions } from "./options.ts";
import { rebasePrompt } from "./rebase.ts";
import { reviewPrompt } from "./review.ts";
import { type Issue, initialImplState } from "./state.ts";
import { acceptanceCriteria, filesToRead, reviewFacts } from "./task-facts.ts";

const issue: Issue = { number: 42, title: "Add x", body: "b", labels: [], state: "open", updatedAt: "" };
const params: ImplPromptParams = {
  template: builtInTemplate("impl", "impl"),
  issue,
  facts: { agent: null, gate: null, state: initialImplState },
  tags: ["feat"],
  baseBranch: "main",
  iteration: 3,
  maxIterations: 10,
  marker: "MARK",
  reason: "The review failed",
  feedback: "Fix y",
  previousOutput: "out",
  plan: null,
  previousCommitReport: "report",
  fence: createFence("nonce"),
};

describe("as an agent gets them", () => {
  const { fence } = params;
  const gate = { command: "npm run check", passed: true, output: "12 tests passed", iteration: 2 };

  test("the task, in the third iteration", () => {
    expect(implPrompt(params)).toMatchSnapshot();
  });

  test("the task, with all that is known", () => {
    const repository: RepositoryFacts = {
      titles: { form: "conventional", tags: ["feat"], examples: ["feat: add w", "fix(cli): repair v"] },
      template: { path: ".github/pull_request_template.md", text: "## What\n\n## Tests\n" },
      instructions: ["AGENTS.md", "CLAUDE.md", "CONTRIBUTING.md"],
      testCommand: "npm test",
    };
    const failed = (iteration: number, stage: string, reason: string): ImplHistoryEntry => ({
      iteration,
      stage,
      reason,
      timestamp: "2026-01-01T00:00:00Z",
      result: "retry",
      event: "x",
      score: null,
    });
    const history = [failed(1, "impl", "The gate command failed"), failed(2, "review", "The review failed with 60")];
    const body = "Add x.\n\n## Acceptance criteria\n\n- x is added\n- [ ] twice\n\n## Notes\nNone.";
    const state = { ...initialImplState, issue: { ...issue, body }, repository, gate, history };
    const facts = { agent: "claude:opus", gate: "npm run check", state };
    expect(implPrompt({ ...params, facts })).toMatchSnapshot();
  });

  test("the review, after a reply that could not be read", () => {
    const prompt = reviewPrompt({
      template: builtInTemplate("impl", "review"),
      issue,
      thresholds: defaultImplOptions.thresholds,
      diff: { text: "+x\n", cut: true },
      changed: ["x.ts"],
      state: { gate, finalize: { title: "Add x", body: "Adds x. Tests cover both cases." } },
      base: "0123abc",
      unreadable: { reply: "Fine.", why: "there is no JSON" },
      fence,
    });
    expect(prompt).toMatchSnapshot();
  });

  test("the continuation of an interrupted session", () => {
    const values = {
      issue_no: "42",
      finalize_file: ".tmp/finalize.txt",
      commit_report_file: ".tmp/commit-report-iter-3.txt",
      marker: params.marker,
    };
    expect(expandTemplate(builtInTemplate("impl", "continue"), values)).toMatchSnapshot();
  });

  test("the simplification", () => {
    const template = builtInTemplate("impl", "simplify");
    expect(simplifyPrompt({ template, issue, files: ["a.ts", "b.ts"], fence })).toMatchSnapshot();
  });

  test("the conflict of a rebase", () => {
    const template = builtInTemplate("impl", "rebase");
    const prompt = rebasePrompt({ template, issue, baseBranch: "main", files: ["a.ts"], onto: "0123abc", fence });
    expect(prompt).toMatchSnapshot();
  });
});

describe("prompts re-expanded", () => {
  test("a token inside an inserted text stays as it is", () => {
    const output = "see {{ci_failure_section}} and {#issue_no#}";
    expect(implPrompt({ ...params, previousOutput: output })).toContain(output);
  });
});

describe("the prompt of an iteration", () => {
  test("has marker, feedback, reason and earlier iterations, and no placeholder left", () => {
    const prompt = implPrompt(params);
    for (const part of [
      "\nMARK",
      "Fix y",
      "The review failed",
      "out",
      "report",
      ".tmp/issue-42.md",
      ".tmp/finalize.txt",
    ])
      expect(prompt).toContain(part);
    expect(prompt).toContain(".tmp/commit-report-iter-3.txt");
    expect(prompt).not.toMatch(/\{\{|\{#/);
  });

  test("omits absent facts", () => {
    const prompt = implPrompt({
      ...params,
      reason: null,
      feedback: null,
      previousOutput: "",
      previousCommitReport: null,
    });
    expect(prompt).not.toContain("---");
    expect(baseImplPrompt(params)).not.toContain("MARK");
  });

  test("a very long output is cut to its end", () => {
    const prompt = implPrompt({ ...params, previousOutput: `${"a".repeat(100_000)}END` });
    expect(prompt.length).toBeLessThan(30_000);
    expect(prompt).toContain("aEND");
  });
});

describe("the facts of a task", () => {
  const all = ["AGENTS.md", "CLAUDE.md", "CONTRIBUTING.md"];
  test.each([
    ["claude:opus", ["AGENTS.md", "CONTRIBUTING.md"]],
    ["codex", ["CLAUDE.md", "CONTRIBUTING.md"]],
    ["copilot", ["CONTRIBUTING.md"]],
    ["opencode", ["CLAUDE.md", "CONTRIBUTING.md"]],
    ["pi", ["CLAUDE.md", "CONTRIBUTING.md"]],
    ["gemini", all],
    ["qwen", all],
    ["command:x", all],
    ["constructor", all],
    [null, all],
  ])("the prompt names %j to %j", (agent, files) => {
    expect(filesToRead(all, agent)).toEqual(files);
  });
  test("without AGENTS.md, agents with that fallback load CLAUDE.md", () => {
    expect(filesToRead(["CLAUDE.md"], "pi")).toEqual([]);
  });

  test.each([
    ["# A\n## Acceptance Criteria\r\n- one\r\n- two\n## B\n- [ ] three", "- one\n- two"],
    ["## Acceptance\n\n## B\n- [ ] three\n  * [x] four", "- [ ] three\n  * [x] four"],
    ["### Definition of Done\nAll of it.", "All of it."],
    ["Acceptance is near.\n- item", null],
    ["", null],
  ])("the acceptance criteria of %j are %j", (body, criteria) => {
    expect(acceptanceCriteria(body)).toBe(criteria);
  });

  const promptWith = (body: string, changed: readonly string[]) =>
    reviewFacts({ finalize: { title: "T", body } }, changed, createFence("nonce")).checks;
  test.each([
    [
      "Tests cover both.",
      ["src/greet.ts", "latest.md", "contest.ts"],
      "speaks of tests, but the diff changes no test file",
    ],
    ["The latest protest.", ["a.ts"], "The diff changes no test file"],
    ["Tests cover both.", ["src/greet.test.ts"], "these test files:"],
    ["", ["tests/a.py"], "these test files:"],
    ["", ["pkg/a_test.go"], "these test files:"],
    ["", ["spec/a.rb"], "these test files:"],
  ])("a summary %j and a diff of %j: %s", (body, changed, expected) => {
    expect(promptWith(body, changed)).toContain(expected);
  });
});
