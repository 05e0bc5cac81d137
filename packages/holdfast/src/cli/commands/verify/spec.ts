import type { CommandSpec } from "../../command.ts";

export const verifySpec = {
  name: "verify",
  summary: "recompute every digest and say what is damaged",
  details: [
    "Reads the whole store and the git objects of its checkpoints. Changes nothing without --quarantine. Exit status 6 when something is damaged.",
  ],
  operands: [{ name: "RUN", about: "only this run", required: false, completes: "run" }],
  consent: "reads",
  paths: false,
  flags: {
    quarantine: {
      type: "boolean",
      about:
        "mark damaged checkpoints so that nothing resumes from them, and pin those whose git ref is gone; nothing is deleted",
    },
    "dry-run": { type: "boolean", about: "with --quarantine: say what would be marked, and mark nothing" },
  },
  examples: [
    { line: "holdfast verify", about: "everything" },
    { line: "holdfast verify fix-login --quarantine", about: "one run; set damaged checkpoints aside" },
  ],
  reads: true,
  json: '{"ok": true | false, "summary": {...}, "problems": [...], "repaired": [{"run", "quarantined", "pinned", "newestIntact"}]}.',
} as const satisfies CommandSpec;
