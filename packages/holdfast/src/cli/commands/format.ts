/**
 * The commands `format convert`, `format validate`, `format schema` and `format mirror`, and `format` itself, which
 * names its subcommands. `format import` and `format export` have files of their own.
 */
import { isEnded } from "@holdfast/core/run";
import { FORMAT_NAMES, SCHEMA_NAMES } from "@holdfast/formats/format-names";
import { usageError } from "@holdfast/platform/error";
import type { LayoutMirror, MirrorReport } from "@holdfast/workflows/plugin";
import type { Validated } from "../../interop/read-files.ts";
import { type CommandSpec, type Input, SUBCOMMANDS, type Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { findRun } from "../operands.ts";
import { type Page, paint } from "../output/page.ts";
import { countText } from "../output/quantities.ts";
import { escapeText, wrap } from "../output/text.ts";
import { OUTPUT_FLAGS, missingFormatError, unsupportedFieldsText, writeExported } from "./format-export.ts";

export const spec = {
  name: "format",
  summary: "read and write the checkpoint files of other tools",
  details: ["`holdfast help format SUBCOMMAND` explains one of them."],
  operands: [
    {
      name: "SUBCOMMAND",
      about: SUBCOMMANDS.format.join(", "),
      required: true,
      completes: "nothing",
      choices: SUBCOMMANDS.format,
    },
  ],
  consent: "reads",
  flags: {},
  examples: [
    { line: "holdfast format import .tmp/impl-checkpoint.json", about: "continue a run of another tool" },
    { line: "holdfast format export issue-42 --to impl-json", about: "hand a run over to another tool" },
    { line: "holdfast help format mirror", about: "explain one subcommand" },
  ],
  json: "Each subcommand has its own document.",
} as const satisfies CommandSpec;

/** Reached only by `holdfast format -- SUBCOMMAND`: otherwise the name of the command includes the subcommand. */
export async function run(_shell: Shell, input: Input): Promise<Exit> {
  throw usageError("A subcommand cannot follow --", `Run \`holdfast format ${input.operand(0) ?? "SUBCOMMAND"}\`.`);
}

const convertSpec = {
  name: "format convert",
  summary: "convert another tool's checkpoint file",
  details: [
    "Needs no store. Fields that the target format cannot represent are listed on stderr. Several checkpoints need a directory as output, with one file each, unless one document of the target format can hold them (context-store).",
  ],
  operands: [{ name: "FILE", about: "a checkpoint file, or a directory of them", required: true, completes: "file" }],
  consent: "reads",
  flags: {
    to: { type: "text", value: "FORMAT", about: "the target format", choices: FORMAT_NAMES },
    format: {
      type: "text",
      value: "NAME",
      about: "the source format, if it cannot be detected",
      choices: FORMAT_NAMES,
    },
    ...OUTPUT_FLAGS,
  },
  examples: [
    { line: "holdfast format convert CP-1.yaml --to impl-json", about: "print it in another format" },
    { line: "holdfast format convert CP-1.yaml --to loop-json --dry-run", about: "show which fields would be lost" },
    {
      line: "holdfast format convert .claude/crunch/42/checkpoints --to loop-json -o loops/",
      about: "convert a directory",
    },
  ],
  reads: true,
  json: '{"from", "to", "path": "suggested place", "written": [paths], "removed": [paths], "losses": [{"path", "why"}], "remarks": [...], "document": "text"}; "document" is null when it was written to --output.',
} as const satisfies CommandSpec;

export const convert = { spec: convertSpec, run: runConvert };

async function runConvert(shell: Shell, input: Input<(typeof convertSpec)["flags"]>): Promise<Exit> {
  const to = FORMAT_NAMES.find((name) => name === input.text("to"));
  if (to === undefined) throw missingFormatError(FORMAT_NAMES);
  const format = FORMAT_NAMES.find((name) => name === input.text("format"));
  const { convertFile } = await import("../../interop/read-files.ts");
  const converted = convertFile({
    path: input.operand(0) ?? "",
    cwd: shell.cwd,
    to,
    ...(format === undefined ? {} : { format }),
  });
  return await writeExported(shell, converted, { output: input.text("output"), dryRun: input.on("dry-run") });
}

const validateSpec = {
  name: "format validate",
  summary: "check another tool's checkpoint files",
  details: [
    "Exit status 0 if all files are valid, otherwise 6. Needs no store. In a directory, it checks every file whose format it detects; in a repository or its .aiwg directory, the files of every loop.",
  ],
  operands: [
    { name: "FILE", about: "a checkpoint file, or a directory of them", required: true, completes: "file", many: true },
  ],
  consent: "reads",
  flags: {
    format: { type: "text", value: "NAME", about: "the format that the files must have", choices: FORMAT_NAMES },
  },
  examples: [
    { line: "holdfast format validate .tmp/impl-checkpoint.json", about: "check one file" },
    { line: "holdfast format validate .aiwg --format loop-json", about: "check all loops of a repository" },
    {
      line: "holdfast format validate --json .claude/crunch/*/checkpoints",
      about: "check directories, and print one row per file as JSON",
    },
  ],
  reads: true,
  json: '{"files": [{"file", "format" or null, "ok": true | false, "code" or null, "message" or null, "checkpoints", "remarks": [...]}]}.',
} as const satisfies CommandSpec;

export const validate = { spec: validateSpec, run: runValidate };

async function runValidate(shell: Shell, input: Input<(typeof validateSpec)["flags"]>): Promise<Exit> {
  const format = FORMAT_NAMES.find((name) => name === input.text("format"));
  const { validateFiles } = await import("../../interop/read-files.ts");
  const rows = validateFiles({
    paths: input.operands,
    cwd: shell.cwd,
    ...(format === undefined ? {} : { format }),
  });
  shell.print({ json: () => ({ files: rows }), text: (page) => validateText(rows, page) });
  return rows.every(({ ok }) => ok) ? "done" : "corrupt";
}

function validateText(rows: readonly Validated[], page: Page): string {
  return rows.map((row) => rowText(row, page)).join("");
}

function rowText(row: Validated, page: Page): string {
  const file = escapeText(row.file);
  if (!row.ok)
    return `${paint(page, "red", "invalid")}  ${file}\n${indentedText(`${row.code ?? ""}: ${row.message ?? ""}`, page)}`;
  const notes = row.remarks.map(({ path, text }) => indentedText(`${path} ${text}`, page)).join("");
  const count = row.checkpoints === 1 ? "" : `, ${countText(row.checkpoints, "checkpoint")}`;
  return `${paint(page, "green", "valid")}    ${file}  ${row.format ?? ""}${count}\n${notes}`;
}

function indentedText(text: string, page: Page): string {
  return wrap(escapeText(text.trim()), Math.min(page.width, 100) - 6)
    .map((line, at) => `    ${at === 0 ? "" : "  "}${line}\n`)
    .join("");
}

const schemaSpec = {
  name: "format schema",
  summary: "print the JSON Schema of a format or the config file",
  details: ["Draft 2020-12. Without a name it lists what has a schema."],
  operands: [
    { name: "NAME", about: "config, or a format", required: false, completes: "nothing", choices: SCHEMA_NAMES },
  ],
  consent: "reads",
  flags: {},
  examples: [
    { line: "holdfast format schema", about: "list the schemas" },
    { line: "holdfast format schema atif", about: "print one" },
    {
      line: "holdfast format schema config > holdfast.schema.json",
      about: "save the schema of holdfast.config.yaml for an editor",
    },
  ],
  reads: true,
  json: 'The schema itself; without a name {"schemas": [names]}.',
} as const satisfies CommandSpec;

export const schema = { spec: schemaSpec, run: runSchema };

async function runSchema(shell: Shell, input: Input<(typeof schemaSpec)["flags"]>): Promise<Exit> {
  const name = SCHEMA_NAMES.find((known) => known === input.operand(0));
  if (name === undefined) {
    shell.print({
      json: () => ({ schemas: SCHEMA_NAMES }),
      text: () => SCHEMA_NAMES.map((known) => `${known}\n`).join(""),
    });
    return "done";
  }
  const { schemaText } = await import("../../interop/export.ts");
  const text = schemaText(name);
  shell.print({ json: () => JSON.parse(text), text: () => text, verbatim: true });
  return "done";
}

const mirrorSpec = {
  name: "format mirror",
  summary: "keep another tool's files up to date with a run",
  details: [
    "Follows the run's journal and writes the other tool's files after each checkpoint, each file atomically, until the run ends or Ctrl+C. It keeps no state: after a kill, start it again and it catches up. The other tool can continue the work at any time.",
    "With `mirror:` in holdfast.config.yaml, `holdfast run` and `holdfast resume` do this by themselves. The crunch workflow always writes crunch-yaml, the ralph workflow loop-json (see `layout:` and `aiwg:` in the config). For crunch-yaml it follows `.claude/checkpoint-config.yaml`: enabled, triggers, retention (it removes only files that the run wrote), location, compress, max_size_mb.",
  ],
  operands: [{ name: "RUN", about: "the run to follow", required: true, completes: "run" }],
  consent: "saves",
  flags: {
    to: { type: "text", value: "FORMAT", about: "the format to write", choices: FORMAT_NAMES },
    directory: {
      type: "text",
      value: "DIR",
      about:
        "root of the other tool's files; default the run's worktree (for crunch-yaml of crunch runs and loop-json of loops: where the run keeps them), or the current directory",
      completes: "directory",
    },
    once: { type: "boolean", about: "write the files once and exit" },
  },
  examples: [
    { line: "holdfast format mirror issue-42 --to impl-json", about: "mirror a running run" },
    { line: "holdfast format mirror issue-42 --to loop-json --json", about: "print one JSON line per update" },
    {
      line: "holdfast format mirror issue-42 --to crunch-yaml --directory . --once",
      about: "update a crunch directory once",
    },
  ],
  json: 'One line for each update: {"kind": "mirrored", "run", "sequence", "to", "root", "written": [paths], "removed": [paths], "losses": [...]}.',
} as const satisfies CommandSpec;

export const mirror = { spec: mirrorSpec, run: runMirror };

async function runMirror(shell: Shell, input: Input<(typeof mirrorSpec)["flags"]>): Promise<Exit> {
  const to = FORMAT_NAMES.find((name) => name === input.text("to"));
  if (to === undefined) throw missingFormatError(FORMAT_NAMES);
  const holdfast = await shell.open({ create: false });
  const { id, entries, state } = await findRun(holdfast, input.operand(0) ?? "");
  const directory = input.text("directory");
  const mirror = await holdfast.formats.mirror({ run: id, to, ...(directory === undefined ? {} : { directory }) });
  const report = teller(shell, id, mirror);
  report(await mirror.catchUp());
  if (input.on("once") || isEnded(state)) return "done";
  // Starts at the entry that was read first. Entries in between are handled twice, which is harmless.
  for await (const entry of holdfast.store.watch({ run: id, after: entries, signal: shell.signal })) {
    if (entry.kind === "checkpoint") report(await mirror.catchUp());
    if (entry.kind !== "run.ended") continue;
    // The end is in one transaction with its checkpoint and precedes it, so the mirror must catch up once more.
    report(await mirror.catchUp());
    break;
  }
  return "done";
}

function teller(shell: Shell, run: string, mirror: LayoutMirror): (report: MirrorReport) => void {
  let indentedText = false;
  return ({ sequence, paths, removed, losses }) => {
    if (shell.json)
      shell.write(
        `${JSON.stringify({ kind: "mirrored", run, sequence, to: mirror.to, root: mirror.root, written: paths, removed, losses })}\n`,
      );
    else {
      const at = `${escapeText(run)}@${sequence}  `;
      for (const path of paths) shell.write(`${at}${escapeText(path)}\n`);
      for (const path of removed) shell.write(`${at}removed ${escapeText(path)}\n`);
      if (paths.length === 0 && removed.length === 0) shell.write(`${at}up to date\n`);
    }
    // The losses are the same for every checkpoint, so they are reported once.
    if (!indentedText) shell.notify(unsupportedFieldsText(mirror.to, losses, shell.talk.width));
    indentedText ||= losses.length > 0;
  };
}
