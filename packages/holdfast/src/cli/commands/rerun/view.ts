import type { RerunReport } from "../../../app.ts";
import type { Outcome, Parting } from "../../../core/replay/compare-runs.ts";
import { cutValues } from "../../../core/replay/divergence.ts";
import { countText } from "../../output/count-text.ts";
import { escapeText } from "../../output/escape-text.ts";
import { paint } from "../../output/page.ts";
import type { Page } from "../../output/page.ts";
import { moneyText, timeText, tokensSpentText } from "../../output/spent-text.ts";
import { fieldsText } from "../show/fields.ts";

export function rerunText({ of, run, compared, spent, ended }: RerunReport, page: Page): string {
  const { same, step, files, verdict } = compared;
  const names = `${escapeText(run)} (b) beside ${escapeText(of)} (a)`;
  const told = step === null ? paint(page, "green", "The same") : paint(page, "yellow", "Parted");
  return `\n${told}: ${names}\n${fieldsText(
    [
      ["same", countText(same, "outcome from the beginning on", "outcomes from the beginning on")],
      ["step", partingText(step, page)],
      ["files", partingText(files, page)],
      ["verdict", partingText(verdict, page)],
      ["ended", ended.a === ended.b ? `both ${ended.a}` : `a ${ended.a}, b ${ended.b}`],
      ["tokens", `a ${tokensSpentText(spent.a) ?? "none"}, b ${tokensSpentText(spent.b) ?? "none"}`],
      ["cost", `a ${costText(spent.a)}, b ${costText(spent.b)}`],
      ["time", `a ${timeText(spent.a.milliseconds)}, b ${timeText(spent.b.milliseconds)}`],
    ],
    page,
  )}`;
}

function costText({ microUsd, unpriced }: RerunReport["spent"]["a"]): string {
  return (unpriced ?? 0) > 0 && microUsd === 0 ? "unknown" : moneyText(microUsd);
}

function partingText(parting: Parting | null, page: Page): string {
  if (parting === null) return "no difference";
  const { a, b, field, expected, actual } = parting;
  const at = a ?? b;
  const place = at === null ? "" : placeText(at);
  if (a === null || b === null) return `${place}: only ${a === null ? "b" : "a"} came there`;
  const [was, is] = cutValues(
    expected,
    actual,
    Number.isFinite(page.width) ? Math.max(20, (page.width - 30) / 2) : 500,
  );
  return `${place}, ${field === "" ? "tree" : field.slice(1).replaceAll("/", ".")}: a ${was}, b ${is}`;
}

function placeText({ iteration, stage, step }: Outcome): string {
  const round = iteration === 0 ? "" : `iteration ${iteration}, `;
  return `${round}stage ${stage}${step === null ? "" : `, step ${step}`}`;
}
