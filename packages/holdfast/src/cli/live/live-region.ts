import { displayWidth } from "../output/display-width.ts";

/**
 * A few lines at the bottom of a terminal that are redrawn in place, with a log that scrolls above them. Each change is
 * one write, lines are overwritten and then cleared to their end, so nothing flickers.
 */
export interface LiveRegion {
  /** Lines that stay, above the region. */
  log(text: string): void;
  draw(lines: readonly string[]): void;
  /** Takes the region away. What follows is ordinary output. */
  close(): void;
}

export function createLiveRegion(params: {
  readonly write: (text: string) => void;
  /** Asked anew at every draw: windows are resized. */
  readonly columns: () => number;
}): LiveRegion {
  let drawn: readonly string[] = [];
  let open = false;
  const render = (above: string, lines: readonly string[]): void => {
    const up = rowsOf(drawn, params.columns());
    const back = up === 0 ? "\r" : `\x1b[${up}A\r`;
    const start = open ? BEGIN + back : BEGIN + HIDE;
    const body = above === "" ? "" : `${above.replace(/\n$/, "").replaceAll("\n", `${CLEAR_LINE}\n`)}${CLEAR_LINE}\n`;
    open = true;
    drawn = lines;
    params.write(`${start}${body}${lines.map((line) => `${line}${CLEAR_LINE}\n`).join("")}${CLEAR_BELOW}${END}`);
  };
  return {
    log: (text) => render(text, drawn),
    draw: (lines) => render("", lines),
    close() {
      if (!open) return;
      render("", []);
      open = false;
      params.write(SHOW);
    },
  };
}

/** Rows that these lines take now: a window that was made narrower has wrapped them. */
function rowsOf(lines: readonly string[], columns: number): number {
  return lines.reduce((sum, line) => sum + Math.max(1, Math.ceil(displayWidth(withoutStyle(line)) / columns)), 0);
}

function withoutStyle(line: string): string {
  // eslint-disable-next-line no-control-regex
  return line.replaceAll(/\x1b\[[0-9;]*m/g, "");
}

const CLEAR_LINE = "\x1b[K";
const CLEAR_BELOW = "\x1b[J";
/** Terminals that know it show the whole frame at once; the others pass over it. */
const BEGIN = "\x1b[?2026h";
const END = "\x1b[?2026l";
const HIDE = "\x1b[?25l";
const SHOW = "\x1b[?25h";
