import type { CommandSpec } from "../../command.ts";

export const graftSpec = {
  name: "graft",
  summary: "take single files of another run's checkpoint",
  details: [
    "Makes files and folders in the worktree of one run what they are in a checkpoint of another: content, modes, links, and what is not there goes. * stays within a folder, ** goes below. Paths count from where you stand, in any worktree of the repository.",
    "What is there is saved as a checkpoint first, and the result as another, from which the run goes on when it is resumed; restoring the first undoes it. Killed anywhere, the same command completes it.",
    "Refused while somebody works on the run, where files that would be replaced were changed since its newest checkpoint, and for links that lead out of the worktree; --force does the last two.",
  ],
  operands: [
    {
      name: "RUN",
      about: "where from: a run (its newest checkpoint) or an address",
      required: true,
      completes: "address",
    },
    { name: "PATH", about: "files, folders or patterns", required: true, completes: "file", many: true },
  ],
  consent: "saves",
  paths: false,
  flags: {
    into: {
      type: "text",
      value: "RUN",
      about: "the run that gets them; default that of this worktree",
      completes: "run",
    },
    from: { type: "text", value: "SEQ", about: "the checkpoint of RUN to take from; default the newest" },
    force: { type: "boolean", about: "also over unsaved edits (they are saved first) and links that lead out" },
    "dry-run": { type: "boolean", about: "show what would change, and change nothing" },
  },
  examples: [
    { line: "holdfast graft other-way src/auth.ts --into fix-login", about: "one file" },
    {
      line: "holdfast graft other-way@7 'src/**/*.test.ts' --into fix-login --dry-run",
      about: "all tests: what would change?",
    },
  ],
  json: '{"plan": {"run", "source": {...}, "asked": ["path"], "files": {...}, "edited": ["path"], "outward": [{"path", "target"}], "begun"}, "dryRun": true} or with "dryRun": false also "report": {"undo", "checkpoint", "written", "removed"}, null when there was nothing to do. Restore "undo" to undo.',
} as const satisfies CommandSpec;
