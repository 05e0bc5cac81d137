import type { CommandSpec } from "../../command.ts";

export const demoSpec = {
  name: "demo",
  summary: "see an issue become a pull request, killed three times on the way",
  details: [
    "Makes a small repository with a remote and an issue in a temporary directory, and carries the issue to a pull request with an agent that follows a script: a first review says no, a second one yes. Three times, at random places, the process is killed with SIGKILL, and resumed. At the end it proves that nothing was lost and nothing was done twice.",
    "Needs git and nothing else: no account, no network, no questions. Your own repository is not touched.",
  ],
  operands: [],
  consent: "reads",
  paths: false,
  flags: {
    seed: { type: "text", value: "N", about: "where it is killed; the same number, the same places (default random)" },
    keep: { type: "boolean", about: "keep the directory, to look around in it" },
  },
  examples: [
    { line: "holdfast demo", about: "another three places every time" },
    { line: "holdfast demo --seed 7 --keep", about: "the same ones again, and what it left to look at" },
  ],
  json: '{"seed", "ok", "kills": [{"place", "stage", "iteration"}], "timeline": [...], "proof": [{"claim", "ok", "detail"}], "tree", "directory" or null}.',
} as const satisfies CommandSpec;
