import type { RunOutcome, RunStatus } from "../../../app.ts";
import type { Exit } from "../../../core/exit.ts";
import { answerCommands } from "../../output/answer-commands.ts";
import { escapeWords } from "../../output/escape-text.ts";
import { giveMoreFlags } from "../../output/give-more.ts";
import { paint } from "../../output/page.ts";
import type { Page, Style } from "../../output/page.ts";
import { spentText } from "../../output/spent-text.ts";
import { wrap } from "../../output/wrap.ts";
import { momentText } from "../show/fields.ts";
import { isAtLimit } from "../status/view.ts";

/** What has to be typed again with `resume RUN`, each with a blank before it. */
export interface ResumeFlags {
  /** Whenever it is resumed: what the run itself does not remember. */
  readonly always: string;
  /** As long as nothing was taken over. */
  readonly untouched: string;
}

export const NO_FLAGS: ResumeFlags = { always: "", untouched: "" };

/** How a stretch of work ended, what it took, and what to type next. */
export function outcomeText(outcome: RunOutcome, status: RunStatus, page: Page, flags = NO_FLAGS): string {
  const spent = status.budget === null ? null : spentText(status.budget.spent, status.budget.limit);
  const lines = [
    ...headLines(outcome, status, page),
    ...(spent === null || outcome.kind === "ask" ? [] : [`Spent: ${spent}`]),
    ...status.denied.flatMap((text) => told("yellow", "Denied", `${text}. --yolo allows it.`, page)),
    ...nextLines(outcome, status, page, flags),
  ];
  return `${lines.join("\n")}\n`;
}

/** A run that waits for the user needs an answer; any other wait ends without one. */
export function exitOfOutcome(outcome: RunOutcome): Exit {
  switch (outcome.kind) {
    case "done":
      return "done";
    case "fatal":
      return "failed";
    case "parked":
      return outcome.on === "person" ? "decision" : "parked";
    case "interrupted":
      return "interrupted";
    case "ask":
      return "decision";
  }
}

const WAITING: Readonly<Record<Extract<RunOutcome, { kind: "parked" }>["on"], string>> = {
  person: "Waiting for you",
  quota: "Waiting for quota",
  provider: "Waiting for the provider",
  forge: "Waiting for the forge",
  budget: "Waiting for a higher budget",
  ci: "Waiting for CI",
  disk: "Waiting for disk space",
  session: "Session time is over",
  pause: "Paused",
};

function headLines(outcome: RunOutcome, status: RunStatus, page: Page): readonly string[] {
  const { id } = status.run;
  switch (outcome.kind) {
    case "done":
      return told("green", "Done", `${id}: ${outcome.reason}`, page);
    case "fatal":
      if (isAtLimit(status)) return told("yellow", "Limit reached", `${id}: ${outcome.reason}`, page);
      return told("red", "Given up", `${id}: ${outcome.reason}`, page);
    case "parked": {
      const until = outcome.until === null ? "" : ` Until ${momentText(outcome.until, page)}.`;
      return told("yellow", WAITING[outcome.on], `${id}: ${sentence(outcome.reason)}${until}`, page);
    }
    case "interrupted":
      return told("yellow", "Interrupted", `${id}: the agent was stopped and everything is saved${at(status)}.`, page);
    case "ask":
      return told("yellow", "Needs a decision", `${id}: nothing was changed.`, page);
  }
}

function nextLines(outcome: RunOutcome, status: RunStatus, page: Page, flags: ResumeFlags): readonly string[] {
  const { id } = status.run;
  const { program } = page;
  switch (outcome.kind) {
    case "done":
      // A run that was to go only so far.
      if (status.stage === "stopped" && status.pullRequest === null)
        return [[`Go on with: ${program} resume ${id}`, "--target PHASE"].join(" ")];
      return takeLines(status);
    case "fatal":
      if (isAtLimit(status))
        return [`Allow more: ${program} resume ${id} --max N${flags.always}`, ...takeLines(status)];
      return [
        `What happened: ${program} log ${id}`,
        `Begin again from a checkpoint: ${program} resume ${id}@N --force${flags.always}`,
        ...takeLines(status),
      ];
    case "parked": {
      if (outcome.on === "budget")
        return [`Give it more: ${program} resume ${id}${flags.always} ${giveMoreFlags(status.budget)}`];
      const { condition } = status;
      return condition.kind === "parked" && condition.question !== null
        ? [answerCommands(`${program} approve ${id}`, condition.question.options)]
        : [`Go on with: ${program} resume ${id}${flags.always}`];
    }
    case "interrupted":
      return [`Go on with: ${program} resume ${id}${flags.always}`];
    case "ask":
      return outcome.findings.length === 0
        ? []
        : [
            `Go on with: ${program} resume ${id}${flags.untouched} ${kinds(outcome)
              .map((kind) => `--accept ${kind}`)
              .join(" ")}`,
          ];
  }
}

/** A loop without a pull request leaves its work on a branch of this repository. */
function takeLines({ loop, branch, pullRequest }: RunStatus): readonly string[] {
  const worked = loop !== null && loop.totals.iterations > 0;
  return worked && branch !== null && pullRequest === null ? [`Take its commits: git merge ${branch}`] : [];
}

function kinds(outcome: Extract<RunOutcome, { readonly kind: "ask" }>): readonly string[] {
  return [...new Set(outcome.findings.map(({ kind }) => kind))];
}

function at(status: RunStatus): string {
  return status.run.latest === null ? "" : ` as ${status.run.id}@${status.run.latest.sequence}`;
}

/** Words stay whole, however narrow the page: an address is there to be copied. */
function told(style: Style, head: string, text: string, page: Page): readonly string[] {
  const [first = "", ...rest] = wrap(`${head} ${escapeWords(text)}`, Math.min(page.width, 100) - 2);
  const painted = first.startsWith(head) ? paint(page, style, head) + first.slice(head.length) : first;
  return [painted, ...rest.map((line) => `  ${line}`)];
}

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}
