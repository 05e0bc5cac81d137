import type { ReplayReport } from "../../../app.ts";
import { cutValues, placeText } from "../../../core/replay/divergence.ts";
import type { Divergence } from "../../../core/replay/divergence.ts";
import { countText } from "../../output/count-text.ts";
import { escapeText } from "../../output/escape-text.ts";
import { paint } from "../../output/page.ts";
import type { Page } from "../../output/page.ts";
import { fieldsText } from "../show/fields.ts";

export function replayText(report: ReplayReport, page: Page): string {
  const run = escapeText(report.run);
  switch (report.verdict) {
    case "damaged":
      return (
        `${paint(page, "red", "Damaged")}: the record of ${run} is not what was written. Nothing was replayed.\n` +
        report.problems
          .slice(0, MOST)
          .map(({ code, entry, sequence, what }) => `  ${prefixOf(entry, sequence)}${code}: ${escapeText(what)}\n`)
          .join("") +
        (report.problems.length > MOST ? `  and ${report.problems.length - MOST} more: holdfast verify ${run}\n` : "")
      );
    case "diverged":
      return `${paint(page, "yellow", "Diverged")}: ${run} does not come out as it was recorded.\n${
        report.divergence === null ? "" : divergenceFields(report.divergence, page)
      }${doneText(report, page)}`;
    case "identical":
      return `${paint(page, "green", "Identical")}: ${run} comes out as it was recorded.\n${doneText(report, page)}`;
  }
}

const MOST = 10;

function doneText(report: ReplayReport, page: Page): string {
  const { from, to, compared, filled, steps, agents, iteration, outcome } = report;
  const others = filled === 0 ? "" : `, ${filled} from outside put in as they were`;
  return fieldsText(
    [
      ["checkpoints", `${to === null ? "none" : `${from} to ${to}`}: ${compared} made again and the same${others}`],
      ["steps", `${steps} answered from the record`],
      ["agents", `none started; ${countText(agents, "call")} answered from the record`],
      ["ends", `${outcome}${iteration === 0 ? "" : `, iteration ${iteration}`}`],
    ],
    page,
  );
}

function divergenceFields({ where, what, field, expected, actual }: Divergence, page: Page): string {
  const [was, is] = cutValues(expected, actual, Number.isFinite(page.width) ? Math.max(40, page.width - 16) : 2000);
  return fieldsText(
    [
      ["where", placeText(where)],
      ["what", `${WORDS[what]}: ${field}`],
      ["recorded", was],
      ["now", is],
    ],
    page,
  );
}

const WORDS: Readonly<Record<Divergence["what"], string>> = {
  call: "what the agent is asked",
  checkpoint: "the checkpoint",
  event: "the event that the workflow records",
  step: "a step that was not done then",
  missing: "a step that is not done any more",
  lookup: "a question to the forge",
  end: "how the run ends",
  environment: "the environment of agents",
  files: "the worktree",
};

function prefixOf(entry: number | null, sequence: number | null): string {
  if (sequence !== null) return `checkpoint ${sequence}: `;
  return entry === null ? "" : `entry ${entry}: `;
}
