import type { Flags } from "./command.ts";

export const GLOBAL_FLAGS = {
  json: { type: "boolean", about: "print one JSON document instead of text; errors too (on stderr)" },
  store: { type: "text", value: "DIR", about: "use the store in this directory", completes: "directory" },
  cwd: { type: "text", value: "DIR", about: "act as if started in this directory", completes: "directory" },
  "no-config": { type: "boolean", about: "ignore the repository's holdfast.config.yaml and .holdfast/" },
  trust: { type: "boolean", about: "consent to the repository's settings, see `holdfast help trust`" },
  "no-color": { type: "boolean", about: "no colours, even on a terminal" },
  quiet: { type: "boolean", short: "q", about: "no notes and no progress on stderr; errors still show" },
  help: { type: "boolean", short: "h", about: "explain the command" },
  version: { type: "boolean", short: "V", about: "print the version" },
} as const satisfies Flags;
