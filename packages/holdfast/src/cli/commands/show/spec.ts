import type { CommandSpec } from "../../command.ts";

export const showSpec = {
  name: "show",
  summary: "show a run, or one checkpoint with all its planes",
  details: ["Without an argument: the run of this worktree, or the newest one."],
  operands: [
    {
      name: "ADDRESS",
      about: "RUN for a run; RUN@7, RUN@latest or RUN@tag for a checkpoint",
      required: false,
      completes: "address",
    },
  ],
  consent: "reads",
  paths: false,
  flags: {
    values: {
      type: "boolean",
      about: "print only the saved state, as JSON (of the latest checkpoint when a run is named)",
    },
    graph: {
      type: "boolean",
      about: "print only the task graph, as a Mermaid flowchart: of a run as it stands now, of a checkpoint as it was",
    },
  },
  examples: [
    { line: "holdfast show fix-login", about: "where the run stands, who holds it, its last checkpoints" },
    { line: "holdfast show fix-login@3", about: "one checkpoint: files, position, conversation, effects" },
    { line: "holdfast show fix-login@latest --values | jq .plan", about: "the saved state, for another program" },
    { line: "holdfast show --graph issue-42 > graph.mmd", about: "the task graph, for a page that draws Mermaid" },
  ],
  reads: true,
  json: '{"run": {...}, "lease": {...} or null, "holder": "alive" | "dead" | "unknown" or null, "worktree": "path" or null, "checkpoints": [newest ten], "dropped": n}, or for a checkpoint {"checkpoint": {..., "planes": {...}}}; with --values the state itself; with --graph {"of": "RUN or RUN@N", "graph": {as in status}, "edges": [...]}.',
} as const satisfies CommandSpec;
