import type { CommandSpec } from "../../command.ts";

export const demoWorkerSpec = {
  name: "demo-worker",
  summary: "the process that the demo kills",
  details: [
    "Begins or goes on with the run of issue 1 in this directory, and kills itself with SIGKILL after so many things have happened. Says in a last line of JSON where.",
  ],
  operands: [],
  paths: false,
  flags: {
    agent: { type: "text", value: "MODEL", about: "provider:model" },
    "die-after": { type: "text", value: "N", about: "how many things may happen (default: all)" },
  },
  examples: [{ line: "holdfast demo-worker --agent scripted:agent.json --die-after 7", about: "die at the seventh" }],
  json: '{"died": {"place", "stage", "iteration", "visit"}}, or {"points": n, "outcome": {...}}.',
  hidden: true,
} as const satisfies CommandSpec;
