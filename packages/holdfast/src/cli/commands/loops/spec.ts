import type { CommandSpec } from "../../command.ts";

export const loopsSpec = {
  name: "loops",
  summary: "show the loops of this repository, and who is next",
  details: [
    "Each loop with its state, told at this moment from its journal and from the process that holds it: running, completing, queued (its process waits for a place), paused, waiting (for a quota, a person, a time), stale (its process gives no sign of life), crashed (resume goes on), stopped, and with --all those that have ended: completed, failed, aborted, limit reached. BEAT is how long ago its process last gave a sign of life.",
    "No more than `loops.max` of them work at once (4). One more is refused, unless it waits with --wait, by priority and then by age, or goes over the limit with --force.",
    "With RUN and --priority its priority is changed, also while it works or waits.",
  ],
  operands: [{ name: "RUN", about: "a run id; only this one", required: false, completes: "run" }],
  consent: "reads",
  paths: false,
  flags: {
    all: { type: "boolean", short: "a", about: "also those that have ended" },
    priority: { type: "text", value: "P", about: "with RUN: low, normal, high, or a number from -100 to 100" },
    watch: { type: "boolean", short: "w", about: "go on showing them, until Ctrl+C" },
  },
  examples: [
    { line: "holdfast loops", about: "who works, who waits, who needs you" },
    { line: "holdfast loops ralph-fix-tests-1a2b3c4d --priority high", about: "let it be the next" },
    { line: "holdfast loops --all --json", about: "all of them, for a program" },
  ],
  reads: true,
  json: '{"at", "limit": N or null, "atWork": N, "loops": [{"run": {...}, "standing": {"kind": ...}, "resumable", "priority", "holder": {"pid", "host", "heartbeatAt", ...} or null, "turn", "order"}]}; with --watch one line whenever something changed.',
} as const satisfies CommandSpec;
