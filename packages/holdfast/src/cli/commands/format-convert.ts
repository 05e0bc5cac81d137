/** The `format convert` command: converts a checkpoint file of one tool to the format of another. */
import { FORMAT_NAMES } from "@holdfast/formats/format-names";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { OUTPUT_FLAGS, missingFormatError, writeExported } from "./format-export.ts";

export const spec = {
  name: "convert",
  summary: "turn a checkpoint file of one tool into one of another",
  details: [
    "Needs no store and makes none. What the target cannot carry is named on stderr. A source with several checkpoints goes to a directory, one file each.",
  ],
  operands: [{ name: "FILE", about: "a checkpoint file, or a directory of them", required: true, completes: "file" }],
  consent: "reads",
  paths: false,
  flags: {
    to: { type: "text", value: "FORMAT", about: "what to write", choices: FORMAT_NAMES },
    format: { type: "text", value: "NAME", about: "what it is, when that cannot be told", choices: FORMAT_NAMES },
    ...OUTPUT_FLAGS,
  },
  examples: [
    { line: "holdfast convert CP-1.yaml --to impl-json", about: "print it in another format" },
    { line: "holdfast convert .claude/crunch/42/checkpoints --to loop-json -o loops/", about: "all of a directory" },
  ],
  reads: true,
  json: '{"from", "to", "path": "suggested place", "written": [paths], "removed": [paths], "losses": [{"path", "why"}], "remarks": [...], "document": "text"}; "document" is null when it was written to --output.',
} as const satisfies CommandSpec;

export async function run(shell: Shell, input: Input<(typeof spec)["flags"]>): Promise<Exit> {
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
