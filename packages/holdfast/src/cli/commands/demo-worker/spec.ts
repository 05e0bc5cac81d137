import type { CommandSpec } from "../../command.ts";

export const demoWorkerSpec = {
  name: "demo-worker",
  summary: "the process that the demo kills",
  details: [
    "Starts a run of issue 1 in this directory, or resumes a run, and kills itself with SIGKILL at a given moment. Its last line is JSON and names that moment.",
  ],
  operands: [],
  consent: "reads",
  paths: false,
  flags: {
    agent: { type: "text", value: "MODEL", about: "provider:model" },
    resume: { type: "text", value: "RUN", about: "resume this run instead of starting one", completes: "run" },
    points: { type: "text", value: "FILE", about: "the moments of an undisturbed run, in order", completes: "file" },
    "die-at": { type: "text", value: "N", about: "die at this one of them, or at the next that comes" },
  },
  examples: [
    { line: "holdfast demo-worker --agent scripted:agent.json", about: "undisturbed; prints its moments" },
    { line: "holdfast demo-worker --agent scripted:a.json --points p.json --die-at 7", about: "die there" },
  ],
  json: '{"died": {"place", "stage", "iteration", "visit"}}, or {"points": [...], "ends": index of the first point after the run has ended, "outcome": {...}}.',
  hidden: true,
} as const satisfies CommandSpec;
