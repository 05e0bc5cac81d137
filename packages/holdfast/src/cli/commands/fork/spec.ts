import type { CommandSpec } from "../../command.ts";

export const forkSpec = {
  name: "fork",
  summary: "start a new run from a checkpoint, in its own worktree",
  details: [
    "The new run begins with the files and the state of the checkpoint. The old run and your worktree are not touched.",
  ],
  operands: [{ name: "ADDRESS", about: "RUN@7, RUN@latest, RUN@tag", required: true, completes: "address" }],
  paths: false,
  flags: {
    as: { type: "text", value: "RUN", about: "id of the new run (made up when absent)" },
    "no-worktree": { type: "boolean", about: "state only: make no worktree and no branch" },
    "dry-run": { type: "boolean", about: "say what would be made, and make nothing" },
  },
  examples: [
    { line: "holdfast fork fix-login@3 --as other-way", about: "try another way from checkpoint 3" },
    { line: "holdfast fork fix-login@latest --no-worktree", about: "branch off the state only" },
  ],
  json: '{"run": {...}, "worktree": "path" or null}; with --dry-run {"plan": {"from", "as", "worktree"}}.',
} as const satisfies CommandSpec;
