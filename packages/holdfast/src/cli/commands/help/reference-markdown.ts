import { currentFlags } from "../../command.ts";
import type { Command, CommandSpec, Flags } from "../../command.ts";
import { EXITS } from "../../../core/exit.ts";
import { GLOBAL_FLAGS } from "../../global-flags.ts";
import { PATHS_ABOUT, flagName, usageLine } from "../../help-text.ts";

/** docs/cli.md, whole. A test compares the file with this, so the page cannot lag behind the program. */
export function referenceMarkdown(commands: readonly Command[]): string {
  const shown = commands.map(({ spec }) => spec).filter((spec) => spec.hidden !== true);
  return [
    "# The command line",
    "",
    "<!-- Made by `holdfast help --markdown`; a test checks that it is up to date. -->",
    "",
    INTRODUCTION,
    "",
    "## Commands",
    "",
    ...shown.map((spec) => `- [\`${spec.name}\`](#holdfast-${spec.name}): ${spec.summary}`),
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

const INTRODUCTION = `\`holdfast COMMAND [ARGUMENTS] [FLAGS]\`. Flags may stand anywhere, also before the command.

What a command found or did goes to stdout; notes, questions, progress and errors go to stderr. Colours and cut columns
are for terminals only (\`NO_COLOR\`, \`FORCE_COLOR\` and \`--no-color\` are respected). Control characters in names and
values are printed escaped; into a pipe, content for another program (a patch, an exported document, an agent's log)
keeps them. Whatever changes something has \`--dry-run\`.

An address names a checkpoint: \`RUN@7\`, \`RUN@latest\`, \`RUN@tag\`. \`RUN\` alone is its latest; \`@7\` and \`@tag\`
work where only one run can be meant.`;

const JSON_RULES = `## JSON

With \`--json\` a command prints exactly one JSON document on stdout and no notes (\`--follow\`, \`--watch\`, \`run\` and
\`resume\`: one line for each thing that happens);
\`--help\` too (its flags and examples as data).
When it fails, stdout stays empty and one JSON line stands on stderr:

\`\`\`json
{"error": {"code": "RUN_NOT_FOUND", "message": "...", "hint": "..." , "retry": "never", "data": {}}}
\`\`\`

\`hint\` may be null; \`retry\` is \`never\`, \`later\` or \`ask\`; the codes are listed in errors.md. Damage found by
\`verify\`, a failed check of \`doctor\` and the problems of \`config check\` are results, not failures: the document is on
stdout and the exit status tells. Fields are only ever added.`;

function commandSection(spec: CommandSpec): readonly string[] {
  const operands = spec.operands.map(({ name, about }) => `| \`${name}\` | ${about} |`);
  const paths = spec.paths ? [`| \`-- PATH...\` | ${PATHS_ABOUT} |`] : [];
  const args = [...operands, ...paths];
  return [
    "",
    `## holdfast ${spec.name}`,
    "",
    `\`${usageLine(spec)}\``,
    "",
    `${spec.summary.charAt(0).toUpperCase()}${spec.summary.slice(1)}. ${spec.details.join("\n\n")}`.trim(),
    ...(args.length === 0 ? [] : ["", "| argument | meaning |", "| --- | --- |", ...args]),
    ...(Object.keys(spec.flags).length === 0 ? [] : ["", ...flagTable(spec.flags)]),
    "",
    "```sh",
    ...spec.examples.flatMap(({ line, about }) => [`# ${about}`, line]),
    "```",
    "",
    `JSON: ${spec.json}`,
  ];
}

function flagTable(flags: Flags): readonly string[] {
  const rows = Object.entries(currentFlags(flags)).map(([name, flag]) => {
    const choices =
      flag.type === "text" && flag.choices !== undefined
        ? `; one of ${flag.choices.map((choice) => `\`${choice}\``).join(", ")}`
        : "";
    return `| \`${flagName(name, flag)}\` | ${flag.about}${choices} |`;
  });
  return ["| flag | meaning |", "| --- | --- |", ...rows];
}
