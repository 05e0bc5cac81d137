/** Texts about settings and files that need the user's consent. */
import { isAbsolute, relative } from "node:path";
import { stringify } from "yaml";
import { startsUnknown } from "../config/agent-files.ts";
import { type ConsentItem, agentsNamedBy } from "../config/consent.ts";
import { type Page, paint } from "./output/page.ts";
import { escapeLines, escapeText, wrapStyled } from "./output/text.ts";

interface ShownItems {
  readonly items: readonly ConsentItem[];
  readonly root: string;
  /** Of a long value or file. */
  readonly lines?: "first" | "all";
  /** The run that some of the items belong to: `holdfast trust` shows these only with it. */
  readonly run?: string | undefined;
}

/** Such as "2 settings and 1 file". */
export function countItems(items: readonly ConsentItem[]): string {
  const files = items.filter(({ value }) => value === null).length;
  return [counted(items.length - files, "setting"), counted(files, "file")]
    .flatMap((count) => count ?? [])
    .join(" and ");
}

function counted(count: number, noun: string): string | null {
  return count === 0 ? null : `${count} ${noun}${count === 1 ? "" : "s"}`;
}

/** Every item with its value, file and reason, followed by the text of its files. */
export function consentText(shown: ShownItems, page: Page): string {
  return `${paint(page, "bold", "These settings and files need your consent:")}\n${blocksText(shown, page)}`;
}

export function blocksText({ items, root, lines = "first", run }: ShownItems, page: Page): string {
  const trust = `${page.program} trust${run === undefined ? "" : ` ${run}`} --show`;
  const most = lines === "all" ? Infinity : SHOWN_LINES;
  const blocks = items.map((item) => {
    const note = noteOf(item);
    const value = longText(item);
    const head = `${lineText(item, root)}: ${DANGER_TEXT[item.danger]}${note === null ? "" : `; ${note}`}`;
    const texts = [
      ...(value === null ? [] : clipLines(value, most, trust)),
      ...item.files.flatMap((file) => [
        ...(item.files.length === 1 ? [] : [`${escapeText(file.name)}:`]),
        ...clipLines(file.text, most, trust),
      ]),
    ];
    const shown = texts.flatMap((line) => wrapBlock(line, page, "    | ", 2));
    return [...wrapBlock(escapeText(head), page, "  ", 4), ...shown].map((line) => `${line}\n`).join("");
  });
  return blocks.join("");
}

/**
 * Wraps a line from a file that may be hostile. Each part keeps the margin, so that no part of it looks like a line of
 * Holdfast.
 */
function wrapBlock(line: string, page: Page, margin: string, hanging: number): readonly string[] {
  if (!page.terminal) return [margin + line];
  const indent = Math.min(line.search(/\S|$/), page.width / 2) + hanging;
  return wrapStyled(line, { width: page.width - margin.length, indent })
    .split("\n")
    .map((part) => margin + part);
}

/** A long value with members as YAML, without those that are not set; null: it fits on one line. */
function longText({ value }: ConsentItem): string | null {
  if (typeof value !== "object" || value === null || JSON.stringify(value).length <= ONE_LINE) return null;
  return stringify(value, (_key, member: unknown) => (member === null ? undefined : member), { lineWidth: 0 });
}

const ONE_LINE = 60;

export const QUESTION = "Accept these settings and files? The answer is remembered until one of them changes.";

export const DANGER_TEXT: Readonly<Record<ConsentItem["danger"], string>> = {
  executes: "runs a command or a program",
  loads: "is loaded by your agent and can start programs",
  rights: "gives an agent more rights",
  prompt: "changes what agents are asked to do",
  captures: "saves more files than the default",
  outside: "names a place to write to",
  sends: "names a server that gets your login",
  sends_files: "names a server that gets the files of every checkpoint",
  spends: "changes what a cost limit counts",
};

/** An additional warning for a setting that names an agent. */
function noteOf(item: ConsentItem): string | null {
  return agentsNamedBy([item]).some(startsUnknown) ? "what this starts cannot be checked for changes" : null;
}

export function itemDocument(item: ConsentItem): unknown {
  const { key, value, danger, file, line, digest } = item;
  const note = noteOf(item);
  return { key, value, danger, file, line, digest, ...(note === null ? {} : { note }) };
}

/** An item on one line, with its value unless that is long. */
export function lineText(item: ConsentItem, root: string): string {
  // A file of a worktree differs from the checkout's file, so its path is shown.
  if (item.value === null) return relative(root, item.file).startsWith("..") ? `${item.key} (${item.file})` : item.key;
  const value = typeof item.value === "string" ? item.value : JSON.stringify(item.value);
  const named = longText(item) === null ? `${item.key}: ${value}` : item.key;
  // An imported document has no file in the repository.
  return isImported(item) ? named : `${named} (${placeText(item, root)})`;
}

export function isImported({ file }: ConsentItem): boolean {
  return !isAbsolute(file);
}

export function placeText({ file, line }: ConsentItem, root: string): string {
  return `${relative(root, file) || file}:${line}`;
}

function clipLines(text: string, most: number, trust: string): readonly string[] {
  const lines = escapeLines(text).trimEnd().split("\n");
  if (lines.length <= most) return lines;
  const hidden = lines.length - most;
  return [...lines.slice(0, most), `… ${hidden} more lines are not shown; to see all: ${trust}`];
}

const SHOWN_LINES = 60;
