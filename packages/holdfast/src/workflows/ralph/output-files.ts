import { OUTPUT_DIRECTORY } from "../worktree.ts";

/** For people and agents to read; the run's state never depends on them. */
export const outputFiles = {
  issue: (issue: number) => `${OUTPUT_DIRECTORY}/issue-${issue}.md`,
  prompt: (iteration: number) => `${OUTPUT_DIRECTORY}/ralph-prompt-${iteration}.md`,
  /** `check` from 1. */
  check: (iteration: number, check: number) => `${OUTPUT_DIRECTORY}/ralph-check-${iteration}-${check}.txt`,
  report: `${OUTPUT_DIRECTORY}/ralph-report.md`,
} as const;
