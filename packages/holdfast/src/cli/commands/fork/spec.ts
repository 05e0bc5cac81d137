import type { CommandSpec } from "../../command.ts";

export const forkSpec = {
  name: "fork",
  summary: "start a new run from a checkpoint, in its own worktree",
  details: [
    "The new run begins with the files and the state of the checkpoint. The old run and your worktree are not touched. Before its first push, pull request, comment or label the new run waits for you once (exit status 4); `holdfast approve RUN publish` or `stop` answers.",
    "--replay, of a run that was recorded (`holdfast run --mode logged`): everything up to the checkpoint is replayed from the record first, without any agent, and compared. A prefix that does not come out as it was recorded is refused (exit status 8, or 6 where the record is damaged), and nothing is made.",
  ],
  operands: [{ name: "ADDRESS", about: "RUN@7, RUN@latest, RUN@tag", required: true, completes: "address" }],
  consent: "saves",
  paths: false,
  flags: {
    as: { type: "text", value: "RUN", about: "id of the new run (made up when absent)" },
    replay: {
      type: "boolean",
      about: "replay the recorded run up to there first",
    },
    workflow: {
      type: "text",
      value: "FILE",
      about: "with --replay: the file of a workflow of your own",
      completes: "file",
    },
    "no-worktree": { type: "boolean", about: "state only: make no worktree and no branch" },
    "dry-run": { type: "boolean", about: "say what would be made, and make nothing" },
  },
  examples: [
    { line: "holdfast fork fix-login@3 --as other-way", about: "try another way from checkpoint 3" },
    { line: "holdfast fork fix-login@latest --no-worktree", about: "branch off the state only" },
  ],
  json: '{"run": {...}, "worktree": "path" or null, "replay": {...} with --replay}; with --dry-run {"plan": {"from", "as", "worktree"}}.',
} as const satisfies CommandSpec;
