import type { CommandSpec } from "../../command.ts";

export const completeSpec = {
  name: "complete",
  summary: "print what could stand in place of the last word",
  details: [
    "Everything after -- is the command line so far, without the word holdfast; the last word is the one being typed. Never fails. The completion scripts call it.",
  ],
  operands: [],
  consent: "reads",
  paths: true,
  flags: {},
  examples: [{ line: "holdfast complete -- restore fix-login@", about: "addresses that begin like this" }],
  reads: true,
  json: '{"candidates": ["..."]}.',
  hidden: true,
} as const satisfies CommandSpec;
