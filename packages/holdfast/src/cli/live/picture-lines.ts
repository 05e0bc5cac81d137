import { clockText } from "../output/clock-text.ts";
import { truncate } from "../output/display-width.ts";
import { compactGraphLines } from "../output/graph-lines.ts";
import { escapeText } from "../output/escape-text.ts";
import { bestText, metricsText, trailText } from "../output/loop-text.ts";
import { paint } from "../output/page.ts";
import type { Page } from "../output/page.ts";
import { spentText } from "../output/spent-text.ts";
import type { Picture } from "./picture.ts";
import { sparkline } from "./sparkline.ts";
import { scoreText } from "../output/score-text.ts";

/** The picture as a few lines, none wider than the page: position, numbers, a line for each batch of the graph, last action. */
export function pictureLines(
  picture: Picture,
  page: Pick<Page, "width" | "color" | "ascii"> & { readonly now: number },
): readonly string[] {
  // The last column stays free: writing into it makes some terminals wrap.
  const room = page.width - 1;
  const turns = page.ascii === true ? ASCII_SPINNER : SPINNER;
  const spinner = turns[Math.floor(page.now / 100) % turns.length] ?? "";
  const of = picture.loop === null ? "" : ` of ${picture.loop.maxIterations}`;
  const place = picture.iteration > 0 ? `${picture.stage} #${picture.iteration}${of}` : picture.stage;
  const since = picture.since === null ? "" : clockText(page.now - picture.since);
  const facts = [picture.run, place, since].filter((part) => part !== "").map(escapeText);
  const head = truncate(facts.join(" · "), room - 2);
  const numbers = [
    ...(picture.scores.length === 0
      ? []
      : [`scores ${picture.scores.slice(-6).map(scoreText).join(" ")} ${sparkline(picture.scores, 16)}`]),
    ...(picture.spent === null ? [] : [spentText(picture.spent) ?? "nothing spent"]),
    ...(picture.checkpoint === null ? [] : [`saved @${picture.checkpoint}`]),
  ];
  const doing = [picture.step, picture.last].filter((part) => part !== null && part !== "").join(": ");
  return [
    `${paint(page, "cyan", spinner)} ${paint(page, "bold", head)}`,
    ...(numbers.length === 0 ? [] : [`  ${truncate(numbers.join(" · "), room - 2)}`]),
    ...loopPart(picture.loop, page).map((line) => `  ${truncate(line, room - 2)}`),
    ...graphPart(picture.graph, { ...page, width: room - 2 }).map((line) => `  ${line}`),
    ...(doing === "" ? [] : [`  ${paint(page, "dim", truncate(escapeText(doing), room - 2))}`]),
  ];
}

function loopPart(loop: Picture["loop"], page: Pick<Page, "ascii">): readonly string[] {
  if (loop === null || loop.iterations.length === 0) return [];
  const best = bestText(loop);
  const facts = [trailText(loop, page, 30), metricsText(loop), best === null ? null : `best ${best}`];
  const finding = loop.findings.at(-1);
  const newest = loop.iterations.at(-1)?.number;
  return [
    facts.filter((fact) => fact !== null).join(" · "),
    ...(finding?.iteration === newest && finding !== undefined ? [escapeText(finding.sentence)] : []),
  ];
}

function graphPart(graph: Picture["graph"], page: Pick<Page, "width" | "color" | "ascii">): readonly string[] {
  return graph === null ? [] : compactGraphLines(graph, page);
}

const SPINNER = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const ASCII_SPINNER = ["|", "/", "-", "\\"];
