import type { CheckLevel, DoctorReport } from "../../../app.ts";
import { padEnd } from "../../output/display-width.ts";
import { escapeText } from "../../output/escape-text.ts";
import { paint } from "../../output/page.ts";
import type { Page, Style } from "../../output/page.ts";
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
  return `${lines.join("\n")}\n\n${verdict(report, page)}\n`;
}

const STYLES: Readonly<Record<CheckLevel, Style>> = { ok: "green", warn: "yellow", fail: "red" };

function verdict(report: DoctorReport, page: Page): string {
  const count = (level: CheckLevel): number => report.checks.filter((check) => check.level === level).length;
  if (!report.ok) return paint(page, "red", `${count("fail")} failed, ${count("warn")} to look at.`);
  return count("warn") > 0
    ? paint(page, "yellow", `Works; ${count("warn")} to look at.`)
    : paint(page, "green", "All fine.");
}
