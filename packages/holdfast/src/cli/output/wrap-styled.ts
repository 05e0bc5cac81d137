import { displayWidth, truncate } from "./display-width.ts";

/**
 * For lines that go straight to a terminal: broken at blanks, indented from the second on, colours not counted. A word that is wider than the
 * line is cut, between characters as a reader sees them.
 */
export function wrapStyled(text: string, params: { readonly width: number; readonly indent: number }): string {
  const { width, indent } = params;
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
