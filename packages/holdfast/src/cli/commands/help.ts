/** The `help` command, and the help texts and the CLI reference that are generated from the command specs. */
import { nearest } from "@holdfast/core/options";
import { type HoldfastError, usageError } from "@holdfast/platform/error";
import {
  type Command,
  type CommandSpec,
  type Flag,
  type Flags,
  GLOBAL_FLAGS,
  type Input,
  SUBCOMMANDS,
  type Shell,
  currentFlags,
} from "../command.ts";
import { EXITS, type Exit } from "../exit.ts";
import type { Page } from "../output/page.ts";
import { wrap } from "../output/text.ts";

export const spec = {
  name: "help",
  summary: "explain a command, its flags and its output",
  details: [],
  operands: [
    { name: "COMMAND", about: "the command to explain", required: false, completes: "command" },
    {
      name: "SUBCOMMAND",
      about: "its subcommand",
      required: false,
      completes: "nothing",
      choices: [...SUBCOMMANDS.format, ...SUBCOMMANDS.store],
    },
  ],
  consent: "reads",
  flags: {
    markdown: { type: "boolean", about: "print the whole reference as Markdown" },
  },
  examples: [
    { line: "holdfast help", about: "list the commands" },
    { line: "holdfast help restore", about: "explain one command" },
    { line: "holdfast help format import", about: "explain a subcommand" },
  ],
  json: '{"commands": [{"name", "summary", "operands", "flags", "examples", "json", "schema": the JSON Schema of its --json output, if COMMAND is given}]}.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const commands = await shell.commands();
  const name = input.operands.join(" ");
  const found = commands.find((one) => one.spec.name === name)?.spec;
  if (name !== "" && found === undefined) throw unknownCommand(name, commands);
  const document = shell.json ? await helpDocument(commands, found) : null;
  shell.print({
    json: () => document,
    text: (page) =>
      input.on("markdown")
        ? referenceMarkdown(commands)
        : found === undefined
          ? overviewText(commands, helpWidth(page))
          : commandText(found, helpWidth(page)),
  });
  return "done";
}

/** Old names and names of other tools get a suggestion: each command has one name. */
export function unknownCommand(name: string, commands: readonly Command[]): HoldfastError {
  const shown = commands.filter(({ spec }) => spec.hidden !== true).map(({ spec }) => spec.name);
  const renamed = new Map(Object.entries(OTHER_NAMES));
  const [guess] = renamed.has(name) ? [name] : nearest(name, [...shown, ...renamed.keys()]);
  const meant = guess === undefined ? undefined : (renamed.get(guess) ?? guess);
  return usageError(
    `There is no command "${name}"`,
    meant === undefined ? "See `holdfast help`." : `Did you mean \`holdfast ${meant}\`?`,
  );
}

const OTHER_NAMES = {
  // Names of version 0.1.
  pause: "stop --after-step",
  abort: "stop --now",
  init: "setup --defaults",
  loops: "status",
  log: "events",
  logs: "output",
  graft: "cherry-pick",
  import: "format import",
  export: "format export",
  convert: "format convert",
  validate: "format validate",
  mirror: "format mirror",
  schema: "format schema",
  // Names of other tools.
  ls: "list",
  runs: "list",
  continue: "resume",
  kill: "stop",
  cancel: "stop --now",
  suspend: "stop --after-step",
  start: "run",
  impl: "run",
  answer: "approve",
  decide: "approve",
  ps: "status",
  history: "events",
  journal: "events",
  save: "checkpoint",
  snapshot: "checkpoint",
  commit: "checkpoint",
  rewind: "restore",
  rollback: "restore",
  checkout: "restore",
  branch: "fork",
  fsck: "verify",
  prune: "gc",
  clean: "gc",
  settings: "config",
  delete: "rm",
  remove: "rm",
};

const HELP_WIDTH = 80;

/** At most 80 columns, because longer lines are hard to read on any page. */
export function helpWidth(page: Pick<Page, "width">): number {
  return Math.min(HELP_WIDTH, page.width);
}

/**
 * `holdfast --help`. Plain text, because the build stores it in a file that the entry point prints without loading
 * code.
 */
