import type { RunSummary } from "../../core/run/run.ts";
import { escapeText } from "./escape-text.ts";
import { paint } from "./page.ts";
import type { Page } from "./page.ts";

/** Shown by all that show the run: its files may be half of one checkpoint and half of another. "" when all is well. */
export function unfinishedRestoreText(run: Pick<RunSummary, "id" | "unfinishedRestore">, page: Page): string {
  const { unfinishedRestore: target, id } = run;
  if (target === null) return "";
  const program = escapeText(page.program);
  return [
    paint(page, "red", `! a restore of ${escapeText(target)} did not finish: files may be half of each`),
    `    finish it:              ${program} restore ${escapeText(target)}`,
    `    what was there before:  ${program} list ${escapeText(id)}`,
    "",
  ].join("\n");
}
