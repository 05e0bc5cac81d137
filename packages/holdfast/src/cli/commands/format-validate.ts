/** The `format validate` command: reports whether checkpoint files of other tools are valid. */
import { FORMAT_NAMES } from "@holdfast/formats/format-names";
import type { Validated } from "../../interop/read-files.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { type Page, paint } from "../output/page.ts";
import { countText } from "../output/quantities.ts";
import { escapeText, wrap } from "../output/text.ts";

export const spec = {
  name: "validate",
  summary: "say whether checkpoint files of other tools are valid",
  details: [
    "Exit status 0 when all are valid, else 6. Needs no store. Of a directory, every file that a format claims is looked at; of a place above the checkpoints of loops (a repository, its .aiwg) those of every loop.",
  ],
  operands: [
    { name: "FILE", about: "a checkpoint file, or a directory of them", required: true, completes: "file", many: true },
  ],
  consent: "reads",
  paths: false,
  flags: {
    format: { type: "text", value: "NAME", about: "what they must be", choices: FORMAT_NAMES },
  },
  examples: [
    { line: "holdfast validate .tmp/impl-checkpoint.json", about: "one file" },
    { line: "holdfast validate --json .claude/crunch/*/checkpoints", about: "for a program: a row a file" },
  ],
  reads: true,
  json: '[{"file", "format" or null, "ok": true | false, "code" or null, "message" or null, "checkpoints", "remarks": [...]}].',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
  const format = FORMAT_NAMES.find((name) => name === input.text("format"));
  const { validateFiles } = await import("../../interop/read-files.ts");
  const rows = validateFiles({
    paths: input.operands,
    cwd: shell.cwd,
    ...(format === undefined ? {} : { format }),
  });
  shell.print({ json: () => rows, text: (page) => validateText(rows, page) });
  return rows.every(({ ok }) => ok) ? "done" : "corrupt";
}

function validateText(rows: readonly Validated[], page: Page): string {
  return rows.map((row) => rowText(row, page)).join("");
}

function rowText(row: Validated, page: Page): string {
  const file = escapeText(row.file);
  if (!row.ok)
    return `${paint(page, "red", "invalid")}  ${file}\n${told(`${row.code ?? ""}: ${row.message ?? ""}`, page)}`;
  const notes = row.remarks.map(({ path, text }) => told(`${path} ${text}`, page)).join("");
  const count = row.checkpoints === 1 ? "" : `, ${countText(row.checkpoints, "checkpoint")}`;
  return `${paint(page, "green", "valid")}    ${file}  ${row.format ?? ""}${count}\n${notes}`;
}

function told(text: string, page: Page): string {
  return wrap(escapeText(text.trim()), Math.min(page.width, 100) - 6)
    .map((line, at) => `    ${at === 0 ? "" : "  "}${line}\n`)
    .join("");
}
