import type { CommandSpec } from "../../command.ts";

export const logsSpec = {
  name: "logs",
  summary: "print what the agents of a run said",
  details: [
    "The raw output of every agent call of a run, in order. What happened to the run itself is in its journal: `holdfast log`.",
  ],
  operands: [
    {
      name: "RUN",
      about: "a run id, or an issue number; default the run of this worktree, or the newest one",
      required: false,
      completes: "run",
    },
  ],
  consent: "reads",
  paths: false,
  flags: {
    follow: { type: "boolean", short: "f", about: "go on printing as it is written, until the run ends or Ctrl+C" },
    step: { type: "text", value: "NAME", about: "only calls of this step (impl, review, ...)" },
    limit: { type: "text", short: "n", value: "N", about: 'the last N lines of each call, or "all" (default 200)' },
  },
  examples: [
    { line: "holdfast logs issue-42", about: "the last lines of each call" },
    { line: "holdfast logs issue-42 --step review --limit all", about: "everything the reviewers said" },
    { line: "holdfast logs --follow", about: "what the agent does now" },
  ],
  reads: true,
  json: '{"run": "id", "calls": [{"visit", "step", "path", "bytes", "modifiedAt", "lines": [...]}]}; with --follow one JSON line {"visit", "step", "line"} for each.',
} as const satisfies CommandSpec;
