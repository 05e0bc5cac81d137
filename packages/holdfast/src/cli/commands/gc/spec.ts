import { AGE_RULE, DONE_RULE, YOUNG_RULE, neverDroppedText } from "../../../config/never-dropped.ts";
import type { CommandSpec } from "../../command.ts";

export const gcSpec = {
  name: "gc",
  summary: "drop what retention allows and free its space",
  details: [
    "Drops by the rules of holdfast.config.yaml (`holdfast config` shows them): how many of each trigger to keep, and for how long. Every dropped checkpoint leaves a tombstone that says when and why.",
    `Never dropped: ${neverDroppedText()}.`,
    `Young runs: ${YOUNG_RULE}. By default that is 30 days.`,
    `Age: ${AGE_RULE}. ${DONE_RULE.charAt(0).toUpperCase()}${DONE_RULE.slice(1)}.`,
    "What is freed is counted in the store. The files of a dropped checkpoint are git objects, which go when git itself collects (git gc).",
    "Files of loops below .aiwg go by the rules of `aiwg:` in the config, here and once a day when a loop begins or goes on; what goes there stays in the store.",
    "Runs and their worktrees stay: a journal is never cut. A worktree that is not needed any more goes with `git worktree remove`, its branch with `git branch -d`, and git refuses where that would lose work; a run whose worktree is gone can still be resumed, which makes it anew.",
  ],
  operands: [{ name: "RUN", about: "only this run", required: false, completes: "run" }],
  consent: "saves",
  paths: false,
  flags: {
    "dry-run": { type: "boolean", about: "show what would be kept and dropped and why, and drop nothing" },
    retention: {
      type: "text",
      value: "PRESET",
      about: "by these rules instead of those of the config: standard, or loops (newest 5 of a run, 30 days)",
      choices: ["standard", "loops"],
    },
    yes: { type: "boolean", short: "y", about: "do not ask" },
  },
  examples: [
    { line: "holdfast gc --dry-run", about: "the keep and drop table, with reasons" },
    { line: "holdfast gc --yes", about: "do it, from a script" },
  ],
  json: '{"plan": {...}, "loops": [{"run", "files", "dropped"}], "dryRun": true} or {"plan": {...}, "loops": [...], "dryRun": false, "report": {"dropped", "asides", "unpinned", "sweep"}}.',
} as const satisfies CommandSpec;
