/** Escapes, measures, truncates and wraps text for terminals. */
import type { JsonChange } from "@holdfast/core/diff-json";
import type { Json } from "@holdfast/core/json";
import { type Page, paint } from "./page.ts";
import { exactTime, relativeTime } from "./quantities.ts";

/**
 * Names, reasons and values come from files, issues and models. Unescaped, they could move the cursor, recolour the
 * screen, reverse the reading order or hide themselves.
 */
export function escapeText(text: string): string {
  return text.replace(UNSAFE, escapeOne);
}

/** External text inside one of our lines, such as output of git or a hook: line ends become semicolons. */
export function escapeWords(text: string): string {
  return escapeText(text.trim().replaceAll(/[;,]?\s*\n\s*/g, "; "));
}

/** A file name on its own line, quoted as git quotes it if it has characters that cannot be shown. */
export function quoteName(path: string): string {
  if (path.startsWith('"') || path.search(UNSAFE) === -1) return path;
  const octal = (character: string): string =>
    Array.from(new TextEncoder().encode(character), (byte) => `\\${byte.toString(8).padStart(3, "0")}`).join("");
  return `"${path.replaceAll(/["\\]/g, String.raw`\$&`).replace(UNSAFE, octal)}"`;
}

/** For text with lines, such as a patch: line feeds and tabs are kept, the rest is escaped. */
export function escapeLines(text: string): string {
  return text.replace(UNSAFE_IN_LINES, escapeOne);
}

/**
 * The last filter before a stream. Uses only `\uXXXX`, so that a JSON document keeps its meaning. Escape sequences pass
 * only with `seal`, a number that external text cannot know: these are our own colours and cursor movements. The seal
 * is removed.
 */
export function escapeUnmarked(text: string, seal: string): string {
  const [first = "", ...more] = text.split("\x1b[");
  const own = new RegExp(`^([?0-9;]*);${seal}([A-Za-z])`);
  return more.reduce((done, part) => {
    const sequence = own.exec(part);
    if (sequence === null) return done + escapeUnits(`\x1b[${part}`);
    const [whole, parameters = "", final = ""] = sequence;
    return `${done}\x1b[${parameters}${final}${escapeUnits(part.slice(whole.length))}`;
  }, escapeUnits(first));
}

/** Content for another program: all bytes are kept, only the seals of our own sequences are removed. */
export function removeStyleMarks(text: string, seal: string): string {
  return text.replaceAll(new RegExp(`(\\u001b\\[[?0-9;]*);${seal}([A-Za-z])`, "g"), "$1$2");
}

function escapeUnits(text: string): string {
  return text.replace(UNSAFE_IN_LINES, (character) =>
    // Escapes UTF-16 units, because JSON has no longer escapes.
    Array.from(
      { length: character.length },
      (_, at) => `\\u${character.charCodeAt(at).toString(16).padStart(4, "0")}`,
    ).join(""),
  );
}

// C0, DEL and C1; bidirectional controls; separators; invisible and tag characters; unpaired surrogates.
const CONTROLS =
  "\\u007f-\\u009f\\u00ad\\u061c\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff\\ufff9-\\ufffb\\u{e0000}-\\u{e007f}\\ud800-\\udfff";
const UNSAFE = new RegExp(`[\\u0000-\\u001f${CONTROLS}]`, "gu");
const UNSAFE_IN_LINES = new RegExp(`[\\u0000-\\u0008\\u000b-\\u001f${CONTROLS}]`, "gu");

function escapeOne(character: string): string {
  const short = SHORT[character];
  if (short !== undefined) return short;
  const code = character.codePointAt(0) ?? 0;
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
  if (code < 0x10000) return `\\u${code.toString(16).padStart(4, "0")}`;
  return `\\u{${code.toString(16)}}`;
}

const SHORT: Readonly<Record<string, string>> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** Number of terminal columns of this text. Expects escaped text, because control characters have no defined width. */
export function displayWidth(text: string): number {
  if (PLAIN.test(text)) return text.length;
  let width = 0;
  for (const cluster of clusters(text)) width += clusterWidth(cluster);
  return width;
}

