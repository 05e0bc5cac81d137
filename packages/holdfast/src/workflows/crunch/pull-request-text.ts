import type { CrunchIssue, CrunchState } from "../../core/crunch/crunch-state.ts";
import { closingBody } from "../publish/closing-body.ts";
import { inOrder } from "./order-outputs.ts";

const MAX_TITLE = 200;

/** What was done, by whom, and what was decided on the way. */
export function pullRequestText(
  state: CrunchState,
  issue: Pick<CrunchIssue, "number" | "title">,
): { readonly title: string; readonly body: string } {
  const words = issue.title.replaceAll(/\p{Cc}+/gu, " ").trim();
  const outputs = inOrder(state.outputs).map(
    ({ phase, agent, summary }) => `- ${phase}, ${agent}: ${oneLine(summary)}`,
  );
  const decisions = state.conflicts.flatMap(({ topic, resolution }) =>
    resolution === null ? [] : [`- ${oneLine(topic)}: ${oneLine(resolution.choice)} (${resolution.how})`],
  );
  const body = [
    ...section("What the team did", outputs),
    ...section("What was decided where opinions differed", decisions),
  ].join("\n");
  return { title: (words || "Implementation").slice(0, MAX_TITLE), body: closingBody(body, issue.number) };
}

function section(title: string, lines: readonly string[]): readonly string[] {
  return lines.length === 0 ? [] : [`## ${title}`, "", ...lines, ""];
}

const LINE = 300;

function oneLine(text: string): string {
  const line = text.replaceAll(/\s+/g, " ").trim();
  return line.length > LINE ? `${line.slice(0, LINE).toWellFormed()}…` : line;
}
