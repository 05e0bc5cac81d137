/** Describes where text is shown: width, colours, time zone and character set of a stream. */
import { randomInt } from "node:crypto";

/** What a view may use about the place where its text is shown. Views are pure: they turn data and a page into text. */
export interface Page {
  /** Infinity for a file or a pipe: data is truncated only for terminals. */
  readonly width: number;
  readonly color: boolean;
  /**
   * A random number that marks our own escape sequences, as one more parameter of each. The sink escapes every sequence
   * without it and removes it from the others, so external text cannot style a message. undefined: the text is not
   * written to a sink.
   */
  readonly seal?: string;
  /** Set if only ASCII can be shown. */
  readonly ascii?: true;
  /** Control characters in patches are escaped for a terminal and left unchanged for `git apply`. */
  readonly terminal: boolean;
  /** Milliseconds since the epoch, for "5 min ago". */
  readonly now: number;
  /** Minutes east of UTC, for exact times. */
  readonly offset: (at: number) => number;
  /**
   * The start of a suggested command: "holdfast", with the --store and --cwd that the user typed, so that it can be
   * copied.
   */
  readonly program: string;
}

export type Style = "bold" | "dim" | "red" | "green" | "yellow" | "cyan";

export function paint(page: Pick<Page, "color" | "seal">, style: Style, text: string): string {
  if (!page.color || text === "") return text;
  const [on, off] = STYLES[style];
  return controlSequence(page, on, "m") + text + controlSequence(page, off, "m");
}

/** Builds one of our own escape sequences. */
export function controlSequence(page: Pick<Page, "seal">, parameters: string, final: string): string {
  return `\x1b[${parameters}${page.seal === undefined ? "" : `;${page.seal}`}${final}`;
}

const STYLES: Readonly<Record<Style, readonly [on: string, off: string]>> = {
  bold: ["1", "22"],
  dim: ["2", "22"],
  red: ["31", "39"],
  green: ["32", "39"],
  yellow: ["33", "39"],
  cyan: ["36", "39"],
};

interface ColorChoice {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly terminal: boolean;
  readonly noColorFlag: boolean;
}

/** FORCE_COLOR takes precedence over NO_COLOR, as in Node itself; the flag takes precedence over both. */
export function wantsColor(choice: ColorChoice): boolean {
  if (choice.noColorFlag) return false;
  const force = choice.env["FORCE_COLOR"];
  if (force !== undefined && force !== "") return force !== "0" && force !== "false";
  const no = choice.env["NO_COLOR"];
  if (no !== undefined && no !== "") return false;
  return choice.terminal && choice.env["TERM"] !== "dumb";
}

/**
 * A file can hold any character; a terminal shows what its locale and type allow. Without a locale it is assumed to
 * support Unicode.
 */
export function onlyAscii(choice: Pick<ColorChoice, "env" | "terminal">): boolean {
  const { TERM, LC_ALL, LC_CTYPE, LANG } = choice.env;
  if (choice.terminal && (TERM === "dumb" || TERM === "linux")) return true;
  const locale = [LC_ALL, LC_CTYPE, LANG].find((one) => one !== undefined && one !== "");
  return locale !== undefined && !/utf-?8/i.test(locale);
}

interface WidthChoice {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Columns of the terminal; undefined if there is none. */
  readonly columns: number | undefined;
}

export function pageWidth(choice: WidthChoice): number {
  if (choice.columns !== undefined && choice.columns > 0) return Math.max(MINIMUM, choice.columns);
  const columns = Number(choice.env["COLUMNS"]);
  return Number.isInteger(columns) && columns > 0 ? Math.max(MINIMUM, columns) : Number.POSITIVE_INFINITY;
}

/** Nothing useful fits into fewer columns; lines wrap instead. */
const MINIMUM = 40;

/** The mark of this process. The sinks of its standard streams check it. */
export const STYLE_MARK = String(randomInt(10 ** 11, 10 ** 12));

/** The page of a standard stream. */
export function pageOf(params: {
  readonly stream: { readonly isTTY?: boolean; readonly columns?: number };
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly noColorFlag: boolean;
  readonly program: string;
}): Page {
  const terminal = params.stream.isTTY === true;
  return {
    width: pageWidth({ env: params.env, columns: terminal ? params.stream.columns : undefined }),
    color: wantsColor({ env: params.env, terminal, noColorFlag: params.noColorFlag }),
    ...(onlyAscii({ env: params.env, terminal }) ? { ascii: true as const } : {}),
    seal: STYLE_MARK,
    terminal,
    now: Date.now(),
    offset: (at) => -new Date(at).getTimezoneOffset(),
    program: params.program,
  };
}
