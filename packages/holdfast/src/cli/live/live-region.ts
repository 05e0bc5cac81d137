import { displayWidth } from "../output/display-width.ts";
import { controlSequence } from "../output/page.ts";
import type { Page } from "../output/page.ts";

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
  readonly page: Pick<Page, "seal">;
}): LiveRegion {
  const sequence = (parameters: string, final: string): string => controlSequence(params.page, parameters, final);
  const [clearLine, clearBelow, lineStart] = [sequence("", "K"), sequence("", "J"), sequence("", "G")];
  // Terminals that know it show the whole frame at once; the others ignore it.
  const [begin, end] = [sequence("?2026", "h"), sequence("?2026", "l")];
  const [hide, show] = [sequence("?25", "l"), sequence("?25", "h")];
  let drawn: readonly string[] = [];
  let open = false;
  const render = (above: string, lines: readonly string[]): void => {
    const up = rowsOf(drawn, params.columns());
    const back = up === 0 ? lineStart : sequence(String(up), "A") + lineStart;
    const start = open ? begin + back : begin + hide;
    const body = above === "" ? "" : `${above.replace(/\n$/, "").replaceAll("\n", `${clearLine}\n`)}${clearLine}\n`;
    open = true;
    drawn = lines;
    params.write(`${start}${body}${lines.map((line) => `${line}${clearLine}\n`).join("")}${clearBelow}${end}`);
  };
  return {
    log: (text) => render(text, drawn),
    draw: (lines) => render("", lines),
    close() {
      if (!open) return;
      render("", []);
      open = false;
      params.write(show);
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
