import { displayWidth, padEnd } from "../../output/display-width.ts";
import { paint } from "../../output/page.ts";
import type { Page } from "../../output/page.ts";
import { wrap } from "../../output/wrap.ts";
import type { Claim } from "./proof.ts";
import type { TimelineRow } from "./timeline.ts";

export function headingText(text: string, page: Page): string {
  return `\n${paint(page, "bold", `── ${text}`)}\n`;
}

export function timelineText(rows: readonly TimelineRow[], page: Page): string {
  const width = Math.max(...rows.map((row) => displayWidth(placeOf(row))));
  return rows
    .map((row) => {
      const score = row.score === null ? "" : `, score ${row.score}`;
      const line = `  ${padEnd(placeOf(row), width)}  ${row.event === "" ? "the end" : `${row.event}${score}`}\n`;
      const deaths = row.deaths.map((place) => markedText("✗", "red", `killed ${place}`, page, "    "));
      return line + deaths.join("");
    })
    .join("");
}

export function proofText(claims: readonly Claim[], page: Page): string {
  const width = Math.max(...claims.map(({ claim }) => claim.length));
  return claims
    .map(({ claim, ok, detail }) => {
      const mark = paint(page, ok ? "green" : "red", ok ? "✓" : "✗");
      const [first = "", ...rest] = wrap(detail, Math.min(page.width, 80) - width - 6);
      const indent = " ".repeat(width + 6);
      return `  ${mark} ${padEnd(claim, width)}  ${[first, ...rest.map((line) => indent + line)].join("\n")}\n`;
    })
    .join("");
}

export function markedText(mark: string, style: "red" | "cyan", text: string, page: Page, indent = "  "): string {
  const [first = "", ...rest] = wrap(text, Math.min(page.width, 80) - indent.length - 2);
  return `${indent}${paint(page, style, mark)} ${[first, ...rest.map((line) => `${indent}  ${line}`)].join("\n")}\n`;
}

function placeOf({ stage, iteration }: TimelineRow): string {
  return iteration > 0 && (stage === "impl" || stage === "review") ? `${stage} #${iteration}` : stage;
}
