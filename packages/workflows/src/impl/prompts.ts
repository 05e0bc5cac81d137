// The prompts of impl and their placeholders. The built-in templates are the files in prompts/.

import type { Prompts } from "../prompts.ts";

export type PromptRole = "impl" | "review" | "simplify" | "rebase" | "continue";

export const IMPL_PROMPTS: Prompts<PromptRole> = {
  workflow: "impl",
  table: {
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
      optional: ["issue_title", "tags", "base_branch", "plan_section", "title_form", "facts_section"],
    },
    continue: {
      required: ["marker", "finalize_file"],
      optional: ["issue_no", "issue_file", "commit_report_file"],
    },
    review: {
      required: ["issue_no", "issue_text", "diff"],
      optional: ["issue_title", "thresholds", "diff_note", "retry_section", "checks", "summary"],
    },
    simplify: { required: ["files"], optional: ["issue_no", "issue_title", "issue_file"] },
    rebase: { required: ["files", "onto"], optional: ["issue_no", "issue_title", "issue_file", "base_branch"] },
  },
};
