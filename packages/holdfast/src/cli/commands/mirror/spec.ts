import { FORMAT_NAMES } from "../../../core/format-names.ts";
import type { CommandSpec } from "../../command.ts";

export const mirrorSpec = {
  name: "mirror",
  summary: "keep another tool's checkpoints up to date with a run",
  details: [
    "Follows the run's journal: after each checkpoint the other layout is written, every file whole or not at all, until the run ends or Ctrl+C. It remembers nothing of its own, so one that was killed catches up when it is started again. The other tool can take over at any moment.",
    "With `mirror:` in holdfast.config.yaml `holdfast run` and `holdfast resume` do it by themselves; a run of the crunch workflow keeps crunch-yaml in the main worktree without being told, a run of the ralph workflow loop-json (`.aiwg`, see `aiwg:` in the config). For crunch-yaml `.claude/checkpoint-config.yaml` is respected: enabled, triggers, retention (only what the run itself wrote is ever removed), location, compress, max_size_mb.",
  ],
  operands: [{ name: "RUN", about: "the run to follow", required: true, completes: "run" }],
  consent: "saves",
  paths: false,
  flags: {
    to: { type: "text", value: "FORMAT", about: "the layout to keep", choices: FORMAT_NAMES },
    directory: {
      type: "text",
      value: "DIR",
      about:
        "root of the other tool's layout; default the run's worktree (of crunch runs and loops the main one), else where you stand",
      completes: "directory",
    },
    once: { type: "boolean", about: "bring it up to date and stop" },
  },
  examples: [
    { line: "holdfast mirror issue-42 --to impl-json", about: "beside a run under way" },
    {
      line: "holdfast mirror issue-42 --to crunch-yaml --directory . --once",
      about: "bring a crunch directory up to date",
    },
  ],
  json: 'One line for each writing: {"run", "sequence", "to", "root", "written": [paths], "removed": [paths], "losses": [...]}.',
} as const satisfies CommandSpec;
