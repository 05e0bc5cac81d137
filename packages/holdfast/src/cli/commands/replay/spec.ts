import type { CommandSpec } from "../../command.ts";

export const replaySpec = {
  name: "replay",
  summary: "work a recorded run through again from its record, and compare",
  details: [
    "Every byte of the record is verified first. Then the run's workflow is worked through from its first checkpoint in a scratch worktree, with the recorded answers of agents, commands and the forge: no agent is started, nothing is pushed, nothing outside is touched, and the run is left as it is. Each checkpoint that comes out is compared with the recorded one: position, files, values, conversation, settings. The first difference is named, and what was recorded beside what is now.",
    "Needs a run that was begun with --mode logged, seeded or strict. Exit status: 0 identical, 8 diverged, 6 the record is damaged, 3 the run was not recorded.",
  ],
  operands: [{ name: "RUN", about: "the run", required: false, completes: "run" }],
  consent: "reads",
  paths: false,
  flags: {
    to: { type: "text", value: "N", about: "stop after checkpoint N" },
    workflow: {
      type: "text",
      value: "FILE",
      about: "the file of a workflow of your own",
      completes: "file",
    },
  },
  examples: [
    { line: "holdfast replay issue-42", about: "does everything come out as it was?" },
    { line: "holdfast replay issue-42 --to 17", about: "up to checkpoint 17" },
  ],
  reads: true,
  json: '{"run", "verdict": "identical" | "diverged" | "damaged", "divergence": {"where", "what", "field", "expected", "actual"} or null, "problems": [...], "from", "to", "iteration", "steps", "agents", "compared", "filled", "outcome"}.',
} as const satisfies CommandSpec;
