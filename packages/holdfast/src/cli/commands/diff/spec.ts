import type { CommandSpec } from "../../command.ts";

export const diffSpec = {
  name: "diff",
  summary: "compare two checkpoints, or one with the worktree",
  details: [
    "Files and saved state alike. Without TO the worktree as it is now; without FROM the latest checkpoint. State changes come first, then the patch as git prints it; into a pipe it is plain, so git apply takes it.",
    "What a side was taken without (too large files, git repositories inside this one) is named as not compared.",
  ],
  operands: [
    { name: "FROM", about: "an address; default the latest checkpoint", required: false, completes: "address" },
    { name: "TO", about: "an address; default the worktree as it is", required: false, completes: "address" },
  ],
  consent: "reads",
  paths: true,
  flags: {
    stat: { type: "boolean", about: "how many lines changed in which file" },
    "name-only": { type: "boolean", about: "only the names of the files that changed" },
  },
  examples: [
    { line: "holdfast diff", about: "what changed since the last checkpoint" },
    { line: "holdfast diff fix-login@2 fix-login@5 --stat", about: "an overview of what happened in between" },
    { line: "holdfast diff fix-login@works -- src/auth", about: "against a tagged state, one directory only" },
  ],
  reads: true,
  json: '{"from": "RUN@n", "to": "RUN@n" or null, "worktree": "path" or null, "files": [{"path", "status", "from"}], "text": "as git prints it", "values": [{"path", "from", "to"}], "notCompared": [{"path", "why"}]}. A side that had no value lacks its key. With --name-only and --stat the same keys; only "text" differs: the names, or the counts.',
} as const satisfies CommandSpec;
