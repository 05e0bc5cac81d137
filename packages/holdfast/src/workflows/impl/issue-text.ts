import type { Issue } from "./state.ts";

/** The issue as `.tmp/issue-N.md` holds it, for the agent. */
export function issueText(issue: Issue): string {
  const labels = issue.labels.length === 0 ? [] : ["", `Labels: ${issue.labels.join(", ")}`];
  return [`# ${issue.title}`, ...labels, "", issue.body.trim(), ""].join("\n");
}
