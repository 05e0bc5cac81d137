import type { CommandSpec } from "../../command.ts";

export const logSpec = {
  name: "log",
  summary: "print the journal of a run",
  details: [
    "The journal is the append-only record of everything that happened in a run, oldest first. Without --after the last entries are shown.",
  ],
  operands: [
    {
      name: "RUN",
      about: "a run id; default the run of this worktree, or the newest one",
      required: false,
      completes: "run",
    },
  ],
  consent: "reads",
  paths: false,
  flags: {
    follow: { type: "boolean", short: "f", about: "go on printing entries as they are written, until Ctrl+C" },
    after: { type: "text", value: "ENTRY", about: "start after this entry number" },
    limit: { type: "text", short: "n", value: "N", about: 'at most N, or "all" (default 50)' },
  },
  examples: [
    { line: "holdfast log", about: "the last 50 entries" },
    { line: "holdfast log fix-login --after 0 --limit all", about: "the whole history" },
    { line: "holdfast log fix-login --follow --json", about: "one JSON line an entry, live, for another program" },
  ],
  reads: true,
  json: '{"run": "id", "entries": [...]}; with --follow one JSON line for each entry.',
} as const satisfies CommandSpec;
