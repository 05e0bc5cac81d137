import type { PromptRole } from "./options.ts";

/** Placeholders of each prompt. A user's template must hold the required ones; the optional ones may stay out. */
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
    optional: ["issue_title", "tags", "base_branch"],
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

Mend them so that both the issue ({{issue_file}}) and what happened on {{base_branch}} hold. Leave no mark behind. Do not
commit and do not run git rebase or git merge: that is done for you.
`,
};
