import type { CommandSpec } from "../../command.ts";

export const initSpec = {
  name: "init",
  summary: "write a holdfast.config.yaml with explained defaults",
  details: [
    "Not needed: Holdfast works without a config file, and `holdfast setup` writes a short one with what it finds on this machine. The file goes to the root of the repository. One that is there already is never overwritten.",
  ],
  operands: [],
  consent: "reads",
  paths: false,
  flags: {
    "dry-run": { type: "boolean", about: "print the file instead of writing it" },
  },
  examples: [
    { line: "holdfast init", about: "write the file" },
    { line: "holdfast init --dry-run", about: "read it first" },
  ],
  json: '{"path": "...", "written": true | false, "text": "..."}.',
} as const satisfies CommandSpec;
