import { milliseconds } from "../../../config/amount.ts";
import { AGENT_LIST, AGENT_NAMES, AGENT_PROGRAMS, splitAgent } from "../../../core/agent/agent-names.ts";
import { AGENT_VERSIONS } from "../../../core/agent/agent-versions.ts";
import { HoldfastError } from "../../../core/error.ts";
import type { Exit } from "../../../core/exit.ts";
import type { AgentEvent, FailureCause } from "../../../ports/agent.ts";
import type { AgentTrial } from "../../../app/try-agent.ts";
import type { Input, Shell } from "../../command.ts";
import { escapeText } from "../../output/escape-text.ts";
import { timeText } from "../../output/spent-text.ts";
import { modelOf } from "../run/read-request.ts";
import type { agentsSpec } from "./spec.ts";
import { agentsText, trialPlanText, trialText } from "./view.ts";

type AgentsInput = Input<(typeof agentsSpec)["flags"]>;

export async function run(shell: Shell, input: AgentsInput): Promise<Exit> {
  const action = input.operand(0) ?? "list";
  const named = modelOf("agent", input.operand(1));
  if (action === "list" && named !== undefined)
    throw usage(`What shall be done with ${named}?`, `Try it with \`holdfast agents test ${named}\`.`);
  if (action === "list") return await list(shell);
  if (named === undefined)
    throw usage("Which agent shall be tried?", `Name one: holdfast agents test claude. There are ${AGENT_LIST}.`);
  return await test(shell, input, named);
}

async function list(shell: Shell): Promise<Exit> {
  const { observeAgents } = await import("../../../app/observe-agents.ts");
  const agents = await observeAgents({ names: AGENT_NAMES });
  shell.print({
    json: () => ({
      agents: agents.map(({ name, probe, capabilities }) => ({
        name,
        ...probe,
        minimum: AGENT_VERSIONS[name]?.minimum ?? null,
        capabilities,
      })),
    }),
    text: (page) => agentsText(agents, page),
  });
  const isReady = agents.some(({ name, probe }) => AGENT_PROGRAMS.includes(name) && probe.problem === null);
  if (isReady) shell.say(`\nTry one with: ${shell.talk.program} agents test NAME`);
  return "done";
}

async function test(shell: Shell, input: AgentsInput, named: string): Promise<Exit> {
  const { provider } = splitAgent(named);
  const timeoutMs = timeOf(input.text("timeout"));
  const [{ observeAgents }, { tryAgent, trialPrompt }] = await Promise.all([
    import("../../../app/observe-agents.ts"),
    import("../../../app/try-agent.ts"),
  ]);
  const [seen] = await observeAgents({ names: [provider] });
  const version = seen?.probe.version ?? null;
  const who = version === null ? named : `${named} (${version})`;
  const plan = `${who} would be started in a new repository that is gone afterwards, for ${timeText(timeoutMs)} at most, and be asked to write one small file.`;
  if (input.on("dry-run")) {
    const prompt = trialPrompt("(a few words that nobody can guess)");
    shell.print({
      json: () => ({ agent: named, probe: seen?.probe ?? null, prompt, timeoutMs, dryRun: true }),
      text: (page) => trialPlanText(plan, prompt, page),
    });
    return "done";
  }
  if (!input.on("yes")) {
    const answer = await shell.confirm(`${plan}\nIt spends tokens. Go on?`);
    if (answer === "cannot_ask")
      throw new HoldfastError({
        code: "NEEDS_DECISION",
        message: `A test of ${named} spends tokens, and nobody can be asked here`,
        hint: "Say --yes to go on, or --dry-run to see what would be done.",
        retry: "ask",
      });
    if (answer === "no") {
      shell.say("Not tried; nothing was spent.");
      return "decision";
    }
  }
  const work = tryAgent({
    named,
    directory: shell.cwd,
    yolo: input.on("yolo"),
    timeoutMs,
    signal: shell.signal,
    onEvent: (event) => tell(shell, event),
  });
  // Until nothing of it runs any more.
  const trial = await shell.finish(work, { done: () => "the test was stopped" });
  const { outcome, wrote } = trial;
  const ok = outcome.kind === "completed" && wrote;
  shell.print({ json: () => ({ agent: named, ok, ...trial }), text: (page) => trialText(named, trial, page) });
  return ok ? "done" : exitOf(trial);
}

function tell(shell: Shell, event: AgentEvent): void {
  if (event.kind === "tool") shell.say(escapeText(`  ${event.name} ${event.detail}`.trimEnd().slice(0, 200)));
}

/** What has to happen before another try can succeed. */
const EXITS_OF: Readonly<Record<FailureCause, Exit>> = {
  rate_limit: "parked",
  overload: "parked",
  network: "parked",
  proxy: "parked",
  too_old: "decision",
  refusal: "decision",
  auth: "decision",
  billing: "decision",
  missing: "decision",
  permission_denied: "decision",
  context_too_long: "decision",
  session_lost: "failed",
  hang: "parked",
  timeout: "failed",
  crash: "failed",
  killed: "failed",
  interrupted: "interrupted",
};

function exitOf({ outcome }: AgentTrial): Exit {
  return outcome.kind === "failed" ? EXITS_OF[outcome.cause] : "failed";
}

function timeOf(text: string | undefined): number {
  const parsed = text === undefined ? TIMEOUT_MS : milliseconds(text);
  if (parsed !== undefined && parsed > 0) return parsed;
  throw usage(`--timeout cannot be "${text}"`, "Give a duration such as 5m or 90s.");
}

const TIMEOUT_MS = 5 * 60_000;

function usage(message: string, hint: string): HoldfastError {
  return new HoldfastError({ code: "USAGE", message, hint });
}
