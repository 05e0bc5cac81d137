import type { Fence } from "../../core/agent/fence.ts";
import { issueText } from "../issue-text.ts";
import type { ImplOptions } from "./options.ts";
import { expandTemplate } from "./prompt-template.ts";
import { thresholdsText } from "./review-verdict.ts";
import type { Issue } from "./state.ts";

/** What is reviewed is the change itself and the issue, never what the agent says about its work. */
export function reviewPrompt(params: {
  readonly template: string;
  readonly issue: Issue;
  readonly thresholds: ImplOptions["thresholds"];
  readonly diff: { readonly text: string; readonly cut: boolean };
  readonly base: string;
  /** A reply that could not be read, when this is the second try. */
  readonly unreadable: { readonly reply: string; readonly why: string } | null;
  readonly fence: Fence;
}): string {
  const { issue, diff, unreadable, fence } = params;
  const text = expandTemplate(params.template, {
    issue_no: String(issue.number),
    issue_title: fence.data("issue title", issue.title),
    issue_text: fence.data("issue", issueText(issue).trimEnd()),
    thresholds: thresholdsText(params.thresholds),
    diff: fence.data("diff", diff.text),
    diff_note: diff.cut ? ` (its beginning; \`git diff ${params.base}\` shows all of it)` : "",
    retry_section:
      unreadable === null
        ? ""
        : `\nYour last reply could not be read: ${fence.data("error", unreadable.why)}. Reply with the JSON object alone this time. It was:\n${fence.data("your last reply", unreadable.reply.slice(0, REPLY_CHARACTERS).toWellFormed())}\n`,
  });
  return fence.prompt(text);
}

const REPLY_CHARACTERS = 4_000;
