/** The `agents` command: shows which agents are ready, or tries one. */
import { AGENT_VERSIONS, judgeVersion } from "@holdfast/agents/agent-versions";
import {
  AGENT_LIST,
  AGENT_NAMES,
  AGENT_PROGRAMS,
  type AgentCapabilities,
  type AgentEvent,
  type FailureCause,
  splitAgent,
} from "@holdfast/core/agent";
import { milliseconds } from "@holdfast/formats/setting-values";
import { HoldfastError, usageError } from "@holdfast/platform/error";
import type { AgentTrial, ObservedAgent } from "../../check-agents.ts";
import type { CommandSpec, Input, Shell } from "../command.ts";
import type { Exit } from "../exit.ts";
import { type Page, paint } from "../output/page.ts";
import { moneyText, timeText, tokensText } from "../output/quantities.ts";
import { type Cell, renderTable } from "../output/table.ts";
import { escapeText, wrap } from "../output/text.ts";
import { modelOf } from "../run-options.ts";

export const spec = {
  name: "agents",
  summary: "show which agents are ready, or test one",
  details: [
    `Lists the agents that Holdfast supports: whether each is installed and logged in, its version and its capabilities. This spends nothing. Agents are named as provider:model (\`claude:opus\`), or by the provider alone for its default model. The providers: ${AGENT_LIST}.`,
    "`holdfast agents test claude` asks the agent to write a small file in a temporary repository, and reports the result with tokens, cost and time. This is a real model call, so it asks first; without a terminal --yes is needed.",
    "Exit status of a test: 0 passed, 1 failed or wrote something else, 2 unknown agent, 4 you must act first (pass --yes, install, log in, pay, allow), 7 the provider's rate limit is reached.",
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
  flags: {
    yes: { type: "boolean", short: "y", about: "do not ask before spending tokens" },
    yolo: { type: "boolean", about: "the agent may use every tool without asking" },
    timeout: { type: "text", value: "TIME", about: "time limit of a test (5m)" },
    "dry-run": { type: "boolean", about: "show what a test would do, and spend nothing" },
  },
  examples: [
    { line: "holdfast agents", about: "which agents are installed and ready" },
    { line: "holdfast agents test claude", about: "test one, and show what a call costs" },
    { line: "holdfast agents test codex:gpt-5.5 --dry-run", about: "show what the test would do" },
    { line: 'holdfast agents test "acp:opencode acp" --yes', about: "test any agent that supports ACP" },
  ],
  reads: true,
  json: '{"agents": [{"name", "installed", "version", "problem", "hint", "capabilities": {"resume", "forkAtMessage", "chooseSession", "usage", "cost", "structuredOutput"}}]}; test: {"agent", "ok", "wrote", "others", "milliseconds", "outcome": {...}}, with --dry-run {"agent", "probe", "prompt", "timeoutMs", "dryRun": true}.',
} as const satisfies CommandSpec;

type AgentsInput = Input<(typeof spec)["flags"]>;

export async function run(shell: Shell, input: AgentsInput): Promise<Exit> {
  const action = input.operand(0) ?? "list";
  const named = modelOf("agent", input.operand(1));
  if (action === "list" && named !== undefined)
    throw usageError(`${named} needs a subcommand before it`, `Test it with \`holdfast agents test ${named}\`.`);
  if (action === "list") return await list(shell);
  if (named === undefined)
    throw usageError("No agent is named", `Name one: \`holdfast agents test claude\`. The agents: ${AGENT_LIST}.`);
  return await test(shell, input, named);
}

async function list(shell: Shell): Promise<Exit> {
  const { observeAgents } = await import("../../check-agents.ts");
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
  if (isReady) shell.notify(`\nTest one with: ${shell.talk.program} agents test NAME`);
  return "done";
}

async function test(shell: Shell, input: AgentsInput, named: string): Promise<Exit> {
  const { provider } = splitAgent(named);
  const timeoutMs = timeOf(input.text("timeout"));
  const [{ observeAgents }, { tryAgent, trialPrompt }] = await Promise.all([
    import("../../check-agents.ts"),
    import("../../check-agents.ts"),
  ]);
  const [seen] = await observeAgents({ names: [provider] });
  const version = seen?.probe.version ?? null;
  const who = version === null ? named : `${named} (${version})`;
  const plan = `${who} would run in a temporary repository for ${timeText(timeoutMs)} at most, and would be asked to write one small file.`;
  if (input.on("dry-run")) {
    const prompt = trialPrompt("(a few random words)");
    shell.print({
      json: () => ({ agent: named, probe: seen?.probe ?? null, prompt, timeoutMs, dryRun: true }),
      text: (page) => trialPlanText(plan, prompt, page),
    });
    return "done";
  }
  if (!input.on("yes")) {
    const answer = await shell.confirm(`${plan}\nIt spends tokens. Continue?`);
    if (answer === "cannot_ask")
      throw new HoldfastError({
        code: "NEEDS_DECISION",
        message: `Not a terminal: cannot ask whether a test of ${named} may spend tokens`,
        hint: "Pass --yes to run it, or --dry-run to see what it would do.",
        retry: "ask",
      });
    if (answer === "no") {
      shell.notify("Not tested; nothing was spent.");
      return "needs_you";
    }
  }
  const work = tryAgent({
    named,
    directory: shell.cwd,
    yolo: input.on("yolo"),
    timeoutMs,
    signal: shell.signal,
    onEvent: (event) => printEvent(shell, event),
  });
  // Waits until none of the trial's processes runs.
  const trial = await shell.finish(work, { done: () => "the test was stopped" });
  const { outcome, wrote } = trial;
  const ok = outcome.kind === "completed" && wrote;
  shell.print({ json: () => ({ agent: named, ok, ...trial }), text: (page) => trialText(named, trial, page) });
  return ok ? "done" : exitOf(trial);
}

function printEvent(shell: Shell, event: AgentEvent): void {
  if (event.kind === "tool") shell.notify(escapeText(`  ${event.name} ${event.detail}`.trimEnd().slice(0, 200)));
}

/** The exit status by what has to happen before another attempt can succeed. */
const EXITS_OF: Readonly<Record<FailureCause, Exit>> = {
  rate_limit: "waiting",
  overload: "waiting",
  network: "waiting",
  proxy: "waiting",
  too_old: "needs_you",
  refusal: "needs_you",
  auth: "needs_you",
  billing: "needs_you",
  missing: "needs_you",
  permission_denied: "needs_you",
  context_too_long: "needs_you",
  session_lost: "failed",
  hang: "waiting",
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
  throw usageError(`--timeout cannot be "${text}"`, "Give a duration such as 5m or 90s.");
}

const TIMEOUT_MS = 5 * 60_000;

function agentsText(agents: readonly ObservedAgent[], page: Page): string {
  const columns = [
    { title: "AGENT" },
    { title: "VERSION", optional: true },
    { title: "NEEDS", optional: true },
    { title: "STATE" },
    { title: "CAN", wrap: true, shrinkTo: 12 },
  ] as const;
  const rows = agents.map((agent): readonly Cell[] => [
    { text: agent.name, style: "bold" },
    { text: agent.probe.version ?? "" },
    { text: AGENT_VERSIONS[agent.name]?.minimum ?? "", style: "dim" },
    stateCell(agent),
    { text: abilities(agent.capabilities), style: "dim" },
  ]);
  const fixes = agents.flatMap(({ name, probe: { installed, problem, hint } }) =>
    problem === null
      ? []
      : [[`${name}:`, installed ? `${problem}.` : "", hint ?? ""].filter((part) => part !== "").join(" ")],
  );
  const list = fixes.flatMap((fix) => wrapped(fix, page)).join("\n");
  return renderTable({ columns, rows }, page) + (list === "" ? "" : `\n${list}\n`);
}

function stateCell({ name, probe }: ObservedAgent): Cell {
  if (!probe.installed) return { text: "missing", style: "dim" };
  if (judgeVersion(name, probe.version) === "too_old") return { text: "too old", style: "red" };
  return probe.problem === null ? { text: "ready", style: "green" } : { text: "not ready", style: "yellow" };
}

/** `reportsTokens` is the lack of an ability. */
const WORDS: Readonly<Record<Exclude<keyof AgentCapabilities, "reportsTokens">, string>> = {
  resume: "resume",
  forkAtMessage: "rewind",
  chooseSession: "own ids",
  usage: "tokens",
  cost: "money",
  structuredOutput: "schemas",
  seed: "seeds",
};

function abilities(capabilities: AgentCapabilities): string {
  const names: readonly (keyof typeof WORDS)[] = [
    "resume",
    "forkAtMessage",
    "chooseSession",
    "usage",
    "cost",
    "structuredOutput",
    "seed",
  ];
  return names.flatMap((name) => (capabilities[name] === true ? [WORDS[name]] : [])).join(", ");
}

function trialText(named: string, trial: AgentTrial, page: Page): string {
  const { outcome, wrote, others, milliseconds } = trial;
  const done = outcome.kind === "completed" && wrote;
  const result =
    outcome.kind === "failed"
      ? `failed (${outcome.cause}): ${outcome.message}`
      : wrote
        ? "wrote the requested file"
        : "exited without an error, but did not write the requested file";
  const lines = [
    [paint(page, done ? "green" : "red", done ? "ok  " : "fail"), `${named} ${result}`],
    ...(outcome.kind === "failed" && outcome.hint !== null ? [["fix ", outcome.hint]] : []),
    ...(outcome.kind === "failed" && outcome.until !== null ? [["when", `available again at ${outcome.until}`]] : []),
    ...(others.length === 0 ? [] : [["also", `it left other files: ${others.join(", ")}`]]),
    ["cost", spent(trial)],
    ["time", timeText(milliseconds)],
  ];
  const text = lines.map(([mark = "", words = ""]) => {
    const [first = "", ...more] = wrap(escapeText(words), room(page) - 6);
    return [`${mark}  ${first}`, ...more.map((line) => `      ${line}`)].join("\n");
  });
  return `${text.join("\n")}\n`;
}

/** Describes what a trial would do, before anything is spent. */
function trialPlanText(plan: string, prompt: string, page: Page): string {
  return `${wrap(escapeText(plan), room(page)).join("\n")}\n\n${prompt}`;
}

function spent({ outcome: { usage } }: AgentTrial): string {
  const { inputTokens, outputTokens, microUsd } = usage;
  const money = microUsd === null ? "cost unknown" : moneyText(microUsd);
  if (inputTokens === null && outputTokens === null) return `tokens unknown, ${money}`;
  return `${tokensText((inputTokens ?? 0) + (outputTokens ?? 0))} (${inputTokens ?? "?"} in, ${outputTokens ?? "?"} out), ${money}`;
}

function wrapped(text: string, page: Page): readonly string[] {
  const [first = "", ...more] = wrap(escapeText(text), room(page) - 2);
  return [first, ...more.map((line) => `  ${line}`)];
}

function room(page: Page): number {
  return Number.isFinite(page.width) ? page.width : 1000;
}
