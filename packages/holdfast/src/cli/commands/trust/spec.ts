import type { CommandSpec } from "../../command.ts";

export const trustSpec = {
  name: "trust",
  summary: "consent to the settings of this repository",
  details: [
    "A repository that you cloned cannot run anything by its settings alone. Settings that run a command, raise an agent's rights, change a prompt, save more files, or name a place to write to or a server need your consent, once for each value. The consent is kept outside the repository, in $XDG_STATE_HOME/holdfast/trust or ~/.local/state/holdfast/trust. When a value, or a file that it refers to, changes, you are asked again.",
    "This command shows these settings with file and line, then asks. Without a terminal it changes nothing and exits with status 4, unless you pass --yes.",
    "In CI set HOLDFAST_TRUST to the digest that this command prints: the same settings are accepted, changed ones are not. HOLDFAST_TRUST=1 accepts whatever is there. Commands that only read never need consent, and --dry-run does not either. docs/trust.md lists every setting.",
  ],
  operands: [],
  consent: "reads",
  paths: false,
  flags: {
    yes: { type: "boolean", short: "y", about: "accept the settings that are shown" },
    list: { type: "boolean", about: "list the repositories that you have consented to" },
    revoke: { type: "boolean", about: "withdraw every consent for this repository" },
  },
  examples: [
    { line: "holdfast trust", about: "show the settings that need consent, then ask" },
    { line: "holdfast trust --list", about: "every repository with a consent, and for what" },
    { line: "holdfast trust --revoke", about: "ask again from now on" },
  ],
  json: '{"repository", "digest", "settings": [{"key", "value", "danger", "file", "line", "digest", "trusted"}], "granted"}; --list: {"repositories": [{"repository", "grants": [{"key", "digest", "at"}]}]}; --revoke: {"repository", "revoked"}.',
} as const satisfies CommandSpec;
