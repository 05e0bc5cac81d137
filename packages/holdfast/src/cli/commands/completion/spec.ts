import type { CommandSpec } from "../../command.ts";

export const completionSpec = {
  name: "completion",
  summary: "print a completion script for your shell",
  details: ["Completes commands, flags, run ids, sequences and tags."],
  operands: [
    {
      name: "SHELL",
      about: "bash, zsh or fish",
      required: true,
      completes: "nothing",
      choices: ["bash", "zsh", "fish"],
    },
  ],
  consent: "reads",
  paths: false,
  flags: {},
  examples: [
    { line: "source <(holdfast completion bash)", about: "bash: put this line into ~/.bashrc" },
    { line: "source <(holdfast completion zsh)", about: "zsh: into ~/.zshrc, after compinit" },
    { line: "holdfast completion fish > ~/.config/fish/completions/holdfast.fish", about: "fish" },
  ],
  json: '{"shell": "...", "script": "..."}.',
} as const satisfies CommandSpec;
