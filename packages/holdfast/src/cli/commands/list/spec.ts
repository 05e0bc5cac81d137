import type { CommandSpec } from "../../command.ts";
import { TRIGGERS } from "../../../core/checkpoint/trigger.ts";

export const listSpec = {
  name: "list",
  summary: "list runs, or the checkpoints of one run",
  details: [
    "Newest first. Without RUN the runs of this repository; with RUN its checkpoints.",
    "ADDED is what the record of a checkpoint took in the store; its files are git objects.",
  ],
  operands: [{ name: "RUN", about: "a run id; its checkpoints are listed", required: false, completes: "run" }],
  consent: "reads",
  paths: false,
  flags: {
    limit: { type: "text", short: "n", value: "N", about: 'at most N, or "all" (default 30)' },
    trigger: {
      type: "text",
      value: "TRIGGER",
      about: "only checkpoints taken for this reason (with RUN)",
      choices: TRIGGERS,
    },
    stage: { type: "text", value: "STAGE", about: "only checkpoints of this stage (with RUN)" },
  },
  examples: [
    { line: "holdfast list", about: "the runs, newest first" },
    { line: "holdfast list fix-login", about: "the checkpoints of one run" },
    { line: "holdfast list fix-login --trigger manual -n 5", about: "the last five that were taken by hand" },
  ],
  reads: true,
  json: '{"runs": [...]}, or with RUN {"run": {...}, "checkpoints": [...]}; fields as in the library.',
} as const satisfies CommandSpec;
