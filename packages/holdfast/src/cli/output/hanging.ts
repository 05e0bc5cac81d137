import { padEnd } from "./display-width.ts";
import { escapeWords } from "./escape-text.ts";
import type { Page } from "./page.ts";
import { wrap } from "./wrap.ts";

/** A label, and beside it a text of several lines: the page's width, and never wider than reads well. */
export function hanging(
  params: { readonly label: string; readonly labelWidth: number; readonly text: string },
  page: Page,
): string {
  const { label, labelWidth, text } = params;
  const lines = wrap(escapeWords(text), Math.max(20, Math.min(page.width, READABLE) - labelWidth - 1));
  return lines.map((line, at) => `${padEnd(at === 0 ? label : "", labelWidth)} ${line}\n`).join("");
}

const READABLE = 100;
