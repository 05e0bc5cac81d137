import type { ComparedPair, ComparedSide, Comparison } from "../../../app.ts";
import type { Amounts } from "../../../core/position/position.ts";
import { allPass } from "../../../core/compare/check-trails.ts";
import { escapeLines, escapeText } from "../../output/escape-text.ts";
import { hanging } from "../../output/hanging.ts";
import { paint } from "../../output/page.ts";
import type { Page } from "../../output/page.ts";
import { costText, timeText, tokensSpentText } from "../../output/spent-text.ts";
import { renderTable } from "../../output/table.ts";
import type { Cell } from "../../output/table.ts";
import { stageText } from "../list/view.ts";
import { divergedText } from "./diverged-text.ts";
import { changeText, codeText, rowsOf } from "./rows.ts";
import type { Row } from "./rows.ts";

/** Two runs stand side by side; more are rows of one table, and a block each for what does not fit there. */
export function comparisonText(compared: Comparison, page: Page): string {
  const { runs, pairs, best } = compared;
  const body =
    runs.length === 2 ? besideText(compared, page) : overviewText(compared, page) + blocksText(compared, page);
  const bases = hanging({ label: "base", labelWidth: LABEL, text: basesText(runs) }, page);
  const between = pairs.map((pair) => pairText(pair, { page, alone: pairs.length === 1 })).join("");
  const marks = best.map(({ dimension, ids }) => `${dimension}: ${ids.join(", ")}`).join("; ");
  const verdict = hanging(
    { label: "best *", labelWidth: LABEL, text: marks === "" ? "nobody in anything" : marks },
    page,
  );
  return `${body}\n${damageText(runs, page)}${bases}${between}${verdict}${diffsText(compared, page)}`;
}

const LABEL = 9;

function isBest(compared: Comparison, id: string, dimension: string | undefined): boolean {
  return compared.best.some((best) => best.dimension === dimension && best.ids.includes(id));
}

function cellOf(compared: Comparison, id: string, row: Row | undefined): Cell {
  if (row === undefined) return { text: "-", style: "dim" };
  const marked = isBest(compared, id, row.dimension);
  const style = row.style ?? (marked ? ("green" as const) : undefined);
  return { text: `${row.text}${marked ? " *" : ""}`, ...(style === undefined ? {} : { style }) };
}

function besideText(compared: Comparison, page: Page): string {
  const sides = compared.runs.map((run) => ({
    id: run.id,
    rows: new Map(rowsOf(run, page).map((row) => [row.label, row])),
  }));
  const columns = [{ title: "" }, ...sides.map(({ id }) => ({ title: id, shrinkTo: 16 }))];
  const rows = labelsOf(sides.map(({ rows: all }) => [...all.keys()])).map((label): readonly Cell[] => [
    { text: label, style: "dim" },
    ...sides.map(({ id, rows: all }) => cellOf(compared, id, all.get(label))),
  ]);
  return renderTable({ columns, rows }, page);
}

/** Every label once. One that only a later run has stands behind the label that comes before it there. */
export function labelsOf(sides: readonly (readonly string[])[]): readonly string[] {
  const labels: string[] = [];
  for (const side of sides) {
    let at = 0;
    for (const label of side) {
      const known = labels.indexOf(label);
      if (known === -1) labels.splice(at, 0, label);
      at = (known === -1 ? at : known) + 1;
    }
  }
  return labels;
}

