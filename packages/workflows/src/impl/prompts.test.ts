import { describe, expect, test } from "vitest";
import { createFence } from "@holdfast/core/workflow";
import { builtInTemplate, expandTemplate } from "../prompts.ts";
import { type ImplPromptParams, baseImplPrompt, implPrompt, simplifyPrompt } from "./implement.ts";
import { defaultImplOptions } from "./options.ts";
import { rebasePrompt } from "./rebase.ts";
import { reviewPrompt } from "./review.ts";

const params: ImplPromptParams = {
  template: builtInTemplate("impl", "impl"),
  issue: { number: 42, title: "Add x", body: "b", labels: [], state: "open", updatedAt: "" },
  tags: ["feat"],
  baseBranch: "main",
  iteration: 3,
  maxIterations: 10,
  marker: "MARK",
  reason: "The review failed",
  feedback: "Mend y",
  previousOutput: "out",
  plan: null,
  previousCommitReport: "report",
  fence: createFence("nonce"),
};

describe("as an agent gets them", () => {
  const { issue, fence } = params;

  test("the task, in the third iteration", () => {
    expect(implPrompt(params)).toMatchSnapshot();
  });

  test("the review, after a reply that could not be read", () => {
    const prompt = reviewPrompt({
      template: builtInTemplate("impl", "review"),
      issue,
      thresholds: defaultImplOptions.thresholds,
      diff: { text: "+x\n", cut: true },
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
  test("tells marker, feedback, reason and what was before, and leaves no token", () => {
    const prompt = implPrompt(params);
    for (const part of [
      "\nMARK",
      "Mend y",
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

  test("says nothing of what was not", () => {
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
