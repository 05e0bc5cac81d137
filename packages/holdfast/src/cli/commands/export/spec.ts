import { EXPORT_NAMES } from "../../../core/format-names.ts";
import type { CommandSpec } from "../../command.ts";
import { OUTPUT_FLAGS } from "./output-flags.ts";

export const exportSpec = {
  name: "export",
  summary: "write a checkpoint as another tool reads it",
  details: [
    "Prints the document, or writes it to --output: whole or not at all. What the format cannot carry is named on stderr, one line each. Into a directory it goes under the name that the other tool expects; for crunch-yaml with its index and `latest` (a link, or a file that holds the name where there are no links), and by `.claude/checkpoint-config.yaml` where that speaks of this directory.",
    "A checkpoint that was imported keeps the fields that Holdfast does not know: exported to the format it came from they are in their places again.",
  ],
  operands: [{ name: "ADDRESS", about: "RUN, RUN@7, RUN@latest, RUN@tag", required: true, completes: "address" }],
  consent: "reads",
  paths: false,
  flags: {
    to: { type: "text", value: "FORMAT", about: "what to write", choices: EXPORT_NAMES },
    ...OUTPUT_FLAGS,
  },
  examples: [
    {
      line: "holdfast export issue-42 --to impl-json -o .tmp/impl-checkpoint.json",
      about: "hand a run over to another tool",
    },
    {
      line: "holdfast export issue-42@7 --to crunch-yaml -o .claude/crunch/42/checkpoints/",
      about: "with index and latest",
    },
    { line: "holdfast export issue-42 --to atif > trajectory.json", about: "what its agents did, as a trajectory" },
  ],
  reads: true,
  json: '{"from", "to", "path": "suggested place", "written": [paths], "removed": [paths], "losses": [{"path", "why"}], "document": "text"}; "document" is null when it was written to --output.',
} as const satisfies CommandSpec;
