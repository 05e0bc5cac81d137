import { padEnd, truncate } from "../../output/display-width.ts";
import { escapeText } from "../../output/escape-text.ts";
import { paint } from "../../output/page.ts";
import type { Page } from "../../output/page.ts";
import { exactTime, relativeTime } from "../../output/relative-time.ts";

export type Field = readonly [label: string, value: string | null];

/** Labels on the left, values on the right; fields without a value are left out. */
export function fieldsText(fields: readonly Field[], page: Page, indent = ""): string {
  const given = fields.filter((field): field is readonly [string, string] => field[1] !== null && field[1] !== "");
  const width = Math.max(10, ...given.map(([label]) => label.length));
  return given
    .map(([label, value]) => {
      const room = page.width - indent.length - width - 2;
      return `${indent}${paint(page, "dim", padEnd(label, width))}  ${truncate(escapeText(value), room)}\n`;
    })
    .join("");
}

export function sectionText(title: string, body: string, page: Page): string {
  return body === "" ? "" : `\n${paint(page, "bold", title)}\n${body}`;
}

export function momentText(iso: string, page: Page): string {
  return `${exactTime(iso, page.offset)} (${relativeTime(iso, page.now)})`;
}
