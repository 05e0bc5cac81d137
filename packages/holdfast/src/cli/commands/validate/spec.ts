import { FORMAT_NAMES } from "../../../core/format-names.ts";
import type { CommandSpec } from "../../command.ts";

export const validateSpec = {
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