function overviewText(compared: Comparison, page: Page): string {
  const columns = [
    { title: "RUN", shrinkTo: 16, last: true, cut: "middle" },
    { title: "STATE" },
    { title: "STAGE", shrinkTo: 8, optional: true, expendable: 3 },
    { title: "CODE" },
    { title: "CHECKS", optional: true },
    { title: "SCORE", optional: true, align: "right" },
    { title: "TOKENS", optional: true, align: "right", expendable: 2 },
    { title: "COST", optional: true, align: "right" },
    { title: "TIME", align: "right", expendable: 1 },
  ] as const;
  const rows = compared.runs.map((run): readonly Cell[] => {
    const { checks, spent, stage, iteration } = run;
    const pass = allPass(checks);
    const cell = (text: string, dimension?: string): Cell =>
      text === ""
        ? { text }
        : cellOf(compared, run.id, { label: "", text, ...(dimension === undefined ? {} : { dimension }) });
    return [
      { text: run.id, style: "bold" },
      { text: run.condition.kind },
      cell(stage === null ? "" : stageText({ stage, iteration })),
      cell(codeText(run.code)),
      cell(pass === null ? "" : pass ? "pass" : "fail", "checks"),
      cell(run.score === null ? "" : String(run.score), "score"),
      cell(tokensCell(spent), "tokens"),
      cell(costText(spent) ?? "", "cost"),
      cell(timeText(run.time.work), "time"),
    ];
  });
  return renderTable({ columns, rows }, page);
}

/** The title of the column says that they are tokens. */
function tokensCell(spent: Amounts): string {
  return tokensSpentText(spent)?.replaceAll(/ tokens\b|tokens /g, "") ?? "";
}

const IN_OVERVIEW: ReadonlySet<string> = new Set(["state", "stage", "code", "score", "tokens", "cost", "at work"]);

function blocksText(compared: Comparison, page: Page): string {
  return compared.runs
    .map((run) => {
      const rows = rowsOf(run, page).filter(({ label }) => !IN_OVERVIEW.has(label));
      if (rows.length === 0) return "";
      const width = Math.max(...rows.map(({ label }) => label.length));
      const lines = rows.map((row) => {
        const { text } = cellOf(compared, run.id, row);
        return hanging({ label: `  ${escapeText(row.label)}`, labelWidth: width + 2, text }, page);
      });
      return `\n${paint(page, "bold", escapeText(run.id))}\n${lines.join("")}`;
    })
    .join("");
}

function basesText(runs: readonly ComparedSide[]): string {
  const [first] = runs;
  if (first?.base?.kind === "fork_point") return `all come from ${first.base.name}`;
  if (first?.base?.kind === "base_commit") return `all began from commit ${first.base.name.slice(0, 12)}`;
  if (first?.base?.kind === "same_beginning") return `all began with the files of ${first.base.name}`;
  const own = runs.map(
    ({ id, base }) => `${id} from ${base === null ? "nothing that has files" : shortName(base.name)}`,
  );
  return `each its own beginning: ${own.join(", ")}`;
}

/** Before all that was read from it. */
function damageText(runs: readonly ComparedSide[], page: Page): string {
  return runs
    .map(({ run, damage: [first, ...more] }) => {
      if (first === undefined) return "";
      const rest = more.length === 0 ? "" : ` (and ${more.length} more)`;
      const text = `The journal of ${first}${rest}. What is told here may be wrong: \`holdfast verify ${run}\`.`;
      return hanging({ label: "damaged", labelWidth: LABEL, text }, page);
    })
    .join("");
}

function shortName(name: string): string {
  return /^[0-9a-f]{40,64}$/.test(name) ? name.slice(0, 12) : name;
}

function pairText(
  { a, b, code, diverged }: ComparedPair,
  { page, alone }: { readonly page: Page; readonly alone: boolean },
): string {
  const names = alone ? "" : `${a} and ${b}: `;
  const files =
    code === null
      ? "their files cannot be compared"
      : code.files === 0
        ? "the files are the same"
        : `${changeText(code)} from ${alone ? "the first to the second" : "one to the other"}`;
  const text = `${names}${files}; ${divergedText({ a, b, diverged })}`;
  return hanging({ label: "between", labelWidth: LABEL, text }, page);
}

/** A pipe gets patches byte for byte, at the end, where `git apply` finds them. */
function diffsText({ diffs }: Comparison, page: Page): string {
  return diffs
    .map(({ from, to, text }) => {
      const title = `From ${shortName(from)} to ${to}${text === "" ? ": no difference" : ":"}`;
      return `\n${paint(page, "bold", escapeText(title))}\n${page.terminal ? escapeLines(text) : text}`;
    })
    .join("");
}
