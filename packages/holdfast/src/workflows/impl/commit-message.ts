import type { Issue } from "./state.ts";

const MESSAGE_CHARACTERS = 20_000;

/** What the agent reported, or plain words for one that reported nothing. */
export function commitMessage(params: {
  readonly report: string | null;
  readonly issue: Issue;
  readonly iteration: number;
}): string {
  // A NUL ends a commit message early for every reader of it.
  const report = (params.report ?? "").replaceAll("\0", "").trim().slice(0, MESSAGE_CHARACTERS).toWellFormed();
  if (report !== "") return `${report}\n`;
  return `Issue #${params.issue.number}, iteration ${params.iteration}: ${params.issue.title.trim()}\n`;
}