/** Truncates to `width` columns. An ellipsis (or another sign) marks the cut, and no character is cut in half. */
export function truncate(text: string, width: number, sign = "…"): string {
  if (displayWidth(text) <= width) return text;
  const room = width - sign.length;
  if (room < 0) return "";
  let kept = "";
  let used = 0;
  for (const cluster of clusters(text)) {
    const next = used + clusterWidth(cluster);
    if (next > room) break;
    kept += cluster;
    used = next;
  }
  return `${kept}${sign}`;
}

/** As `truncate`, but keeps the end, which distinguishes ids with the same beginning. */
export function truncateMiddle(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  const room = Math.min(ENDING, Math.floor(width / 2));
  let end = "";
  for (const cluster of [...clusters(text)].toReversed()) {
    if (displayWidth(cluster + end) > room) break;
    end = cluster + end;
  }
  return truncate(text, width - displayWidth(end)) + end;
}

/** The eight digits of a loop's name, or the number of a checkpoint with the characters before it. */
const ENDING = 8;

export function padEnd(text: string, width: number): string {
  return text + " ".repeat(Math.max(0, width - displayWidth(text)));
}

export function padStart(text: string, width: number): string {
  return " ".repeat(Math.max(0, width - displayWidth(text))) + text;
}

const PLAIN = /^[ -~]*$/;

/** Created on first use: most text is plain, and compiling these expressions takes longer than Node's own start. */
interface Ruler {
  readonly segmenter: Intl.Segmenter;
  readonly zero: RegExp;
  readonly wide: RegExp;
}
let ruler: Ruler | undefined;

function makeRuler(): Ruler {
  return {
    segmenter: new Intl.Segmenter("en", { granularity: "grapheme" }),
    zero: new RegExp("^[\\p{Mark}\\p{Default_Ignorable_Code_Point}]+$", "u"),
    // East Asian Wide and Fullwidth, as blocks (unassigned code points inside them do not matter), and emoji.
    wide: new RegExp(`^[${WIDE}\\p{Emoji_Presentation}]|\\ufe0f`, "u"),
  };
}

const WIDE =
  "\\u1100-\\u115f\\u2329\\u232a\\u2e80-\\u303e\\u3041-\\ua4cf\\ua960-\\ua97f\\uac00-\\ud7a3\\uf900-\\ufaff\\ufe10-\\ufe19" +
  "\\ufe30-\\ufe6f\\uff00-\\uff60\\uffe0-\\uffe6\\u{16fe0}-\\u{18cff}\\u{1aff0}-\\u{1b2ff}\\u{1f200}-\\u{1f265}\\u{20000}-\\u{3fffd}";

function* clusters(text: string): Iterable<string> {
  ruler ??= makeRuler();
  for (const { segment } of ruler.segmenter.segment(text)) yield segment;
}

function clusterWidth(cluster: string): number {
  ruler ??= makeRuler();
  if (ruler.zero.test(cluster)) return 0;
  return ruler.wide.test(cluster) ? 2 : 1;
}

