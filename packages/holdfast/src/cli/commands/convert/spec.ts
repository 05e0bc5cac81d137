import { FORMAT_NAMES } from "../../../core/format-names.ts";
import type { CommandSpec } from "../../command.ts";
import { OUTPUT_FLAGS } from "../export/output-flags.ts";

export const convertSpec = {
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
