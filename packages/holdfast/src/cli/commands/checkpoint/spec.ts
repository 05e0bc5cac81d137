import type { CommandSpec } from "../../command.ts";

export const checkpointSpec = {
  name: "checkpoint",
  summary: "save files and state now",
  details: [
    "Saves the worktree as it is (tracked, untracked and changed files; your index, HEAD and stash are not touched) together with the state of the run, as one checkpoint. When there is no run yet, one is started.",
    "While another process carries the run (`holdfast run` in another terminal), that one is asked: it takes the checkpoint in the middle of its work, with everything that it knows, and this command ends when the store has it. When it ends or dies meanwhile the checkpoint is taken here; when it is on another host, or does not answer, that is said and nothing is changed (exit status 5).",
    'Not saved, and named: untracked files above a size (see `holdfast config`), special files, and git repositories inside this one. Ignored files are left out. The size after "added" is what the record took in the store; the files themselves are git objects, which git shares and packs.',
  ],
  operands: [
    {
      name: "RUN",
      about:
        "a run that is there, by its id or its issue; default the run of this worktree, which is started when there is none",
      required: false,
      completes: "run",
    },
  ],
  consent: "saves",
  paths: false,
  flags: {
    name: { type: "text", short: "m", value: "TEXT", about: "what to remember it by" },
    run: {
      type: "text",
      value: "RUN",
      about: "the run to save into; an id that is not there yet starts a new run",
      completes: "run",
    },
    values: {
      type: "text",
      value: "FILE",
      about: 'state to save, as a JSON object ("-" reads stdin)',
      completes: "file",
    },
    "no-files": { type: "boolean", about: "save state only, not the worktree" },
    "dry-run": { type: "boolean", about: "say what would be saved, and save nothing" },
  },
  examples: [
    { line: 'holdfast checkpoint --name "before the big refactor"', about: "save everything under a name" },
    {
      line: 'holdfast checkpoint issue-42 --name "looks good so far"',
      about: "of a run that works in another terminal",
    },
    { line: "holdfast checkpoint --run fix-login", about: "save into this run, or start it" },
    {
      line: "echo '{\"step\": 3}' | holdfast checkpoint --values -",
      about: "save a script's own state with the files",
    },
  ],
  json: '{"checkpoint": {...}, "started": true when the run is new, "skipped": [files left out], "nested": [repositories left out], "unfinishedRestore": "RUN@n" or null, "savedBy": {"label", "pid", "host"} of the process that was asked or null, "gc": {...} or null}; with --dry-run {"plan": {...} or null, "changes": [...], "started", "run", "asks": who would be asked or null, "skipped", "nested", "dryRun": true}.',
} as const satisfies CommandSpec;
