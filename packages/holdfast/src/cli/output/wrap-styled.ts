import { displayWidth } from "./display-width.ts";

/**
 * For lines that go straight to a terminal: broken at blanks, indented from the second on, colours not counted. A word that is wider than the
 * line is cut where it is plain text; other ones stick out.
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
    let rest = word;
    while (PLAIN.test(rest) && used + rest.length > width) {
      const room = width - used;
      if (room <= 0) break;
      line += rest.slice(0, room);
      rest = rest.slice(room);
      flush();
    }
    line += rest;
    used += widthOf(rest);
  }
  return [...lines, line].join("\n");
}

const PLAIN = /^[!-~]+$/;

function widthOf(text: string): number {
  // eslint-disable-next-line no-control-regex
  return displayWidth(text.replaceAll(/\x1b\[[0-9;]*m/g, ""));
}
