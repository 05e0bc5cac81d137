import type { CommandSpec } from "../../command.ts";

export const configSpec = {
  name: "config",
  summary: "show the settings in force and where each came from",
  details: [
    "A flag beats the environment, the environment beats the file, the file beats the default. `holdfast config check` only reads the file and says what is wrong with it.",
  ],
  operands: [
    {
      name: "ACTION",
      about: "show (default) or check",
      required: false,
      completes: "nothing",
      choices: ["show", "check"],
    },
  ],
  consent: "reads",
  paths: false,
  flags: {
    path: { type: "boolean", about: "print only the path of the config file" },
    crunch: { type: "boolean", about: "print the files that crunch's teams are made of, to start your own from" },
  },
  examples: [
    { line: "holdfast config", about: "every setting and its origin" },
    { line: "holdfast config check", about: "is the file right? exit status 2 when not" },
    { line: "holdfast config --crunch", about: "who works in the crunch workflow, on what, and how votes count" },
    { line: 'cat "$(holdfast config --path)"', about: "the file itself" },
  ],
  json: '{"path": "..." or null, "settings": [{"key", "value", "origin"}]}; check: {"path", "ok", "problems": [{"line", "column", "message", "hint", "excerpt"}]}; --crunch: {"directory", "files": [{"path", "text"}]}.',
} as const satisfies CommandSpec;
