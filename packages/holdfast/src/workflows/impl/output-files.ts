import { OUTPUT_DIRECTORY } from "../worktree.ts";

export const outputFiles = {
  issue: (issue: number) => `${OUTPUT_DIRECTORY}/issue-${issue}.md`,
  baseInput: `${OUTPUT_DIRECTORY}/impl-input-base.txt`,
  input: (iteration: number) => `${OUTPUT_DIRECTORY}/impl-input-${iteration}.txt`,
  output: `${OUTPUT_DIRECTORY}/impl-output.txt`,
  finalize: `${OUTPUT_DIRECTORY}/finalize.txt`,
  commitReport: (iteration: number) => `${OUTPUT_DIRECTORY}/commit-report-iter-${iteration}.txt`,
  parse: (iteration: number) => `${OUTPUT_DIRECTORY}/parse-iter-${iteration}.json`,
  review: (iteration: number) => `${OUTPUT_DIRECTORY}/review-iter-${iteration}.json`,
  reviewOutput: (iteration: number) => `${OUTPUT_DIRECTORY}/review-output-${iteration}.txt`,
  pullRequest: (iteration: number) => `${OUTPUT_DIRECTORY}/pr-iter-${iteration}.json`,
  rebase: (iteration: number) => `${OUTPUT_DIRECTORY}/rebase-iter-${iteration}.json`,
  fatal: (at: number) => `${OUTPUT_DIRECTORY}/fatal-${stamp(at)}.json`,
  stuckReport: `${OUTPUT_DIRECTORY}/stuck-report.md`,
  checkpoint: `${OUTPUT_DIRECTORY}/impl-checkpoint.json`,
} as const;

/** 20250115-103000, UTC. */
function stamp(at: number): string {
  return new Date(at).toISOString().slice(0, 19).replaceAll(/[-:]/g, "").replace("T", "-");
}
