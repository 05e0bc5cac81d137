import type { CommandSpec } from "../../command.ts";

export const approveSpec = {
  name: "approve",
  summary: "answer the question that a run waits for",
  details: [
    "Without an answer it shows the question and what may be answered. The answer and who gave it stand in the journal; the run goes on with `holdfast resume`. For a run that waits for a quota until some time, yes is leave to go on before it.",
  ],
  operands: [
    {
      name: "RUN",
      about: "a run id, or an issue number; default the one that asks",
      required: false,
      completes: "run",
    },
    { name: "ANSWER", about: "one of the answers offered", required: false, completes: "nothing" },
  ],
  consent: "store",
  paths: false,
  flags: {
    by: { type: "text", value: "NAME", about: "who answers (default: user and host)" },
  },
  examples: [
    { line: "holdfast approve", about: "what is asked, and by which run" },
    { line: "holdfast approve issue-42 yes", about: "answer it" },
    { line: "holdfast approve issue-42 yes && holdfast resume issue-42", about: "answer it and go on" },
  ],
  json: '{"run": "id", "question": {"name", "question", "options": [...]}, "answer": "..." or null, "by": "..." or null}.',
} as const satisfies CommandSpec;
