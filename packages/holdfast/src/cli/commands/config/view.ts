import { basename } from "node:path";
import type { EffectiveConfig, Origin, Setting } from "../../../config/effective-config.ts";
import type { ConfigProblem } from "../../../config/config-problem.ts";
import { countText } from "../../output/count-text.ts";
import { escapeLines, escapeText } from "../../output/escape-text.ts";
import { paint } from "../../output/page.ts";
import type { Page } from "../../output/page.ts";
import { renderTable } from "../../output/table.ts";

export function settingsText(config: EffectiveConfig, page: Page): string {
  const columns = [{ title: "KEY" }, { title: "VALUE", shrinkTo: 11 }, { title: "FROM", shrinkTo: 10, expendable: 1 }];
  const rows = config.entries.map((setting) => [
    { text: setting.key, style: "bold" } as const,
    { text: valueText(setting.value) },
    {
      text: originText(setting.origin, config.path),
      style: setting.origin.kind === "default" ? "dim" : "cyan",
    } as const,
  ]);
  return renderTable({ columns, rows }, page);
}

export function checkText(
  checked: { readonly path: string | null; readonly problems: readonly ConfigProblem[] },
  page: Page,
): string {
  const { path, problems } = checked;
  if (path === null) return "There is no config file, so nothing is wrong with it.\n";
  if (problems.length === 0) return `${escapeText(path)} is right.\n`;
  const shown = problems.map((problem) => {
    const place = `${basename(path)}:${problem.line}:${problem.column}`;
    const excerpt = escapeLines(problem.excerpt).replaceAll("\n", "\n  ");
    const hint = problem.hint === null ? "" : `  ${paint(page, "cyan", escapeText(problem.hint))}\n`;
    return `${paint(page, "bold", escapeText(place))}: ${escapeText(problem.message)}\n  ${excerpt}\n${hint}\n`;
  });
  return `${shown.join("")}${countText(problems.length, "problem")}.\n`;
}

function valueText(value: Setting["value"]): string {
  return typeof value === "object" ? `${value.keep} per ${value.per}` : String(value);
}

function originText(origin: Origin, path: string | null): string {
  switch (origin.kind) {
    case "default":
      return "default";
    case "file":
      return `${basename(path ?? "")}${origin.line === null ? "" : `:${origin.line}`}`;
    case "environment":
      return origin.variable;
    case "flag":
      return origin.flag;
  }
}
