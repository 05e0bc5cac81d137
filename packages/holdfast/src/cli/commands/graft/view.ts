import type { GraftPlan, GraftReport } from "../../../app.ts";
import { countText } from "../../output/count-text.ts";
import { truncate } from "../../output/display-width.ts";
import { escapeText } from "../../output/escape-text.ts";
import { reasonText } from "../../output/left-out.ts";
import { paint } from "../../output/page.ts";
import type { Page, Style } from "../../output/page.ts";
import { changeLine } from "../restore/view.ts";
import { isBelow } from "../../../core/graft/choose-paths.ts";

export function planText(plan: GraftPlan, page: Page): string {
  const { files, source, run, begun } = plan;
  const lines = [
    `Would take from ${paint(page, "bold", escapeText(source.id))} into ${paint(page, "bold", run)}`,
    `  in ${escapeText(files.root)}`,
    ...(begun === null ? [] : [`  goes on with what began after ${escapeText(begun.id)} and did not finish`]),
    `  ${files.changes.length === 0 ? "these files are the same" : `${countText(files.changes.length, "file")} to change`}`,
    ...files.changes.slice(0, SHOWN).map((change) => changeLine(change, page)),
  ];
  const more = files.changes.length - SHOWN;
  if (more > 0) lines.push(`    … and ${more} more (all with --json)`);
  const warn = (mark: string, style: Style, text: string): void => {
    lines.push(`    ${paint(page, style, mark)} ${truncate(escapeText(text), page.width - 6)}`);
  };
  for (const path of plan.edited) warn("!", "yellow", `${path} was changed since the newest checkpoint: needs --force`);
  for (const { path, target } of plan.outward)
    warn("!", "red", `${path} is a link that leads out, to ${target}: needs --force`);
  for (const path of files.blocked) warn("!", "red", `${path} stands in the way: no checkpoint holds it`);
  for (const { path, reason, bytes } of files.untouched)
    if (plan.asked.some((asked) => isBelow(path, asked)))
      warn("=", "yellow", `${path} left alone: ${reasonText(reason, bytes)}`);
  return `${lines.join("\n")}\n`;
}

export function nothingText({ source, run }: GraftPlan): string {
  return `Nothing to take: these files of ${escapeText(run)}\n  are as ${escapeText(source.id)} has them.\n`;
}

export function reportText(plan: GraftPlan, report: GraftReport, page: Page): string {
  const { written, removed, checkpoint, undo } = report;
  const counts = `${countText(written, "file")} written, ${removed} removed`;
  return [
    `Took from ${paint(page, "bold", escapeText(plan.source.id))} into ${escapeText(plan.run)}:`,
    `  ${counts}. Saved as ${escapeText(checkpoint.id)}.`,
    `To undo: ${paint(page, "bold", `${page.program} restore ${escapeText(undo.id)}`)}`,
    "",
  ].join("\n");
}

const SHOWN = 20;
