// The prompt templates of impl: loading, checking and expanding them, and the default templates.

import { HoldfastError } from "@holdfast/platform/error";
import type { Outputs } from "@holdfast/platform/outputs";
import type { ImplOptions, PromptRole } from "./options.ts";

/**
 * Reads and checks the templates once, at setup. An agent that changes a template file later changes no prompt of this
 * run.
 */
export async function loadTemplates(
  prompts: ImplOptions["prompts"],
  outputs: Outputs,
): Promise<Readonly<Record<PromptRole, string>>> {
  const load = async (role: PromptRole): Promise<string> => {
    const source = prompts[role];
    if (source === null) return DEFAULT_TEMPLATES[role];
    const template = "text" in source ? source.text : await readTemplate(outputs, source.path);
    const what = "text" in source ? `The ${role} prompt template` : `The ${role} prompt template ${source.path}`;
    checkTemplate({ what, template, ...PLACEHOLDERS[role] });
    return template;
  };
  return {
    impl: await load("impl"),
    review: await load("review"),
    simplify: await load("simplify"),
    rebase: await load("rebase"),
  };
}

async function readTemplate(outputs: Outputs, path: string): Promise<string> {
  const text = await outputs.read(path);
  if (text !== null) return text;
  throw new HoldfastError({
    code: "CONFIG_INVALID",
    message: `The prompt template ${path} cannot be read in the worktree`,
    hint: "Name a text file of the repository, by its path from the root, that is committed on the base branch.",
    data: { path },
  });
}

/** Placeholders are written `{{name}}` or `{#name#}`. */
const TOKEN = /\{\{\s*([a-z_]+)\s*\}\}|\{#\s*([a-z_]+)\s*#\}/g;

/** Expands in one pass. Inserted text is never expanded again, so a placeholder in an agent's output remains text. */
export function expandTemplate(template: string, values: Readonly<Record<string, string>>): string {
  return template.replaceAll(TOKEN, (whole, braces: string | undefined, hashes: string | undefined) => {
    const name = braces ?? hashes ?? "";
    return Object.hasOwn(values, name) ? (values[name] ?? whole) : whole;
  });
}

/** Throws CONFIG_INVALID and names every missing placeholder and every unknown one. */
export function checkTemplate(params: {
  readonly what: string;
  readonly template: string;
  readonly required: readonly string[];
  readonly optional: readonly string[];
}): void {
  const used = new Set([...params.template.matchAll(TOKEN)].map((match) => match[1] ?? match[2] ?? ""));
  const missing = params.required.filter((name) => !used.has(name));
  const known = new Set([...params.required, ...params.optional]);
  const unknown = [...used].filter((name) => !known.has(name));
  if (missing.length === 0 && unknown.length === 0) return;
  const parts = [
    ...(missing.length === 0 ? [] : [`lacks the placeholders ${missing.join(", ")}`]),
    ...(unknown.length === 0 ? [] : [`has placeholders that nothing fills: ${unknown.join(", ")}`]),
  ];
  throw new HoldfastError({
    code: "CONFIG_INVALID",
    message: `${params.what} ${parts.join(" and ")}`,
    hint: `Write each as {{name}} or {#name#}; known are ${[...known].join(", ")}.`,
    data: { missing, unknown },
  });
}

/** Placeholders of each prompt. A user's template must contain the required ones and may omit the optional ones. */
export const PLACEHOLDERS: Readonly<
  Record<PromptRole, { readonly required: readonly string[]; readonly optional: readonly string[] }>
> = {
  impl: {
    required: [
      "issue_no",
      "issue_file",
      "finalize_file",
      "iteration_section",
      "previous_output_section",
      "previous_commit_report_section",
      "ci_failure_section",
    ],
    optional: ["issue_title", "tags", "base_branch", "plan_section"],
  },
  review: {
    required: ["issue_no", "issue_text", "diff"],
    optional: ["issue_title", "thresholds", "diff_note", "retry_section"],
  },
  simplify: { required: ["files"], optional: ["issue_no", "issue_title", "issue_file"] },
  rebase: { required: ["files", "onto"], optional: ["issue_no", "issue_title", "issue_file", "base_branch"] },
};

export const DEFAULT_TEMPLATES: Readonly<Record<PromptRole, string>> = {
  impl: `You implement issue #{{issue_no}} of this repository: {{issue_title}}

Read the issue in {{issue_file}} first, then the code that it concerns. Work in this directory only, on the branch that is
checked out. Do not push, do not open a pull request and do not rewrite commits: that is done for you.

What is expected
- The whole issue, with tests and documents where the repository has them. Nothing beyond it.
- The style of the code around it.
- Corner cases: empty, missing, very large, failing, repeated.

When all of it is done, write {{finalize_file}}:
- First line: the title of the pull request, \`[tag][#{{issue_no}}] Brief description\`. Tags: {{tags}}.
- Then the body: what changed and why, in plain words.
- Last, on a line of its own, the completion marker given below.
If it is not all done, leave that file out: you will be called again.

{{iteration_section}}{{ci_failure_section}}{{previous_commit_report_section}}{{previous_output_section}}
`,
  review: `You review a change made for issue #{{issue_no}} of this repository. Change nothing yourself.

Score each from 0 to 100:
- faithful: does the diff do all that the issue asks, and nothing else?
- style: does it read like the code around it?
- docs: are documents, comments and help true to it?
- corner_cases: are empty, missing, large, failing and repeated inputs dealt with and tested?
To pass, a change needs {{thresholds}}.

Reply with one JSON object and nothing else:
{"scores": {"faithful": 0, "style": 0, "docs": 0, "corner_cases": 0}, "overall_score": 0, "findings": ["what is wrong, and where"], "suggestions": ["what to do about it"]}
{{retry_section}}
The issue: {{issue_title}}
---
{{issue_text}}
---

The whole change since the base branch{{diff_note}}:
---
{{diff}}
---
`,
  simplify: `Make these files simpler without changing what they do:
{{files}}

They were changed for issue #{{issue_no}} ({{issue_file}}). Remove what is not needed, name things well, join what was said twice.
Touch no other file, and keep every test passing. If nothing can be made simpler, change nothing.
`,
  rebase: `The branch for issue #{{issue_no}} does not go onto {{base_branch}} ({{onto}}) without conflicts. Both sides are in these files, between
conflict marks:
{{files}}

Resolve them so that both the issue ({{issue_file}}) and what happened on {{base_branch}} hold. Leave no mark behind. Do not
commit and do not run git rebase or git merge: that is done for you.
`,
};
