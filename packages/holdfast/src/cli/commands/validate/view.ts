import type { Validated } from "../../../app.ts";
import { countText } from "../../output/count-text.ts";
import { escapeText } from "../../output/escape-text.ts";
import { paint } from "../../output/page.ts";
import type { Page } from "../../output/page.ts";
import { wrap } from "../../output/wrap.ts";

export function validateText(rows: readonly Validated[], page: Page): string {
  return rows.map((row) => rowText(row, page)).join("");
}

function rowText(row: Validated, page: Page): string {
  const file = escapeText(row.file);
  if (!row.ok)
    return `${paint(page, "red", "invalid")}  ${file}\n${told(`${row.code ?? ""}: ${row.message ?? ""}`, page)}`;
  const notes = row.remarks.map(({ path, text }) => told(`${path} ${text}`, page)).join("");
  const count = row.checkpoints === 1 ? "" : `, ${countText(row.checkpoints, "checkpoint")}`;
  return `${paint(page, "green", "valid")}    ${file}  ${row.format ?? ""}${count}\n${notes}`;
}

function told(text: string, page: Page): string {
  return wrap(escapeText(text.trim()), Math.min(page.width, 100) - 6)
    .map((line, at) => `    ${at === 0 ? "" : "  "}${line}\n`)
    .join("");
}
