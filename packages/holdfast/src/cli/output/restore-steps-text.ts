import type { RestoreStep } from "../../app.ts";
import { hanging } from "./hanging.ts";
import { paint } from "./page.ts";
import type { Page, Style } from "./page.ts";

/** A line a step. */
export function restoreStepsText(steps: readonly RestoreStep[], page: Page): string {
  return steps
    .map(({ step, outcome, text }) => {
      const { mark, style } = MARKS[outcome];
      return hanging({ label: `${mark} ${step}`, labelWidth: LABELS, text }, page).replace(
        mark,
        paint(page, style, mark),
      );
    })
    .join("");
}

const LABELS = "✓ conversation".length;

const MARKS: Readonly<Record<RestoreStep["outcome"], { readonly mark: string; readonly style: Style }>> = {
  done: { mark: "✓", style: "green" },
  skipped: { mark: "-", style: "dim" },
  handed_over: { mark: "!", style: "yellow" },
  failed: { mark: "✗", style: "red" },
  not_reached: { mark: "·", style: "dim" },
};
