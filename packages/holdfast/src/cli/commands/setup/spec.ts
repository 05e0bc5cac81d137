import type { CommandSpec } from "../../command.ts";

export const setupSpec = {
  name: "setup",
  summary: "find your agent and forge, and write the config",
  details: [
    "Looks which agents are ready, which forge the remote names and whether there is a login for it, and how this project is tested; then writes what it found to holdfast.config.yaml. On a terminal it asks for the agent, where there are several, and for the gate; every question has a flag, and --yes takes what it proposes. Elsewhere --yes is needed: without it the file is shown and nothing is written (exit status 2).",
    "`holdfast init` is the other way to a config: all settings there are, with their defaults, explained. They go together: setup changes only the keys that it asks about, and what else is in a file that is there, its comments too, stays. What the file already says is kept unless a flag says otherwise.",
  ],
  operands: [],
  consent: "reads",
  paths: false,
  flags: {
    agent: {
      type: "text",
      short: "a",
      value: "MODEL",
      about: "who works: provider or provider:model; see `holdfast agents`",
    },
    "impl-model": { type: "text", value: "MODEL", about: "another one for implementing" },
    "review-model": { type: "text", value: "MODEL", about: "another one for reviewing" },
    forge: {
      type: "text",
      value: "KIND",
      about: "where issues and pull requests are; auto tells it from the remote",
      choices: ["auto", "github", "gitlab", "local", "none"],
    },
    gate: { type: "text", value: "CMD", about: 'a shell command that must succeed, such as "npm test", or none' },
    yes: { type: "boolean", short: "y", about: "ask nothing, take what is proposed" },
    "dry-run": { type: "boolean", about: "show what would be written, and write nothing" },
  },
  examples: [
    { line: "holdfast setup", about: "find, ask, write" },
    { line: "holdfast setup --dry-run", about: "only look" },
    { line: 'holdfast setup --yes --agent claude:opus --gate "make check"', about: "from a script" },
  ],
  json: '{"path", "written": true | false, "changed": true | false, "text", "agent", "gate", "forge": {"name", "location", "login", "fix"} or null, "agents": [{"name", "installed", "version", "problem", "hint"}]}.',
} as const satisfies CommandSpec;
