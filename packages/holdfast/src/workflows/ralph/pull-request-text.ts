import type { IssueSnapshot } from "../../core/checkpoint/checkpoint.ts";
import { closingBody, withoutKeys } from "../publish/closing-body.ts";
import { iterationText } from "./iteration-text.ts";
import type { LoopOptions } from "./options.ts";
import type { LoopState } from "./state.ts";

const MAX_TITLE = 200;
const SHOWN = 20;

/** What was asked for, what says that it is done, and how it came to that. */
export function pullRequestText(params: {
  readonly state: LoopState;
  readonly issue: Pick<IssueSnapshot, "number" | "title"> | null;
  readonly options: Pick<LoopOptions, "task" | "until">;
}): { readonly title: string; readonly body: string } {
  const { state, issue, options } = params;
  const [first = ""] = options.task.trim().split("\n");
  const words = (issue?.title ?? first).replaceAll(/\p{Cc}+/gu, " ").trim();
  const left = state.totals.iterations - SHOWN;
  const text = [
    ...(issue === null ? [options.task.trim(), ""] : []),
    ...options.until.map(({ command }) => `- \`${command.replaceAll("`", "'")}\` passes`),
    ...(options.until.length === 0 ? [] : [""]),
    ...(left > 0 ? [`… ${left} iterations before these`, ""] : []),
    ...state.iterations.slice(-SHOWN).map((one) => `- ${iterationText(one)}`),
  ].join("\n");
  const body = issue === null ? withoutKeys(text) : closingBody(text, issue.number);
  return { title: (words || "The work of a loop").slice(0, MAX_TITLE).toWellFormed(), body };
}
