// Amounts, times and statuses in words, and text from outside with its invisible characters made visible. Pure.
import type { RunStatus } from "@holdfast/core/status";
import type { Action, Amounts, Budget, Comparison, Problem, RunRow } from "./api.ts";

/** How a status looks. `you`: it waits for the user. */
export type Tone = Exclude<RunStatus["kind"], "waiting"> | "you" | "waiting";

export function toneOf(status: RunStatus): Tone {
  return status.kind === "waiting" && status.for === "you" ? "you" : status.kind;
}

export function money(microUsd: number): string {
  const usd = microUsd / 1e6;
  if (usd === 0) return "$0";
  if (usd < 0.001) return "<$0.001";
  return `$${usd.toFixed(usd < 0.1 ? 3 : 2)}`;
}

export function short(count: number): string {
  if (count < 1000) return String(count);
  if (count < 999_500) return `${(count / 1000).toFixed(count < 9950 ? 1 : 0)}k`;
  return `${(count / 1e6).toFixed(count < 9_950_000 ? 1 : 0)}M`;
}

export function bytes(count: number): string {
  if (count < 1000) return `${count} B`;
  if (count < 999_500) return `${(count / 1000).toFixed(count < 9950 ? 1 : 0)} kB`;
  return `${(count / 1e6).toFixed(1)} MB`;
}

export function duration(milliseconds: number): string {
  const ms = Math.max(0, milliseconds);
  if (ms < 950) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 59.5) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} m`;
  return `${Math.round(hours / 24)} d`;
}

/** The time since a moment, in one unit: `3 s`, `12 m`. */
export function age(at: string, now: number): string {
  const seconds = Math.floor(Math.max(0, now - Date.parse(at)) / 1000);
  if (seconds < 1) return "now";
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m`;
  return seconds < 86_400 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86_400)} d`;
}

export function clock(at: string, seconds = false): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return at;
  const two = (part: number): string => String(part).padStart(2, "0");
  const time = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return seconds ? `${time}:${two(date.getSeconds())}` : time;
}

/** The time, with its day unless that is today. */
export function moment(at: string, now: number): string {
  const date = new Date(at);
  if (Number.isNaN(date.getTime()) || date.toDateString() === new Date(now).toDateString()) return clock(at);
  const day = `${date.getFullYear()}-${String(date.getMonth() + 1).padStart(2, "0")}-${String(date.getDate()).padStart(2, "0")}`;
  return `${day} ${clock(at)}`;
}

/** A sentence of the engine with its times as the user's clock shows them. */
export function localTimes(text: string, now: number): string {
  return text.replaceAll(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z/g, (at) => moment(at, now));
}

/** How long a run waits, and whether anything but the user continues it. */
export function untilWord(until: string, continues: RunRow["continues"], now: number): string {
  const over = Date.parse(until) <= now;
  if (continues !== null)
    return over
      ? "its time has come; it continues by itself"
      : `until ${moment(until, now)}, then it continues by itself`;
  return over
    ? "its time has come; nothing continues it: resume it"
    : `until ${moment(until, now)}; nothing continues it then: resume it`;
}

/** `impl #2`, or the stage alone. */
export function stageWord(stage: string, iteration: number): string {
  return iteration > 0 ? `${stage} #${iteration}` : stage;
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** As in the terminal: at most one decimal. */
export function scoreWord(score: number): string {
  return String(Math.round(score * 10) / 10);
}

/** How often a check has failed since it last passed. */
export function failuresOf(trail: readonly boolean[]): number {
  return trail.length - 1 - trail.lastIndexOf(true);
}

/** The results of a check in words. */
export function resultsWord(trail: readonly boolean[]): string {
  const failures = failuresOf(trail);
  if (failures > 1 && failures === trail.length) return `failed ${failures} times, never passed`;
  return trail.map((passed) => (passed ? "passed" : "failed")).join(", ");
}

/** `$0.84`, or tokens where the price is unknown, or an empty text. */
export function amount({ microUsd, tokens }: Amounts): string {
  if (microUsd !== null) return money(microUsd);
  return tokens === null ? "" : `${short(tokens)} tokens`;
}

/** What a run cost, in few words. Calls of unknown cost are named, never left out. */
export function costWord({ spent, limit, unknown }: Budget): string {
  if (unknown.microUsd === 0) return spent.microUsd === 0 && limit.microUsd === null ? "" : amount(spent);
  if (spent.microUsd === null) return spent.tokens === null ? "cost unknown" : `${amount(spent)}, cost unknown`;
  return `${money(spent.microUsd)} + ${unknown.microUsd} unknown`;
}

const CANNOT: Readonly<Record<Action["kind"], string>> = {
  answer: "cannot be answered",
  pause: "cannot be paused",
  abort: "cannot be aborted",
  checkpoint: "cannot be saved",
  remove: "cannot be removed",
  resume: "cannot be resumed",
  raise: "cannot be resumed",
  restore: "cannot be restored",
  fork: "cannot be forked",
  tag: "cannot be tagged",
  untag: "cannot lose its tag",
  choose: "cannot be chosen",
  cherry_pick: "cannot get the files",
};

/** The title of a sheet whose plan was refused. */
export function refusalTitle(action: Action, { code }: Pick<Problem, "code">): string {
  if (code === "NO_SERVER") return "No plan without the server";
  const key = action.kind === "cherry_pick" ? action.into : action.run;
  return `${key.slice(key.indexOf("/") + 1)} ${CANNOT[action.kind]} yet`;
}

/** Whether the same request may succeed by itself later. A refusal that only another action ends is not worth a second try. */
export function mayRetry({ code }: Pick<Problem, "code">): boolean {
  return !["NEEDS_DECISION", "USAGE", "RESTORE_REFUSED", "RUN_NOT_FOUND", "RUN_EXISTS", "NOTHING_TO_RESUME"].includes(
    code,
  );
}

/** A command in two parts: where it works, which is long and always the same, and what it does. */
export function partsOf(command: string): readonly [begin: string, place: string, rest: string] {
  const [, begin = "", place = "", rest = ""] =
    /^(holdfast --cwd )((?:'[^']*'|\\'|[^'\s\\])+(?: --store (?:'[^']*'|\\'|[^'\s\\])+)?)( .*)$/s.exec(command) ?? [];
  return place === "" ? [command, "", ""] : [begin, place, rest];
}

