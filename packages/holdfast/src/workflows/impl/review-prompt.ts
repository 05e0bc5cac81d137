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
}): string {
  const { issue, diff, unreadable } = params;
  return expandTemplate(params.template, {
    issue_no: String(issue.number),
    issue_title: issue.title,
    issue_text: issueText(issue),
    thresholds: thresholdsText(params.thresholds),
    diff: diff.text,
    diff_note: diff.cut ? ` (its beginning; \`git diff ${params.base}\` shows all of it)` : "",
    retry_section:
      unreadable === null
        ? ""
        : `\nYour last reply could not be read: ${unreadable.why}. Reply with the JSON object alone this time. It was:\n${unreadable.reply.slice(0, REPLY_CHARACTERS).toWellFormed()}\n`,
  });
}

const REPLY_CHARACTERS = 4_000;
