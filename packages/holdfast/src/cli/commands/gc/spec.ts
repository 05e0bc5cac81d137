import { AGE_RULE, DONE_RULE, neverDroppedText } from "../../../config/never-dropped.ts";
import type { CommandSpec } from "../../command.ts";

export const gcSpec = {
  name: "gc",
  summary: "drop what retention allows and free its space",
  details: [
    "Drops by the rules of holdfast.config.yaml (`holdfast config` shows them): how many of each trigger to keep, and for how long. Every dropped checkpoint leaves a tombstone that says when and why.",
    `Never dropped: ${neverDroppedText()}.`,
    `Age: ${AGE_RULE}. ${DONE_RULE.charAt(0).toUpperCase()}${DONE_RULE.slice(1)}.`,
    "What is freed is counted in the store. The files of a dropped checkpoint are git objects, which go when git itself collects (git gc).",
    "Runs and their worktrees stay: a journal is never cut. A worktree that is not needed any more goes with `git worktree remove`, its branch with `git branch -d`, and git refuses where that would lose work; a run whose worktree is gone can still be resumed, which makes it anew.",
  ],
  operands: [{ name: "RUN", about: "only this run", required: false, completes: "run" }],
  paths: false,
  flags: {
    "dry-run": { type: "boolean", about: "show what would be kept and dropped and why, and drop nothing" },
    yes: { type: "boolean", short: "y", about: "do not ask" },
  },
  examples: [
    { line: "holdfast gc --dry-run", about: "the keep and drop table, with reasons" },
    { line: "holdfast gc --yes", about: "do it, from a script" },
  ],
  json: '{"plan": {...}, "dryRun": true} or {"plan": {...}, "dryRun": false, "report": {"dropped", "asides", "unpinned", "sweep"}}.',
} as const satisfies CommandSpec;