/** Quotes one word for a POSIX shell, only if needed. */
export function quoteWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

export interface Gauge {
  readonly name: string;
  readonly spent: string;
  readonly limit: string | null;
  /** Parts of the limit, from 0 to 1; without a limit null. */
  readonly filled: number | null;
  readonly reserved: number;
}

/** As `holdfast status`: what was not spent and has no limit is left out, and what is unknown is named. */
export function gaugesOf(budget: Budget, now: number): readonly Gauge[] {
  const counted = budget.countsSince === null ? 0 : Math.max(0, now - Date.parse(budget.countsSince));
  const kinds = [
    ["Cost", "microUsd", money, budget.unknown.microUsd, 0],
    ["Tokens", "tokens", short, budget.unknown.tokens, 0],
    ["Time", "milliseconds", duration, 0, counted],
  ] as const;
  return kinds.flatMap(([name, key, word, unknown, more]): readonly Gauge[] => {
    const known = budget.spent[key];
    const spent = known === null ? null : known + more;
    const limit = budget.limit[key];
    if ((spent ?? 0) === 0 && unknown === 0 && limit === null) return [];
    const others = unknown === 0 ? "" : ` and ${plural(unknown, "call")} unknown`;
    const part = (value: number | null): number =>
      limit === null || limit <= 0 ? 0 : Math.min(1, (value ?? 0) / limit);
    const filled = part(spent);
    return [
      {
        name,
        spent: spent === null ? "unknown" : `${word(spent)}${others}`,
        limit: limit === null ? null : word(limit),
        filled: limit === null ? null : filled,
        reserved: Math.min(1 - filled, part(budget.reserved[key])),
      },
    ];
  });
}

export interface Piece {
  readonly text: string;
  /** The text stands for a character that a reader could not see. */
  readonly mark: boolean;
}

/**
 * Control, format (bidirectional, zero-width, tags) and private characters, lone surrogates, and letters without a shape. Line feeds and tabs are
 * text, and so is the joiner within an emoji.
 */
const INVISIBLE =
  /(?![\n\t])(?!(?<=[\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f])\u200d\p{Extended_Pictographic})[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0]/gu;

/** Each mark is an element: a text of thousands would stop the browser. Later ones are a part of the text. */
const MOST_MARKS = 50;

/** Text from outside as pieces, so that what a reader sees is what is there. */
export function reveal(text: string): readonly Piece[] {
  const pieces: Piece[] = [];
  let [end, marks] = [0, 0];
  for (const found of text.matchAll(INVISIBLE)) {
    marks += 1;
    if (marks > MOST_MARKS) {
      const rest = text.slice(end).replaceAll(INVISIBLE, (one) => `[${nameOf(one)}]`);
      return [...pieces, { text: rest, mark: false }];
    }
    if (found.index > end) pieces.push({ text: text.slice(end, found.index), mark: false });
    pieces.push({ text: nameOf(found[0]), mark: true });
    end = found.index + found[0].length;
  }
  if (end < text.length) pieces.push({ text: text.slice(end), mark: false });
  return pieces;
}

function nameOf(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

/** Null unless it is an absolute http or https address without credentials. */
export function webAddress(url: string | null): URL | null {
  if (url === null || !/^https?:\/\//i.test(url)) return null;
  const parsed = URL.canParse(url) ? new URL(url) : null;
  return parsed === null || parsed.username !== "" || parsed.password !== "" ? null : parsed;
}

/** A higher score is a better match; null: the letters of the query do not occur in this order. */
export function matchScore(query: string, text: string): number | null {
  const wanted = query.toLowerCase().replaceAll(/\s+/g, "");
  const given = text.toLowerCase();
  if (wanted === "") return 0;
  const whole = given.indexOf(wanted);
  if (whole >= 0) return 1000 - Math.min(whole, 400) - Math.min(given.length, 400) / 10;
  let score = 0;
  let at = -1;
  for (const letter of wanted) {
    const next = given.indexOf(letter, at + 1);
    if (next < 0) return null;
    const startsWord = next === 0 || /[^a-z0-9]/.test(given.charAt(next - 1));
    score += next === at + 1 ? 8 : startsWord ? 6 : 1;
    at = next;
  }
  return score - given.length / 100;
}

/** The first step in which two compared runs differ. */
export function differenceWord({ kind, a, b }: NonNullable<Comparison["pairs"][number]["diverged"]["first"]>): string {
  if (a === null || b === null) return a === null ? "only the second did more" : "only the first did more";
  if (kind === "result") return `the ${stepName(a.name)} had different results`;
  return `the first finished the ${stepName(a.name)}, the second the ${stepName(b.name)}`;
}

/** The end of a stage is a step of its own. */
function stepName(name: string): string {
  const end = " (stage)";
  return name.endsWith(end) ? `stage "${name.slice(0, -end.length)}"` : `step "${name}"`;
}
