import { truncate } from "../output/display-width.ts";
import { escapeText } from "../output/escape-text.ts";
import { paint } from "../output/page.ts";
import type { Page } from "../output/page.ts";
import { spentText } from "../output/spent-text.ts";
import type { Picture } from "./picture.ts";
import { sparkline } from "./sparkline.ts";

/** The picture as at most three lines, none wider than the page: position, numbers, last action. */
export function pictureLines(
  picture: Picture,
  page: Pick<Page, "width" | "color"> & { readonly now: number },
): readonly string[] {
  // The last column stays free: writing into it makes some terminals wrap.
  const room = page.width - 1;
  const spinner = SPINNER[Math.floor(page.now / 100) % SPINNER.length] ?? "";
  const place = picture.iteration > 0 ? `${picture.stage} #${picture.iteration}` : picture.stage;
  const since = picture.since === null ? "" : clockText(page.now - picture.since);
  const facts = [picture.run, place, since].filter((part) => part !== "").map(escapeText);
  const head = truncate(facts.join(" · "), room - 2);
  const numbers = [
    ...(picture.scores.length === 0
      ? []
      : [`scores ${picture.scores.slice(-6).join(" ")} ${sparkline(picture.scores, 16)}`]),
    ...(picture.spent === null ? [] : [spentText(picture.spent) ?? "nothing spent"]),
    ...(picture.checkpoint === null ? [] : [`saved @${picture.checkpoint}`]),
  ];
  const doing = [picture.step, picture.last].filter((part) => part !== null && part !== "").join(": ");
  return [
    `${paint(page, "cyan", spinner)} ${paint(page, "bold", head)}`,
    ...(numbers.length === 0 ? [] : [`  ${truncate(numbers.join(" · "), room - 2)}`]),
    ...(doing === "" ? [] : [`  ${paint(page, "dim", truncate(escapeText(doing), room - 2))}`]),
  ];
}

const SPINNER = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/** "7 s", "12 min", "1 h 05 min": long enough for work that takes hours. */
export function clockText(milliseconds: number): string {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}
