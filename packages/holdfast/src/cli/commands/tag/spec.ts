import type { CommandSpec } from "../../command.ts";

export const tagSpec = {
  name: "tag",
  summary: "name a checkpoint, or list the names",
  details: [
    "A tag names one checkpoint of a run, and retention never drops a tagged checkpoint. With ADDRESS alone, or nothing, the tags of the run are listed.",
  ],
  operands: [
    {
      name: "ADDRESS",
      about: "the checkpoint to name, or the run whose tags are meant",
      required: false,
      completes: "address",
    },
    {
      name: "NAME",
      about:
        "the tag: 1 to 64 letters, digits, dots, hyphens or underscores, beginning and ending with a letter or digit; not digits alone, not latest",
      required: false,
      completes: "nothing",
    },
  ],
  consent: "store",
  paths: false,
  flags: {
    delete: { type: "boolean", short: "d", about: "remove the tag NAME (the checkpoint stays)" },
    move: { type: "boolean", about: "let NAME point here although it names another checkpoint" },
    "dry-run": { type: "boolean", about: "say what would change, and change nothing" },
  },
  examples: [
    { line: "holdfast tag fix-login@3 works", about: "fix-login@works means checkpoint 3 from now on" },
    { line: "holdfast tag fix-login", about: "the tags of this run" },
    { line: "holdfast tag fix-login works --delete", about: "take the name away" },
  ],
  json: '{"tags": [{"name", "run", "sequence"}]} when listing; {"tag": {"name", "run", "sequence"}, "action": "added" | "moved" | "deleted", "dryRun": true | false} otherwise.',
} as const satisfies CommandSpec;
