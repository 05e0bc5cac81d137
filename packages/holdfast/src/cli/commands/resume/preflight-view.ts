import type { Judgement, ResumePlan } from "../../../core/resume/resume.ts";
import { escapeText, escapeWords } from "../../output/escape-text.ts";
import { truncate } from "../../output/display-width.ts";
import { paint } from "../../output/page.ts";
import type { Page, Style } from "../../output/page.ts";
import { wrap } from "../../output/wrap.ts";

/** "What changed while I was away": every finding, what is decided about it, and what is done before the run goes on. */
export function preflightText(
  { plan, notes }: { readonly plan: ResumePlan; readonly notes: readonly string[] },
  page: Page,
): string {
  const judgements = plan.kind === "nothing" ? [] : plan.judgements;
  const actions = plan.kind === "nothing" || plan.kind === "refuse" ? [] : plan.actions;
  const news = judgements.filter(({ decision }) => decision !== "accepted_before");
  const lines = news.flatMap((judgement) => [
    ...judgementLines(judgement, page),
    ...diffLines(judgement.finding.diff, page),
  ]);
  const doings = [...new Set(actions.map(({ why }) => why))].flatMap((why) =>
    marked(paint(page, "cyan", "→"), why, page),
  );
  const told = notes.flatMap((note) => marked(paint(page, "yellow", "!"), note, page));
  return [...lines, ...told, ...doings].map((line) => `${line}\n`).join("");
}

function judgementLines({ finding, verdict, decision }: Judgement, page: Page): readonly string[] {
  const { mark, style } = MARKS[verdict];
  const said = decision === "accepted" ? " (accepted)" : decision === "put_back" ? " (files put back)" : "";
  const kind = verdict === "ask" ? ` [${finding.kind}]` : "";
  return marked(paint(page, style, mark), `${finding.summary}${said}${kind}`, page);
}

const MARKS: Readonly<Record<Judgement["verdict"], { readonly mark: string; readonly style: Style }>> = {
  resume: { mark: "·", style: "dim" },
  warn: { mark: "!", style: "yellow" },
  ask: { mark: "?", style: "yellow" },
  refuse: { mark: "✗", style: "red" },
};

function marked(mark: string, text: string, page: Page): readonly string[] {
  const [first = "", ...rest] = wrap(escapeWords(text), Math.min(page.width, 100) - 4);
  return [`${mark} ${first}`, ...rest.map((line) => `  ${line}`)];
}

/** A patch of the text, coloured as patches are. */
function diffLines(diff: string | undefined, page: Page): readonly string[] {
  if (diff === undefined || diff === "") return [];
  return diff
    .trimEnd()
    .split("\n")
    .map((line) => {
      const text = truncate(escapeText(line), page.width - 5);
      const style = line.startsWith("+") ? "green" : line.startsWith("-") ? "red" : undefined;
      return `    ${style === undefined ? text : paint(page, style, text)}`;
    });
}