export function overviewText(commands: readonly Command[], width = HELP_WIDTH): string {
  const shown = commands.filter(({ spec }) => spec.hidden !== true && !spec.name.includes(" "));
  const groups = [...new Set(shown.map(({ group }) => group))];
  const term = Math.max(...shown.map(({ spec }) => spec.name.length));
  return [
    "holdfast: crash-safe orchestration for coding agents.",
    ...wrap("Turns an issue into a pull request and survives crashes, rate limits and failed reviews.", width),
    "",
    "Usage: holdfast COMMAND [ARGUMENTS] [FLAGS]",
    ...groups.flatMap((group) => [
      "",
      group,
      ...definitionLines(
        shown.filter((one) => one.group === group).map(({ spec }) => [spec.name.padEnd(term), spec.summary]),
        width,
      ),
    ]),
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
  ["holdfast demo", "see it survive three kills"],
  ["holdfast run 42 --dry-run", "what a run would do"],
  ['holdfast checkpoint --name "before the refactor"', "save files and state"],
  ["holdfast diff", "what changed since"],
  ["holdfast restore RUN@1 --dry-run", "what a restore would change"],
] as const;

/** `holdfast help CMD`: generated from the spec that the parser uses, so it is always current. */
export function commandText(spec: CommandSpec, width = HELP_WIDTH): string {
  const lines = [`holdfast ${spec.name}: ${spec.summary}`, "", `Usage: ${usageLine(spec)}`];
  for (const paragraph of spec.details) lines.push("", ...wrap(paragraph, width));
  if (spec.operands.length > 0 || spec.paths === true) lines.push("", "Arguments", ...operandLines(spec, width));
  for (const [heading, flags] of flagGroups(spec)) lines.push("", heading, ...flagLines(flags, width));
  lines.push("", "Flags for every command", ...flagLines(GLOBAL_FLAGS, width));
  lines.push("", "Examples");
  for (const example of spec.examples)
    lines.push(`  ${example.line}`, ...wrap(example.about, width - 6).map((line) => `      ${line}`));
  lines.push("", "With --json", ...wrap(spec.json, width - 2).map((line) => `  ${line}`), "");
  return lines.join("\n");
}

/** The help as data: all documented commands, or one with the JSON Schema of its `--json` output. */
export async function helpDocument(commands: readonly Command[], spec?: CommandSpec): Promise<unknown> {
  if (spec === undefined)
    return { commands: commands.map((command) => command.spec).filter((known) => known.hidden !== true) };
  const { jsonSchemaOf } = await import("../json-schemas.ts");
  return { commands: [{ ...spec, schema: jsonSchemaOf(spec.name) }] };
}

function usageLine(spec: CommandSpec): string {
  const operands = spec.operands.map(({ name, required, many }) => {
    const shown = many === true ? `${name}...` : name;
    return required ? shown : `[${shown}]`;
  });
  const flags = Object.keys(spec.flags).length > 0 ? ["[FLAGS]"] : [];
  const paths = spec.paths === true ? ["[-- PATH...]"] : [];
  return ["holdfast", spec.name, ...operands, ...flags, ...paths].join(" ");
}

/** The flags of a command by heading. */
function flagGroups(spec: CommandSpec): readonly (readonly [heading: string, flags: Flags])[] {
  if (Object.keys(spec.flags).length === 0) return [];
  if (spec.flagGroups === undefined) return [["Flags", spec.flags]];
  return Object.entries(spec.flagGroups).map(([heading, names]) => [
    heading,
    Object.fromEntries(names.flatMap((name) => (spec.flags[name] === undefined ? [] : [[name, spec.flags[name]]]))),
  ]);
}

function flagName(name: string, flag: Flag): string {
  const short = flag.short === undefined ? "" : `-${flag.short}, `;
  return `${short}--${name}${flag.type === "text" ? ` ${flag.value}` : ""}`;
}

const PATHS_ABOUT = "only these files and directories, relative to the current directory";

function flagLines(flags: Flags, width: number): readonly string[] {
  return definitionLines(
    Object.entries(currentFlags(flags)).map(([name, flag]) => [flagName(name, flag), flagAbout(flag)]),
    width,
  );
}

function flagAbout(flag: Flag): string {
  const choices = flag.type === "text" ? flag.choices : undefined;
  const named = choices?.every((choice) => new RegExp(`\\b${choice}\\b`).test(flag.about)) ?? true;
  return named ? flag.about : `${flag.about}: ${(choices ?? []).join(", ")}`;
}

function operandLines(spec: CommandSpec, width: number): readonly string[] {
  const rows = spec.operands.map(({ name, about }): readonly [string, string] => [name, about]);
  return definitionLines(spec.paths === true ? [...rows, ["-- PATH...", PATHS_ABOUT]] : rows, width);
}

/** Terms on the left, wrapped explanations on the right. On a narrow page the explanations are below the terms. */
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

/** The whole of docs/cli.md. A test compares the file with this text, so the page is always current. */
export function referenceMarkdown(commands: readonly Command[]): string {
  const listed = commands.filter(({ spec }) => spec.hidden !== true);
  const shown = listed.map(({ spec }) => spec);
  return [
    "# The command line",
    "",
    "<!-- Generated by `holdfast help --markdown`; a test checks that it is current. -->",
    "",
    INTRODUCTION,
    "",
    "## Commands",
    "",
    "| group | commands |",
    "| --- | --- |",
    ...[...Map.groupBy(listed, ({ group }) => group)].map(
      ([group, members]) => `| ${group} | ${members.map(({ spec }) => linkTo(spec)).join(", ")} |`,
    ),
    "",
    "## Flags for every command",
    "",
    ...flagTable(GLOBAL_FLAGS),
    "",
    "## Exit status",
    "",
    "| status | meaning |",
    "| --- | --- |",
    ...Object.values(EXITS).map(({ status, about }) => `| ${status} | ${about} |`),
    "",
    JSON_RULES,
    ...shown.flatMap(commandSection),
    "",
  ].join("\n");
}

function linkTo({ name }: CommandSpec): string {
  return `[\`${name}\`](#holdfast-${name.replaceAll(" ", "-")})`;
}

const INTRODUCTION = `\`holdfast COMMAND [ARGUMENTS] [FLAGS]\`. Flags may be anywhere, also before the command.

Results go to stdout; notes, questions, progress and errors go to stderr. Only a terminal gets colours and shortened
columns (\`NO_COLOR\`, \`FORCE_COLOR\` and \`--no-color\` apply). Control characters in names and values are printed
escaped. In a pipe, content for another program (a patch, an exported document, an agent's output) keeps them.

\`RUN\` is a run id, a unique prefix of it, or an issue number. An ambiguous prefix is an error that lists the
candidates. An address names a checkpoint: \`RUN@7\`, \`RUN@latest\`, \`RUN@tag\`. \`RUN\` alone is its latest; \`@7\` and
\`@tag\` work if there is only one run, or in a run's worktree.`;

const JSON_RULES = `## JSON

With \`--json\` a command prints exactly one JSON document on stdout and no notes. \`run\`, \`resume\`, \`--follow\` and
\`--watch\` print one line for each event; every line has \`kind\`. A run object has the same fields in every command.
\`holdfast help COMMAND --json\` prints flags, examples and the JSON Schema of a command's output.
When a command fails, stdout stays empty and one JSON line is on stderr:

\`\`\`json
{"error": {"code": "RUN_NOT_FOUND", "message": "...", "hint": "..." , "retry": "never", "data": {}}}
\`\`\`

\`hint\` may be null; \`retry\` is \`never\`, \`later\` or \`ask\`; the codes are listed in errors.md. Damage found by
\`verify\`, a failed check of \`doctor\` and the problems of \`config check\` are results, not errors: the document is on
stdout, and the exit status is not 0.

While \`holdfast ui\` runs, \`run\`, \`resume\`, \`status\`, \`compare\` and errors about a run that needs you or is held name
the address of its page. In JSON it is \`page\`.`;

function commandSection(spec: CommandSpec): readonly string[] {
  const operands = spec.operands.map(({ name, about }) => `| \`${name}\` | ${about} |`);
  const paths = spec.paths === true ? [`| \`-- PATH...\` | ${PATHS_ABOUT} |`] : [];
  const args = [...operands, ...paths];
  return [
    "",
    `## holdfast ${spec.name}`,
    "",
    `\`${usageLine(spec)}\``,
    "",
    `${spec.summary.charAt(0).toUpperCase()}${spec.summary.slice(1)}. ${spec.details.join("\n\n")}`.trim(),
    ...(args.length === 0 ? [] : ["", "| argument | meaning |", "| --- | --- |", ...args]),
    ...flagGroups(spec).flatMap(([heading, flags]) => ["", ...flagTable(flags, heading.toLowerCase())]),
    "",
    "```sh",
    ...spec.examples.flatMap(({ line, about }) => [`# ${about}`, line]),
    "```",
    "",
    `JSON: ${spec.json}`,
  ];
}

function flagTable(flags: Flags, heading = "flag"): readonly string[] {
  const rows = Object.entries(currentFlags(flags)).map(([name, flag]) => {
    const choices =
      flag.type === "text" && flag.choices !== undefined
        ? `; one of ${flag.choices.map((choice) => `\`${choice}\``).join(", ")}`
        : "";
    return `| \`${flagName(name, flag)}\` | ${flag.about}${choices} |`;
  });
  return [`| ${heading} | meaning |`, "| --- | --- |", ...rows];
}
