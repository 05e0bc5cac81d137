import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createFence } from "@holdfast/core/workflow";
import { type ImplPromptParams, baseImplPrompt, implPrompt } from "./implement.ts";
import { DEFAULT_TEMPLATES, PLACEHOLDERS, checkTemplate, expandTemplate } from "./prompts.ts";

const params: ImplPromptParams = {
  template: DEFAULT_TEMPLATES.impl,
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

describe("prompts re-expanded", () => {
  test("a token inside an inserted text stays as it is", () => {
    const output = "see {{ci_failure_section}} and {#issue_no#}";
    expect(implPrompt({ ...params, previousOutput: output })).toContain(output);
  });

  test("whatever is inserted comes out unchanged, in the order of the template", () => {
    fc.assert(
      fc.property(fc.string(), fc.string(), (a, b) => {
        const values = { a: `{{b}}${a}$&`, b: `{#a#}${b}` };
        expect(expandTemplate("1{{a}}2{#b#}3{{a}}", values)).toBe(`1${values.a}2${values.b}3${values.a}`);
      }),
    );
  });
});

describe("templates", () => {
  test.each(["impl", "review", "simplify", "rebase"] as const)("the default one for %s fits", (role) => {
    checkTemplate({ what: role, template: DEFAULT_TEMPLATES[role], ...PLACEHOLDERS[role] });
  });

  test("both forms of a token count, with or without spaces", () => {
    checkTemplate({ what: "t", template: "{{a}} {# b #} {{ c }}", required: ["a", "b", "c"], optional: [] });
    expect(expandTemplate("{{a}}{# a #}{{ a }}", { a: "x" })).toBe("xxx");
  });

  test("every missing and every unknown placeholder is named", () => {
    const check = () =>
      checkTemplate({ what: "The template", template: "{{issue_no}} {{isue_file}}", ...PLACEHOLDERS.impl });
    expect(check).toThrow(
      expect.objectContaining({
        code: "CONFIG_INVALID",
        data: {
          missing: PLACEHOLDERS.impl.required.filter((name) => name !== "issue_no"),
          unknown: ["isue_file"],
        },
      }),
    );
    expect(PLACEHOLDERS.impl.required).toHaveLength(7);
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
