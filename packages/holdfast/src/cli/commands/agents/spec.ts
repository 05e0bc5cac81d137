import { AGENT_LIST } from "../../../core/agent/agent-names.ts";
import type { CommandSpec } from "../../command.ts";

export const agentsSpec = {
  name: "agents",
  summary: "show which agents are ready, or try one",
  details: [
    `Each agent that Holdfast knows: installed or not, its version, whether it answers and has a login, and what it can do. Nothing is spent. They are named as provider:model (\`claude:opus\`), or by the provider alone for its default model. The providers: ${AGENT_LIST}.`,
    "`holdfast agents test claude` has one write a small file, in a repository of its own that is gone afterwards, and says what came of it, with tokens, money and time. That is a real call of a model, so it asks first; elsewhere than on a terminal --yes is needed.",
    "Exit status of a test: 0 it did what it was asked, 1 it failed or wrote something else, 2 there is no such agent, 4 you have something to do first (say --yes, install, log in, pay, allow), 7 its provider asks to come back later.",
  ],
  operands: [
    {
      name: "ACTION",
      about: "list (default) or test",
      required: false,
      completes: "nothing",
      choices: ["list", "test"],
    },
    { name: "AGENT", about: "with test: provider or provider:model", required: false, completes: "nothing" },
  ],
  consent: "reads",
  paths: false,
  flags: {
    yes: { type: "boolean", short: "y", about: "do not ask: spend what the test costs" },
    yolo: { type: "boolean", about: "the agent may act without asking" },
    timeout: { type: "text", value: "TIME", about: "how long a test may take (5m)" },
    "dry-run": { type: "boolean", about: "say what a test would do, and spend nothing" },
  },
  examples: [
    { line: "holdfast agents", about: "what is there" },
    { line: "holdfast agents test claude", about: "does it work, and what does it cost?" },
    { line: "holdfast agents test codex:gpt-5.5 --dry-run", about: "what would be done" },
    { line: 'holdfast agents test "acp:opencode acp" --yes', about: "any agent that speaks ACP" },
  ],
  reads: true,
  json: '{"agents": [{"name", "installed", "version", "problem", "hint", "capabilities": {"resume", "forkAtMessage", "chooseSession", "usage", "cost", "structuredOutput"}}]}; test: {"agent", "ok", "wrote", "others", "milliseconds", "outcome": {...}}, with --dry-run {"agent", "probe", "prompt", "timeoutMs", "dryRun": true}.',
} as const satisfies CommandSpec;
