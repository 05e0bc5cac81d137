import type { IssueSnapshot } from "../core/checkpoint/checkpoint.ts";

/** The issue in words, for an agent. */
export function issueText(issue: Pick<IssueSnapshot, "title" | "body" | "labels">): string {
  const labels = issue.labels.length === 0 ? [] : ["", `Labels: ${issue.labels.join(", ")}`];
  return [`# ${issue.title}`, ...labels, "", issue.body.trim(), ""].join("\n");
}
