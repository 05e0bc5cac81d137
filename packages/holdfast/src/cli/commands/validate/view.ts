import type { Validated } from "../../../app.ts";
import { countText } from "../../output/count-text.ts";
import { escapeText } from "../../output/escape-text.ts";
import { paint } from "../../output/page.ts";
import type { Page } from "../../output/page.ts";

export function validateText(rows: readonly Validated[], page: Page): string {
  return rows.map((row) => rowText(row, page)).join("");
}

function rowText(row: Validated, page: Page): string {
  const file = escapeText(row.file);
  if (!row.ok)
    return `${paint(page, "red", "invalid")}  ${file}\n    ${row.code ?? ""}: ${escapeText(row.message ?? "")}\n`;
  const notes = row.remarks.map(({ path, text }) => `    ${escapeText(path)} ${escapeText(text)}\n`).join("");
  const count = row.checkpoints === 1 ? "" : `, ${countText(row.checkpoints, "checkpoint")}`;
  return `${paint(page, "green", "valid")}    ${file}  ${row.format ?? ""}${count}\n${notes}`;
}
