import type { CommandSpec } from "../../command.ts";

export const trustSpec = {
  name: "trust",
  summary: "consent to settings and executed files of this repository",
  details: [
    "A repository that you cloned cannot run anything by its settings alone. Settings that run a command, raise an agent's rights, change a prompt, save more files, or name a place to write to or a server need your consent, once for each value. So do scripts that an agent's command names, and project files of agents that can start programs, such as .claude/settings.json. The consent is kept outside the repository, in $XDG_STATE_HOME/holdfast/trust or ~/.local/state/holdfast/trust. When a value or a file changes, you are asked again.",
    "This command shows these settings with file and line, and the first 60 lines of each file, then asks. With RUN it adds what needs consent because of that run: its workflow file, the document that it was imported from, and the files in its worktree that its agents execute. Without a terminal it changes nothing and exits with status 4, unless you pass --yes.",
    "In CI set HOLDFAST_TRUST to the digests that this command prints, separated by commas: the same settings and files are accepted, changed ones are not. HOLDFAST_TRUST=1 accepts whatever is there. Commands that only read never need consent, and --dry-run does not either. docs/trust.md lists every setting.",
  ],
  operands: [
    {
      name: "RUN",
      about: "also what needs consent because of this run",
      required: false,
      completes: "run",
    },
  ],
  consent: "reads",
  paths: false,
  flags: {
    yes: { type: "boolean", short: "y", about: "accept what is shown" },
    show: { type: "boolean", about: "print the files whole, not only their first 60 lines" },
    list: { type: "boolean", about: "list the repositories that you have consented to" },
    revoke: { type: "boolean", about: "withdraw every consent for this repository" },
  },
  examples: [
    { line: "holdfast trust", about: "show what needs consent, then ask" },
    { line: "holdfast trust issue-1 --show", about: "with the files of that run's worktree, whole" },
    { line: "holdfast trust --list", about: "every repository with a consent, and for what" },
    { line: "holdfast trust --revoke", about: "ask again from now on" },
  ],
  json: '{"repository", "digest", "settings": [{"key", "value", "danger", "file", "line", "digest", "trusted"}], "granted"}; --list: {"repositories": [{"repository", "grants": [{"key", "digest", "at"}]}]}; --revoke: {"repository", "revoked"}.',
} as const satisfies CommandSpec;
