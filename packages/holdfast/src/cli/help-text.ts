import { currentFlags } from "./command.ts";
import type { Command, CommandSpec, Flag, Flags } from "./command.ts";
import { GLOBAL_FLAGS } from "./global-flags.ts";
import type { Page } from "./output/page.ts";
import { wrap } from "./output/wrap.ts";

const HELP_WIDTH = 80;

/** Lines of more than 80 columns are hard to read, however wide the page. */
export function helpWidth(page: Pick<Page, "width">): number {
  return Math.min(HELP_WIDTH, page.width);
}

/** `holdfast --help`. Plain text on purpose: the build bakes it into a file that the entry prints without loading code. */
export function overviewText(commands: readonly Command[], width = HELP_WIDTH): string {
  const shown = commands.filter(({ spec }) => spec.hidden !== true);
  return [
    "holdfast: carries an issue to a pull request, whatever dies on the way.",
    "Nothing is lost, nothing is done twice.",
    "",
    "Usage: holdfast COMMAND [ARGUMENTS] [FLAGS]",
    "",
    "Commands",
    ...definitionLines(
      shown.map(({ spec }) => [spec.name, spec.summary]),
      width,
    ),
    "",
    "Flags for every command",
    ...flagLines(GLOBAL_FLAGS, width),
    "",
    ...wrap("An ADDRESS names a checkpoint: RUN@7, RUN@latest, RUN@tag; RUN is its latest.", width),
    "",
    "Start here",
    ...(width < HELP_WIDTH
      ? START.flatMap(([line, about]) => [`  ${line}`, `      ${about}`])
      : START.map(([line, about]) => `  ${line.padEnd(49)}  ${about}`)),
    "",
    "holdfast help COMMAND explains one command.",
    "",
  ].join("\n");
}

const START = [
  ["holdfast demo", "see it killed three times"],
  ["holdfast run 42 --dry-run", "what a run would do"],
  ['holdfast checkpoint --name "before the refactor"', "save files and state"],
  ["holdfast diff", "what changed since"],
  ["holdfast restore RUN@1 --dry-run", "what going back would do"],
] as const;

/** `holdfast help CMD`: made from the table that the parser uses, so it cannot lag behind. */
export function commandText(spec: CommandSpec, width = HELP_WIDTH): string {
  const lines = [`holdfast ${spec.name}: ${spec.summary}`, "", `Usage: ${usageLine(spec)}`];
  for (const paragraph of spec.details) lines.push("", ...wrap(paragraph, width));
  if (spec.operands.length > 0 || spec.paths) lines.push("", "Arguments", ...operandLines(spec, width));
  if (Object.keys(spec.flags).length > 0) lines.push("", "Flags", ...flagLines(spec.flags, width));
  lines.push("", "Flags for every command", ...flagLines(GLOBAL_FLAGS, width));
  lines.push("", "Examples");
  for (const example of spec.examples)
    lines.push(`  ${example.line}`, ...wrap(example.about, width - 6).map((line) => `      ${line}`));
  lines.push("", "With --json", ...wrap(spec.json, width - 2).map((line) => `  ${line}`), "");
  return lines.join("\n");
}

/** The same as data: one command, or all that are for people. */
export function helpDocument(commands: readonly Command[], spec?: CommandSpec): unknown {
  const shown = commands.map((command) => command.spec).filter((known) => known.hidden !== true);
  return { commands: spec === undefined ? shown : [spec] };
}

export function usageLine(spec: CommandSpec): string {
  const operands = spec.operands.map(({ name, required, many }) => {
    const shown = many === true ? `${name}...` : name;
    return required ? shown : `[${shown}]`;
  });
  const flags = Object.keys(spec.flags).length > 0 ? ["[FLAGS]"] : [];
  const paths = spec.paths ? ["[-- PATH...]"] : [];
  return ["holdfast", spec.name, ...operands, ...flags, ...paths].join(" ");
}

export function flagName(name: string, flag: Flag): string {
  const short = flag.short === undefined ? "" : `-${flag.short}, `;
  return `${short}--${name}${flag.type === "text" ? ` ${flag.value}` : ""}`;
}

export const PATHS_ABOUT = "only these files and directories, from where you stand";

function flagLines(flags: Flags, width: number): readonly string[] {
  return definitionLines(
    Object.entries(currentFlags(flags)).map(([name, flag]) => [flagName(name, flag), flagAbout(flag)]),
    width,
  );
}

function flagAbout(flag: Flag): string {
  const choices = flag.type === "text" ? flag.choices : undefined;
  const told = choices?.every((choice) => new RegExp(`\\b${choice}\\b`).test(flag.about)) ?? true;
  return told ? flag.about : `${flag.about}: ${(choices ?? []).join(", ")}`;
}

function operandLines(spec: CommandSpec, width: number): readonly string[] {
  const rows = spec.operands.map(({ name, about }): readonly [string, string] => [name, about]);
  return definitionLines(spec.paths ? [...rows, ["-- PATH...", PATHS_ABOUT]] : rows, width);
}

/** Terms on the left, explanations wrapped on the right; on a narrow page the explanations stand under the terms. */
function definitionLines(rows: readonly (readonly [string, string])[], width: number): readonly string[] {
  const left = width < NARROW ? 2 : Math.min(22, Math.max(...rows.map(([term]) => term.length)));
  return rows.flatMap(([term, about]) => {
    const [first = "", ...more] = wrap(about, width - left - 4);
    const rest = more.map((line) => " ".repeat(left + 4) + line);
    return term.length > left
      ? [`  ${term}`, " ".repeat(left + 4) + first, ...rest]
      : [`  ${term.padEnd(left)}  ${first}`, ...rest];
  });
}

const NARROW = 60;
