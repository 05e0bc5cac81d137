import type { CommandSpec } from "../../command.ts";

export const rerunSpec = {
  name: "rerun",
  summary: "execute a run again and report the first divergence",
  details: [
    "The same work, options, agent, limits, mode and seed, from the commit at which the first run began; agents and commands are called for real, on a branch and in a worktree of its own. What the first one pushed or opened stays. The rerun changes nothing outside this repository: before its first push, pull request, comment or label it waits for you (exit status 4), and `holdfast approve RUN publish` or `stop` answers. With --publish it does not ask. `holdfast replay` checks the record without executing anything.",
    "Exit status: that of the run; 8 when it ended like the first one and diverged from it on the way.",
  ],
  operands: [{ name: "RUN", about: "the run", required: true, completes: "run" }],
  consent: "works",
  paths: false,
  flags: {
    as: { type: "text", value: "RUN", about: "id of the new run (made up when absent)" },
    workflow: {
      type: "text",
      value: "FILE",
      about: "the file of a workflow of your own",
      completes: "file",
    },
    publish: { type: "boolean", about: "let it push, open a pull request and comment without asking" },
    "dry-run": { type: "boolean", about: "say what would be done, and do nothing" },
  },
  examples: [
    { line: "holdfast rerun issue-42", about: "would it do the same again?" },
    { line: "holdfast rerun issue-42 --publish", about: "the same, with a pull request of its own" },
    { line: "holdfast rerun issue-42 --dry-run", about: "branch, worktree and base of the new run" },
  ],
  windsDown: true,
  json: 'One line for each event, then {"of", "run", "outcome", "compared": {"same", "step", "files", "verdict"}, "spent": {"a", "b"}, "ended": {"a", "b"}}; with --dry-run {"plan": {...}}.',
} as const satisfies CommandSpec;
