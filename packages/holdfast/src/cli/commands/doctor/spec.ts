import type { CommandSpec } from "../../command.ts";

export const doctorSpec = {
  name: "doctor",
  summary: "check this machine, repository, store and config",
  details: [
    "Each check is ok, a warning or a failure; what can be done about it is printed under it. Exit status 1 when a check fails.",
  ],
  operands: [],
  consent: "reads",
  paths: false,
  flags: {},
  examples: [{ line: "holdfast doctor", about: "the first thing to run when something is odd" }],
  reads: true,
  json: '{"ok": true | false, "checks": [{"name", "level": "ok" | "warn" | "fail", "detail", "fix"}], "usage": [{"run", "checkpoints", "bytes"}]}.',
} as const satisfies CommandSpec;
