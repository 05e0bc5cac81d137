import { FORMAT_NAMES } from "../../../core/format-names.ts";
import type { CommandSpec } from "../../command.ts";

export const importSpec = {
  name: "import",
  summary: "bring checkpoints of another tool into the store, as a run",
  details: [
    "Tells the format from the content, shows what would be made, and asks where that cannot be told (exit status 4 where nobody can be asked). gzip is decompressed. A directory is read as one history: its files in order, with crunch's index where there is one. Of a place above the checkpoints of loops (a repository, its .aiwg) every loop becomes a run of its own.",
    "Everything is read and checked before anything is written. The document itself is kept whole beside what was understood of it, so `holdfast export` gives it back. Importing the same thing again changes nothing; after a crash the same command goes on where it stood. Of loops that a run of this store wrote below .aiwg itself nothing is made: the run is named, and --run makes a second one all the same.",
    "Go on with it: `holdfast resume RUN`.",
  ],
  operands: [
    { name: "FILE", about: "a checkpoint file, or a directory of them", required: true, completes: "file", many: true },
  ],
  consent: "saves",
  paths: false,
  flags: {
    format: { type: "text", value: "NAME", about: "what it is, when that cannot be told", choices: FORMAT_NAMES },
    run: { type: "text", value: "ID", about: "id of the new run (made from the work when absent)" },
    "dry-run": { type: "boolean", about: "show what would be made, and make nothing" },
  },
  examples: [
    {
      line: "holdfast import .tmp/impl-checkpoint.json",
      about: "a run of another tool; `holdfast resume` goes on with it",
    },
    { line: "holdfast import .claude/crunch/42/checkpoints --dry-run", about: "what a crunch directory holds" },
    {
      line: "holdfast import state.json --format context-store --run agent-7",
      about: "say what it is, and its name here",
    },
  ],
  json: '{"run", "format", "workflow", "work", "worktree", "checkpoints": [{"sequence", "id", "createdAt", "stage", "iteration"}], "remarks": [...], "broken": [{"name", "code", "message"}], "before": "none" | "part" | "whole" | "own", "changed": true | false}; with --dry-run "changed" is absent. Of several loops, a line each.',
} as const satisfies CommandSpec;
