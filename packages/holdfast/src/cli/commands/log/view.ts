import type { JournalEntry } from "../../../core/journal/journal.ts";
import { displayWidth, padEnd, truncate } from "../../output/display-width.ts";
import { escapeText } from "../../output/escape-text.ts";
import { paint } from "../../output/page.ts";
import type { Page } from "../../output/page.ts";
import { exactTime, relativeTime } from "../../output/relative-time.ts";
import { renderTable } from "../../output/table.ts";
import { entrySummary } from "./entry-summary.ts";

export function entriesText(entries: readonly JournalEntry[], page: Page): string {
  const columns = [
    { title: "ENTRY", align: "right" },
    { title: "WHEN", expendable: 1 },
    { title: "KIND" },
    { title: "WHAT", shrinkTo: 16 },
  ] as const;
  const rows = entries.map((entry) => [
    { text: String(entry.entry) },
    { text: relativeTime(entry.at, page.now), style: "dim" } as const,
    { text: entry.kind, style: "bold" } as const,
    { text: entrySummary(entry) },
  ]);
  return renderTable({ columns, rows }, page);
}

/** One line as it comes: widths cannot be measured ahead, so they are fixed, and "just now" would soon be a lie. */
export function entryLine(entry: JournalEntry, page: Page): string {
  const time = exactTime(entry.at, page.offset).slice(0, 19);
  const head = `${String(entry.entry).padStart(5)}  ${paint(page, "dim", time)}  `;
  const kind = escapeText(entry.kind);
  const room = page.width - 28 - Math.max(KIND, displayWidth(kind)) - 2;
  const body = truncate(escapeText(entrySummary(entry)), Math.max(10, room));
  return `${head}${paint(page, "bold", kind)}${body === "" ? "" : `${padEnd("", KIND - displayWidth(kind))}  ${body}`}\n`;
}

export function followHeader(page: Page): string {
  return `${paint(page, "dim", `ENTRY  ${padEnd("WHEN", 19)}  ${padEnd("KIND", KIND)}  WHAT`)}\n`;
}

/** The longest of the usual kinds; a longer one pushes only its own line. */
const KIND = "checkpoint.dropped".length;
