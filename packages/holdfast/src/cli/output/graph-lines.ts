import type { GraphPicture, NodeCondition } from "../../core/graph-picture.ts";
import type { Amounts } from "../../core/position.ts";
import { batchLines, countsText } from "./batch-lines.ts";
import type { GraphPage } from "./batch-lines.ts";
import { truncate } from "./display-width.ts";
import { escapeText, escapeWords } from "./escape-text.ts";
import { graphColumns } from "./graph-columns.ts";
import { clockText } from "./clock-text.ts";
import { elapsedText, signOf, styleOf } from "./node-mark.ts";
import { paint } from "./page.ts";
import { costText } from "./spent-text.ts";
import { wrap } from "./wrap.ts";

/** A graph for a terminal: how far it is, the batches, and what needs a look. No line is wider than the page. */
export function graphLines(picture: GraphPicture, page: GraphPage, spent: Amounts | null): readonly string[] {
  // A drawing is for eyes, also in a file.
  const fitted = { ...page, width: Number.isFinite(page.width) ? page.width : 100 };
  const body = graphColumns(picture, fitted, TALLEST) ?? batchLines(picture, fitted, MOST_BATCHES);
  return [...headLines(picture, fitted, spent), "", ...body, ...tailLines(picture, fitted)];
}

/** For a view that is redrawn: how far it is, and a line a batch. */
export function compactGraphLines(picture: GraphPicture, page: GraphPage): readonly string[] {
  return batchLines(picture, page, COMPACT_BATCHES);
}

/** Beyond these it is summarised: what does not fit a screen is no picture. */
const TALLEST = 40;
const MOST_BATCHES = 30;
const COMPACT_BATCHES = 6;
const MOST_NAMED = 8;

function headLines(picture: GraphPicture, page: GraphPage, spent: Amounts | null): readonly string[] {
  const name = picture.id === "" ? "" : `${escapeText(picture.id)}: `;
  const so = picture.elapsed?.kind === "so_far" ? " so far" : "";
  const elapsed = elapsedText(picture.elapsed, page);
  const facts = [...(elapsed === "" ? [] : [`${elapsed}${so}`]), ...(spent === null ? [] : [costText(spent)])].filter(
    (fact) => fact !== null,
  );
  const counted = `${name}${countsText(picture.counts)}`;
  return [
    ...fit(facts.length === 0 ? counted : `${counted}; ${facts.join(", ")}`, page),
    ...pathLines(picture, page),
    ...picture.problems.slice(0, MOST_NAMED).flatMap((problem) => fit(`! ${escapeWords(problem)}`, page)),
  ];
}

function pathLines({ criticalPath: { nodes, milliseconds }, elapsed }: GraphPicture, page: GraphPage) {
  if (nodes.length < 2) return [];
  const arrow = page.ascii === true ? " > " : " → ";
  // Before anything ran every node counts the same, and that is no time.
  const long = elapsed === null ? "" : ` ${clockText(milliseconds)}`;
  const shown = nodes.slice(0, page.width).map(escapeText).join(arrow);
  return [`${truncate(`* critical path${long}: ${shown}`, page.width, cutSign(page))}`];
}

const WITH_REASON: readonly NodeCondition[] = ["failed", "unknown", "interrupted"];

function tailLines(picture: GraphPicture, page: GraphPage): readonly string[] {
  const troubled = picture.nodes.filter(({ state }) => WITH_REASON.includes(state));
  const lines = troubled.slice(0, MOST_NAMED).map((node) => {
    const why = node.reason === null ? REASONS[node.state] : escapeWords(node.reason);
    const text = truncate(
      `${escapeText(node.id)} ${node.state}${why === undefined ? "" : `: ${why}`}`,
      page.width - 2,
      cutSign(page),
    );
    return `${paint(page, styleOf(node.state), signOf(node.state, page))} ${text}`;
  });
  const more = troubled.length - lines.length;
  const approvals = picture.approvals
    .slice(0, MOST_NAMED)
    .map(({ to, by }) =>
      truncate(`${escapeText(to)} waits for the approval of ${escapeText(by)}`, page.width, cutSign(page)),
    );
  const next = nextLine(picture, page);
  const all = [...lines, ...(more > 0 ? [`and ${more} more`] : []), ...approvals, ...next];
  return all.length === 0 ? [] : ["", ...all];
}

const REASONS: Partial<Record<NodeCondition, string>> = {
  interrupted: "its process is gone; nobody runs it now",
  unknown: "not known whether it happened",
};

function nextLine(picture: GraphPicture, page: GraphPage): readonly string[] {
  if (picture.resumePoint === null || picture.counts.running > 0) return [];
  return [truncate(`goes on with ${escapeText(picture.resumePoint)}`, page.width, cutSign(page))];
}

function fit(text: string, page: GraphPage): readonly string[] {
  return wrap(text, page.width).map((line) => truncate(line, page.width, cutSign(page)));
}

function cutSign(page: GraphPage): string {
  return page.ascii === true ? ".." : "…";
}
