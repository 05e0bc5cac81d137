/** Renders tables that fit the width of the page. */
import { displayWidth, escapeText, padEnd, padStart, truncate, truncateMiddle, wrap } from "./text.ts";
import { type Page, type Style, paint } from "./page.ts";

export interface Column {
  readonly title: string;
  readonly align?: "left" | "right";
  /** The smallest width to which the column may shrink on a narrow page. Other columns keep their width. */
  readonly shrinkTo?: number;
  /** Shrinks only after the others are at their minimum, because users copy ids. */
  readonly last?: true;
  /** Columns are omitted before this one becomes narrower than this. */
  readonly keep?: number;
  /** Where the text is truncated; default: at its end. */
  readonly cut?: "middle";
  /** Omitted if all its cells are empty. */
  readonly optional?: true;
  /** For the last column: wraps to the next line instead of being truncated. */
  readonly wrap?: true;
  /** If the page is too narrow, columns are omitted, the highest number first. Absent: never omitted. */
  readonly expendable?: number;
}

/** Plain text from data (escaped here), with at most one of our styles. */
export interface Cell {
  readonly text: string;
  readonly style?: Style;
}

export interface Table {
  readonly columns: readonly Column[];
  readonly rows: readonly (readonly Cell[])[];
  readonly indent?: string;
}

/** Aligned by display width, at most as wide as the page if the columns allow it, without trailing blanks. */
export function renderTable(full: Table, page: Pick<Page, "width" | "color">): string {
  const indent = full.indent ?? "";
  const width = page.width - indent.length;
  const table = fit(withoutEmpty(escaped(full)), width);
  const widths = planWidths({ columns: table.columns, natural: naturalWidths(table), width });
  const header = table.columns.map((column): Cell => ({ text: column.title, style: "dim" }));
  const lines = [header, ...table.rows].flatMap((row) => renderRow({ row, columns: table.columns, widths, page }));
  return `${lines.map((line) => indent + line).join("\n")}\n`;
}

function escaped(table: Table): Table {
  return { ...table, rows: table.rows.map((row) => row.map((cell) => ({ ...cell, text: escapeText(cell.text) }))) };
}

function naturalWidths(table: Table): readonly number[] {
  return table.columns.map((column, at) =>
    Math.max(displayWidth(column.title), ...table.rows.map((row) => displayWidth(row[at]?.text ?? ""))),
  );
}

/** Omits whole columns before lines would wrap. */
function fit(table: Table, width: number): Table {
  const natural = naturalWidths(table);
  const least = table.columns.map((column, at) =>
    Math.min(natural[at] ?? 0, column.keep ?? column.shrinkTo ?? Number.POSITIVE_INFINITY),
  );
  if (least.reduce((sum, one) => sum + one, (least.length - 1) * GAP.length) <= width) return table;
  const worst = Math.max(...table.columns.map(({ expendable = 0 }) => expendable));
  const goes = table.columns.findIndex(({ expendable = 0 }) => expendable === worst);
  return worst === 0
    ? table
    : fit(
        pick(table, (at) => at !== goes),
        width,
      );
}

function pick(table: Table, wanted: (at: number) => boolean): Table {
  const used = [...table.columns.keys()].filter(wanted);
  return {
    ...table,
    columns: used.flatMap((at) => table.columns[at] ?? []),
    rows: table.rows.map((row) => used.map((at) => row[at] ?? { text: "" })),
  };
}

function withoutEmpty(table: Table): Table {
  return pick(
    table,
    (at) => table.columns[at]?.optional !== true || table.rows.some((row) => (row[at]?.text ?? "") !== ""),
  );
}

interface WidthPlan {
  readonly columns: readonly Column[];
  readonly natural: readonly number[];
  readonly width: number;
}

/** The widest column that may still shrink gives one column at a time, so that the loss is distributed evenly. */
export function planWidths(plan: WidthPlan): readonly number[] {
  const widths = [...plan.natural];
  const gaps = Math.max(0, widths.length - 1) * GAP.length;
  let excess = widths.reduce((sum, width) => sum + width, gaps) - plan.width;
  for (const last of [false, true]) {
    while (excess > 0) {
      const at = widestOf(plan.columns, widths, last);
      if (at === undefined) break;
      widths[at] = (widths[at] ?? 0) - 1;
      excess -= 1;
    }
  }
  return widths;
}

function widestOf(columns: readonly Column[], widths: readonly number[], last: boolean): number | undefined {
  let widest: number | undefined;
  for (const [at, column] of columns.entries()) {
    const width = widths[at] ?? 0;
    const may = column.shrinkTo !== undefined && width > column.shrinkTo && (column.last === true) === last;
    if (may && (widest === undefined || width > (widths[widest] ?? 0))) widest = at;
  }
  return widest;
}

const GAP = "  ";

function renderRow(params: {
  readonly row: readonly Cell[];
  readonly columns: readonly Column[];
  readonly widths: readonly number[];
  readonly page: Pick<Page, "color">;
}): readonly string[] {
  const last = params.columns.length - 1;
  const wrapped =
    params.columns[last]?.wrap === true ? wrap(params.row[last]?.text ?? "", params.widths[last] ?? 0) : [];
  const cells = params.columns.map((column, at) => {
    const cell = params.row[at] ?? { text: "" };
    const width = params.widths[at] ?? 0;
    const cut = column.cut === "middle" ? truncateMiddle(cell.text, width) : truncate(cell.text, width);
    const text = at === last && wrapped.length > 0 ? (wrapped[0] ?? "") : cut;
    const padded = column.align === "right" ? padStart(text, width) : at === last ? text : padEnd(text, width);
    return cell.style === undefined
      ? padded
      : padded.replace(text, () => paint(params.page, cell.style ?? "dim", text));
  });
  const margin = params.widths.slice(0, last).reduce((sum, width) => sum + width + GAP.length, 0);
  return [cells.join(GAP).trimEnd(), ...wrapped.slice(1).map((line) => " ".repeat(margin) + line)];
}
