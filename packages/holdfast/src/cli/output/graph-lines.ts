import type { GraphPicture, NodeCondition, NodePicture } from "../../core/graph/graph-picture.ts";
import type { Amounts } from "../../core/position/position.ts";
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
  const facts = [wholeText(picture.elapsed), spent === null ? null : costText(spent)].filter((fact) => fact !== null);
  return [
    ...fit(`${name}${countsText(picture.counts)}`, page),
    ...(facts.length === 0 ? [] : fit(facts.join(", "), page)),
    ...pathLines(picture, page),
    ...picture.problems.slice(0, MOST_NAMED).flatMap((problem) => fit(`! ${escapeWords(problem)}`, page)),
  ];
}

function wholeText(elapsed: GraphPicture["elapsed"]): string | null {
  if (elapsed === null) return null;
  const text = clockText(elapsed.milliseconds);
  switch (elapsed.kind) {
    case "whole":
      return `took ${text}`;
    case "so_far":
      return `${text} so far`;
    case "at_least":
      return `${text} up to the last sign of life`;
  }
}

function pathLines({ criticalPath: { nodes, milliseconds }, elapsed }: GraphPicture, page: GraphPage) {
  if (nodes.length < 2) return [];
  const arrow = page.ascii === true ? " > " : " → ";
  // Before anything ran every node counts the same, and that is no time.
  const long = elapsed === null ? "" : ` ${clockText(milliseconds)}`;
  const shown = nodes.slice(0, page.width).map(escapeText).join(arrow);
  return [cut(`* critical path${long}: ${shown}`, page)];
}

/** Failures with their reasons, one by one; of the rest, who they are. */
function tailLines(picture: GraphPicture, page: GraphPage): readonly string[] {
  const having = (state: NodeCondition) => picture.nodes.filter((node) => node.state === state);
  const failed = having("failed");
  const more = failed.length - MOST_NAMED;
  const all = [
    ...failed.slice(0, MOST_NAMED).map((node) => {
      const again = node.attempts > 1 ? ` (try ${node.attempts})` : "";
      const why = node.reason === null ? "" : `: ${escapeWords(node.reason)}`;
      return marked("failed", `${escapeText(node.id)} failed${again}${why}`, page);
    }),
    ...(more > 0 ? [marked("failed", `and ${more} more`, page)] : []),
    ...namesLine("interrupted", "interrupted, nobody runs them now", having("interrupted"), page),
    ...namesLine("unknown", "not known whether they happened", having("unknown"), page),
    ...picture.approvals
      .slice(0, MOST_NAMED)
      .map(({ to, by }) => cut(`${escapeText(to)} waits for the approval of ${escapeText(by)}`, page)),
    ...nextLine(picture, page),
  ];
  return all.length === 0 ? [] : ["", ...all];
}

function namesLine(state: NodeCondition, what: string, nodes: readonly NodePicture[], page: GraphPage) {
  if (nodes.length === 0) return [];
  const names = nodes.slice(0, page.width).map((node) => {
    const time = elapsedText(node.elapsed, page);
    return `${escapeText(node.id)}${time === "" ? "" : ` (${time})`}`;
  });
  return [marked(state, `${what}: ${names.join(", ")}`, page)];
}

function marked(state: NodeCondition, text: string, page: GraphPage): string {
  const shown = truncate(text, page.width - 2, cutSign(page));
  return `${paint(page, styleOf(state), signOf(state, page))} ${shown}`;
}

function nextLine(picture: GraphPicture, page: GraphPage): readonly string[] {
  if (picture.resumePoint === null || picture.counts.running > 0) return [];
  return [cut(`goes on with ${escapeText(picture.resumePoint)}`, page)];
}

function fit(text: string, page: GraphPage): readonly string[] {
  return wrap(text, page.width).map((line) => cut(line, page));
}

function cut(text: string, page: GraphPage): string {
  return truncate(text, page.width, cutSign(page));
}

function cutSign(page: GraphPage): string {
  return page.ascii === true ? ".." : "…";
}
