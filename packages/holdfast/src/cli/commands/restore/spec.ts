import type { CommandSpec } from "../../command.ts";

export const restoreSpec = {
  name: "restore",
  summary: "bring files and state back to a checkpoint",
  details: [
    "Cannot destroy: what is there now is checkpointed first, ignored files are never touched, and the restore is itself a checkpoint, so it can be undone. On a terminal the plan is shown and you are asked; elsewhere --yes is needed.",
    "What the checkpoint was taken without (too large files, git repositories inside this one) does not come back, and is named. Files that are ignored now and were not then stay where they are, and are named too: the next checkpoint takes them along. When there is nothing to change, nothing is written.",
  ],
  operands: [{ name: "ADDRESS", about: "RUN@7, RUN@latest, RUN@tag", required: true, completes: "address" }],
  paths: true,
  flags: {
    "dry-run": { type: "boolean", about: "show the plan, and change nothing" },
    yes: { type: "boolean", short: "y", about: "do not ask" },
  },
  examples: [
    { line: "holdfast restore fix-login@3 --dry-run", about: "what would be written and removed" },
    { line: "holdfast restore fix-login@3", about: "go back, after a question" },
    { line: "holdfast restore fix-login@works --yes -- src/auth", about: "one directory only, from a script" },
  ],
  json: '{"plan": {...}, "lost": [{"path", "why"}], "dryRun": true} or {"plan": {...}, "lost": [...], "dryRun": false, "report": {"undo", "checkpoint", "written", "removed"}}, "report" null when there was nothing to do. "lost" is what the checkpoint was taken without. Restore "undo" to undo.',
} as const satisfies CommandSpec;
