import type { CheckLevel, DoctorReport } from "../../../app.ts";
import { byteText } from "../../output/byte-text.ts";
import { padEnd } from "../../output/display-width.ts";
import { escapeText } from "../../output/escape-text.ts";
import { paint } from "../../output/page.ts";
import type { Page, Style } from "../../output/page.ts";
import { renderTable } from "../../output/table.ts";
import type { Cell } from "../../output/table.ts";
import { wrap } from "../../output/wrap.ts";

export function doctorText(report: DoctorReport, page: Page): string {
  const name = Math.max(0, ...report.checks.map((check) => check.name.length));
  const left = 4 + 2 + name + 2;
  const room = Number.isFinite(page.width) ? Math.max(20, page.width - left) : 1000;
  const lines = report.checks.flatMap((check) => {
    const [first = "", ...more] = wrap(escapeText(check.detail), room);
    const fix = check.fix === null ? [] : wrap(`fix: ${escapeText(check.fix)}`, room);
    const level = paint(page, STYLES[check.level], padEnd(check.level, 4));
    return [
      `${level}  ${padEnd(escapeText(check.name), name)}  ${first}`,
      ...[...more, ...fix].map((line) => " ".repeat(left) + line),
    ];
  });
  const usage = report.usage.length === 0 ? "" : `${usageText(report.usage, page)}\n`;
  return `${lines.join("\n")}\n\n${usage}${verdict(report, page)}\n`;
}

/** Space in the store by run, the largest first. */
export function usageText(usage: DoctorReport["usage"], page: Page): string {
  const columns = [
    { title: "RUN", shrinkTo: 16, last: true, cut: "middle" },
    { title: "CHECKPOINTS", align: "right" },
    { title: "USES", align: "right" },
  ] as const;
  const rows = usage.map(({ run, checkpoints, bytes }): readonly Cell[] => [
    { text: run },
    { text: String(checkpoints) },
    { text: byteText(bytes) },
  ]);
  return `Space in the store by run, before compression\n${renderTable({ columns, rows }, page)}`;
}

const STYLES: Readonly<Record<CheckLevel, Style>> = { ok: "green", warn: "yellow", fail: "red" };

function verdict(report: DoctorReport, page: Page): string {
  const count = (level: CheckLevel): number => report.checks.filter((check) => check.level === level).length;
  if (!report.ok) return paint(page, "red", `${count("fail")} failed, ${count("warn")} to look at.`);
  return count("warn") > 0
    ? paint(page, "yellow", `Works; ${count("warn")} to look at.`)
    : paint(page, "green", "All fine.");
}
