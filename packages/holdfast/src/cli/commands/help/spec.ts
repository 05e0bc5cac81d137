import type { CommandSpec } from "../../command.ts";

export const helpSpec = {
  name: "help",
  summary: "explain a command",
  details: [],
  operands: [{ name: "COMMAND", about: "the command to explain", required: false, completes: "command" }],
  consent: "reads",
  paths: false,
  flags: {
    markdown: { type: "boolean", about: "print the whole reference as Markdown" },
  },
  examples: [
    { line: "holdfast help", about: "the list of commands" },
    { line: "holdfast help restore", about: "one command: arguments, flags, examples" },
  ],
  json: '{"commands": [{"name", "summary", "operands", "flags", "examples", "json"}]}.',
} as const satisfies CommandSpec;
