import type { HoldfastDiff } from "../../../app.ts";
import type { Json } from "../../../core/json.ts";
import { truncate } from "../../output/display-width.ts";
import { escapeLines, escapeText, quoteName } from "../../output/escape-text.ts";
import { paint } from "../../output/page.ts";
import type { Page, Style } from "../../output/page.ts";

/** State first, then files: `git apply` skips what stands before a patch, not what follows it. */
export function diffText(diff: HoldfastDiff, format: "patch" | "stat" | "names", page: Page): string {
  const values = format === "names" ? "" : diff.values.map((change) => valueLine(change, page)).join("");
  const files = format === "names" ? namesOf(diff) : (diff.files?.text ?? "");
  const body = files === "" || files.endsWith("\n") ? files : `${files}\n`;
  const gap = values !== "" && body !== "" ? "\n" : "";
  return values + gap + (format === "patch" ? patchText(body, page) : escapeForEyes(body, page));
}

function namesOf(diff: HoldfastDiff): string {
  return (diff.files?.files ?? []).map(({ path }) => `${quoteName(path)}\n`).join("");
}

/** A pipe gets the patch byte for byte; a terminal gets our own colours and nothing of the files' own. */
function patchText(patch: string, page: Page): string {
  const safe = escapeForEyes(patch, page);
  if (!page.color) return safe;
  return safe
    .split("\n")
    .map((line) => {
      const style = styleOf(line);
      return style === undefined ? line : paint(page, style, line);
    })
    .join("\n");
}

function escapeForEyes(text: string, page: Page): string {
  return page.terminal ? escapeLines(text) : text;
}

function styleOf(line: string): Style | undefined {
  if (/^(diff |index |--- |\+\+\+ |new file|deleted file|old mode|new mode|similarity|rename)/.test(line))
    return "bold";
  if (line.startsWith("@@")) return "cyan";
  if (line.startsWith("+")) return "green";
  return line.startsWith("-") ? "red" : undefined;
}

function valueLine(change: HoldfastDiff["values"][number], page: Page): string {
  const path = escapeText(change.path);
  const room = Math.max(10, Math.floor((page.width - path.length - 14) / 2));
  const from = sideText(change.from, room);
  const to = sideText(change.to, room);
  if (change.from === undefined) return `state ${path} ${paint(page, "green", `added ${to}`)}\n`;
  if (change.to === undefined) return `state ${path} ${paint(page, "red", `removed ${from}`)}\n`;
  return `state ${path} ${paint(page, "red", from)} → ${paint(page, "green", to)}\n`;
}

function sideText(value: Json | undefined, room: number): string {
  return value === undefined ? "" : truncate(escapeText(JSON.stringify(value)), room);
}