/** Wraps at blanks. A word wider than the line gets its own line and is not cut, and so does a command in backquotes. */
export function wrap(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  let line = "";
  for (const glued of glueCode(text).split(/\s+/)) {
    const word = glued.replaceAll(GLUE, " ");
    if (line !== "" && displayWidth(line) + 1 + displayWidth(word) > width) {
      lines.push(line);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line];
}

/**
 * Wraps the lines of a message that are wider than a terminal. Each keeps its indent. What is meant to be copied stays
 * whole: text in backquotes, a command, a word. A command at the end of a sentence gets its own line. Readers of a pipe
 * expect whole lines, so nothing is wrapped for them.
 */
export function wrapProse(
  text: string,
  page: Pick<Page, "width" | "terminal" | "program">,
  width: number = page.width,
): string {
  if (!page.terminal) return text;
  return text
    .split("\n")
    .map((line) => wrapLine(line, { width, program: page.program, indent: line.search(/[^ ]|$/) }))
    .join("\n");
}

/** Wraps one line; see `wrapProse`. */
export function wrapLine(
  line: string,
  params: {
    readonly program: string;
    readonly width: number;
    readonly indent: number;
    /** Words that are wider than the line are cut. A command stays whole. */
    readonly cutsWords?: true;
  },
): string {
  const { program, width, indent, cutsWords } = params;
  const isCommand = (part: string): boolean => [program, "git"].some((name) => part.startsWith(`${name} `));
  if (widthOf(line) <= width || isCommand(line.trim())) return line;
  const end = line.lastIndexOf(": ");
  const command = end === -1 ? "" : line.slice(end + 2);
  const wrapped = (text: string): string =>
    wrapStyled(glueCode(text), { width, indent, ...(cutsWords === true ? {} : { keepsWords: true }) }).replaceAll(
      GLUE,
      " ",
    );
  return isCommand(command) ? `${wrapped(line.slice(0, end + 1))}\n${" ".repeat(indent + 2)}${command}` : wrapped(line);
}

/**
 * Makes one word of each command in backquotes, and of a number of bytes with its unit. An unpaired backquote must not glue a
 * whole text.
 */
function glueCode(text: string): string {
  return text
    .replaceAll(/`[^`\n]{0,120}`/g, (code) => code.replaceAll(" ", GLUE))
    .replaceAll(/(\d) (?=[kMGT]?B\b)/g, `$1${GLUE}`);
}

/** Escaped text cannot contain this character. */
const GLUE = "\0";

/**
 * For lines that go directly to a terminal: wraps at blanks, indents from the second line on, and ignores colours. A
 * word wider than the line is cut between grapheme clusters, unless `keepsWords`.
 */
export function wrapStyled(
  text: string,
  params: { readonly width: number; readonly indent: number; readonly keepsWords?: true },
): string {
  const { width, indent, keepsWords = false } = params;
  if (widthOf(text) <= width) return text;
  const lines: string[] = [];
  let line = "";
  let used = 0;
  const flush = (): void => {
    lines.push(line.trimEnd());
    line = " ".repeat(indent);
    used = indent;
  };
  for (const [, blank = "", word = ""] of text.matchAll(/(\s*)(\S+)/g)) {
    const wide = displayWidth(blank) + widthOf(word);
    if (used > indent && used + wide > width) flush();
    else {
      line += blank;
      used += displayWidth(blank);
    }
    for (const part of word.split(STYLE)) {
      let rest = part;
      while (!part.startsWith("\x1b") && used + displayWidth(rest) > width) {
        if (keepsWords) break;
        const head = truncate(rest, width - used, "");
        if (head === "" && used <= indent) break;
        line += head;
        rest = rest.slice(head.length);
        flush();
      }
      line += rest;
      used += widthOf(rest);
    }
  }
  return [...lines, line].join("\n");
}

// eslint-disable-next-line no-control-regex
const STYLE = /(\x1b\[[0-9;]*m)/g;

function widthOf(text: string): number {
  return displayWidth(text.replaceAll(STYLE, ""));
}

/** A label with a text of several lines next to it, as wide as the page but never wider than is readable. */
export function hangingIndent(
  params: { readonly label: string; readonly labelWidth: number; readonly text: string },
  page: Page,
): string {
  const { label, labelWidth, text } = params;
  const lines = wrap(escapeWords(text), Math.max(20, Math.min(page.width, READABLE) - labelWidth - 1));
  return lines.map((line, at) => `${padEnd(at === 0 ? label : "", labelWidth)} ${line}\n`).join("");
}

const READABLE = 100;

/** "whole": the value is wrapped, not truncated. */
type Field = readonly [label: string, value: string | null, how?: "whole"];

/** Labels on the left, values on the right. Fields without a value are omitted. */
export function fieldsText(fields: readonly Field[], page: Page, indent = ""): string {
  const given = fields.flatMap(([label, value, how]) =>
    value === null || value === "" ? [] : [{ label, value, how }],
  );
  const width = Math.max(10, ...given.map(({ label }) => label.length));
  return given
    .map(({ label, value, how }) => {
      const room = page.width - indent.length - width - 2;
      if (how === "whole") {
        const lines = wrap(escapeWords(value), Math.max(20, Math.min(room, READABLE)));
        return lines
          .map((line, at) => `${indent}${paint(page, "dim", padEnd(at === 0 ? label : "", width))}  ${line}\n`)
          .join("");
      }
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

/** One change of a value, with its JSON pointer. Long values are cut. */
export function valueLine(change: JsonChange, page: Page): string {
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
