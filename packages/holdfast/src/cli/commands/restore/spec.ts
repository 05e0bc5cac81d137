import type { CommandSpec } from "../../command.ts";

export const restoreSpec = {
  name: "restore",
  summary: "bring files and state back to a checkpoint",
  details: [
    "Cannot destroy: what is there now is checkpointed first, ignored files are never touched, and the restore is itself a checkpoint, so it can be undone. On a terminal the plan is shown and you are asked; elsewhere --yes is needed.",
    "--smart reads why the run failed (its checks, scores, effects, what was damaged) and takes the newest checkpoint that is whole, surely before the cause, and behind no effect that could not be found again; it says why that one and why not each of the others. When nothing in the files is to blame, it rolls back nothing.",
    "Step by step: integrity of the checkpoint, files, values, conversation, verify. One that fails ends it with everything as it was, and says which.",
    "What the checkpoint was taken without (too large files, git repositories inside this one) does not come back, and is named. Files that are ignored now and were not then stay where they are, and are named too: the next checkpoint takes them along. When there is nothing to change, nothing is written.",
    "A file that cannot be written, because an ignored file or a git repository of its own is in its place, refuses the restore before anything is touched (exit 4).",
  ],
  operands: [
    {
      name: "ADDRESS",
      about: "RUN@7, RUN@latest, RUN@tag; RUN with --smart or --pick",
      required: true,
      completes: "address",
    },
  ],
  consent: "saves",
  paths: true,
  flags: {
    smart: { type: "boolean", about: "choose the checkpoint by reading the failure" },
    "past-effects": {
      type: "boolean",
      about: "with --smart: also behind effects that a run could not find again, which you have seen to",
    },
    pick: { type: "boolean", about: "choose from a list, on a terminal" },
    "dry-run": { type: "boolean", about: "show the plan, and change nothing" },
    yes: { type: "boolean", short: "y", about: "do not ask" },
  },
  examples: [
    { line: "holdfast restore fix-login@3 --dry-run", about: "what would be written and removed" },
    { line: "holdfast restore fix-login@3", about: "go back, after a question" },
    { line: "holdfast restore issue-42 --smart --dry-run", about: "where would a careful engineer go back to?" },
    { line: "holdfast restore fix-login@works --yes -- src/auth", about: "one directory only, from a script" },
  ],
  json: '{"plan": {...}, "lost": [{"path", "why"}], "dryRun": true} or {"plan": {...}, "lost": [...], "dryRun": false, "report": {"undo", "checkpoint", "written", "removed", "steps": [{"step", "outcome", "text"}]}}, "report" null when there was nothing to do. "lost" is what the checkpoint was taken without. Restore "undo" to undo. With --smart also "rollback": {"kind": "back", "stay" or "none", "chosen", "why", "cause": {"kind", "why"}, "rejected": [{"sequence", "kind", "why"}]}; "plan" is null unless it goes back.',
} as const satisfies CommandSpec;
