import type { CommandSpec } from "../../command.ts";

export const statusSpec = {
  name: "status",
  summary: "where a run stands, and who holds it",
  details: [
    "Read from the journal and the lease, so it is true also when the process that worked on the run was killed: running (with who holds it), parked (on what, until when), crashed or stopped (and how to continue), done, or fatal with the reason. Without an argument: all runs that are not finished. A run that is being prepared and has no record yet (its process reads the issue, fetches and plans) is shown as starting.",
    "A run whose stage works on a task graph shows it too: batches side by side, each node with its state and how long it took, those on the critical path marked with *. A node that was running when its process died is interrupted, and its time is the least it can have been. A graph too large for the screen is summed up, one line a batch.",
  ],
  operands: [
    {
      name: "RUN",
      about: "a run id, or an issue number; default all that are not finished",
      required: false,
      completes: "run",
    },
  ],
  consent: "reads",
  paths: false,
  flags: {
    watch: { type: "boolean", short: "w", about: "go on showing it as it changes, until it ends or Ctrl+C" },
  },
  examples: [
    { line: "holdfast status", about: "everything that is under way" },
    { line: "holdfast status issue-42 --watch", about: "look over the shoulder of a run in another terminal" },
    { line: "holdfast status issue-42 --json | jq .condition.kind", about: "for a script" },
  ],
  reads: true,
  json: '{"run": {...}, "condition": {"kind": "running" | "held" | "parked" | "crashed" | "stopped" | "manual" | "done" | "fatal", ...}, "stage", "iteration", "scores": [...], "budget", "last", "graph": null or {"batches": [[ids]], "nodes": [{"id", "state", "attempts", "startedAt", "endedAt", "elapsed", "critical", ...}], "counts", "criticalPath", "resumePoint", ...}, ...}; without RUN {"runs": [such objects], "starting": [{"pid", "host", "since", "run": "id" or null, "workflow", "work"}]}; a run without a record yet is {"run": null, "condition": {"kind": "starting", "pid", ...}}; with --watch one JSON line for each change.',
} as const satisfies CommandSpec;
