import type { Fence } from "../../core/agent/fence.ts";
import { keepEnd } from "../keep-end.ts";
import { outputFiles } from "./output-files.ts";
import { expandTemplate } from "./prompt-template.ts";
import type { Issue } from "./state.ts";

/** Longer texts are cut: their end is where agents and tools say what matters. */
const SECTION_CHARACTERS = 16_000;

export interface ImplPromptParams {
  readonly template: string;
  readonly issue: Issue;
  readonly tags: readonly string[];
  readonly baseBranch: string;
  readonly iteration: number;
  readonly maxIterations: number;
  readonly marker: string;
  /** Why the run came into this iteration; null in the first. */
  readonly reason: string | null;
  readonly feedback: string | null;
  readonly previousOutput: string | null;
  readonly previousCommitReport: string | null;
  /** Of the call that gets the prompt. */
  readonly fence: Fence;
}

/** The prompt of one iteration. */
export function implPrompt(params: ImplPromptParams): string {
  const { fence, feedback, previousCommitReport, previousOutput } = params;
  const section = (title: string, source: string, content: string | null): string => {
    if (content === null || content.trim() === "") return "";
    return `\n\n---\n${title}\n${fence.data(source, keepEnd(content.trim(), SECTION_CHARACTERS))}\n`;
  };
  const text = expandTemplate(params.template, {
    ...fixedValues(params),
    iteration_section: iterationSection(params),
    ci_failure_section: section("What must be fixed:", "checks and reviews", feedback),
    previous_commit_report_section: section(
      "Previous iteration summary (commit report):",
      "the agent's commit report",
      previousCommitReport,
    ),
    previous_output_section: section("Output from last iteration:", "the agent's output", previousOutput),
  });
  return fence.prompt(text);
}

/** What stays the same in every iteration. */
export function baseImplPrompt(
  params: Pick<ImplPromptParams, "template" | "issue" | "tags" | "baseBranch" | "fence">,
): string {
  const text = expandTemplate(params.template, {
    ...fixedValues(params),
    iteration_section: "",
    ci_failure_section: "",
    previous_commit_report_section: "",
    previous_output_section: "",
  });
  return params.fence.prompt(text);
}

function fixedValues(
  params: Pick<ImplPromptParams, "issue" | "tags" | "baseBranch" | "fence">,
): Readonly<Record<string, string>> {
  return {
    issue_no: String(params.issue.number),
    issue_title: params.fence.data("issue title", params.issue.title),
    issue_file: outputFiles.issue(params.issue.number),
    finalize_file: outputFiles.finalize,
    tags: params.tags.join(", "),
    base_branch: params.baseBranch,
  };
}

/** Part of every template, also a user's own: without it an agent could not know the marker. */
function iterationSection(params: ImplPromptParams): string {
  const { iteration, marker, reason } = params;
  return [
    `Current iteration: ${iteration} of at most ${params.maxIterations}.`,
    ...(reason === null ? [] : [`Why there is another one: ${params.fence.data("checks and reviews", reason)}`]),
    `Write ${outputFiles.commitReport(iteration)}: what you did in this iteration, as a commit message.`,
    `The completion marker of this iteration, for ${outputFiles.finalize}, is the line:`,
    marker,
  ].join("\n");
}
